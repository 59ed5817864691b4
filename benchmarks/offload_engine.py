"""The engine as the memory plan sizes it, over a context of random keys and values: how long reading more of it takes
at several lengths of the past, reading all of it, the answer's steps, and the GPU memory that all of it took at
most."""

import time
from array import array
from collections.abc import Sequence
from dataclasses import asdict, replace
from itertools import pairwise
from typing import Any

import torch
from benchmarks.decode_context import fill, random_bases, shuffled
from benchmarks.decode_run import summary

from unabridged.engine.attention.config import for_window
from unabridged.engine.attention.limits import PAGE
from unabridged.engine.composing import Composer
from unabridged.engine.events import Composition, Sampling, pack_ids
from unabridged.engine.gpu import memory
from unabridged.engine.gpu.course import GpuCourse
from unabridged.engine.gpu.host_memory import Place
from unabridged.engine.gpu.passes import Streaming
from unabridged.engine.gpu.pool import GpuPool
from unabridged.engine.gpu.runner import GpuRunner
from unabridged.engine.kv.cache import KvCache
from unabridged.engine.plan.divide import divide
from unabridged.engine.plan.machine import DRIVER, Machine
from unabridged.engine.plan.plan import Plan, Subject, Wish
from unabridged.engine.reading import Held, Reader
from unabridged.models.llama import Llama

KIND = "float8_e4m3fn"
# Tokens of the answer, and slots behind the context for it.
_ANSWER, _TAIL = 128, 4096
# Of texts that are read whole: the prefix, and a document.
_PREFIX, _DOCUMENT = 64, 2048
# Of contexts on the GPU, the same as in the host: where the plan has dense attention end there.
_UNLIMITED = 1 << 50
Row = dict[str, Any]


def plan_of(model: Llama, weights: int, name: str, place: Place, tokens: int, vram: int) -> Plan:
    """For one answer at a time over a context of so many tokens. Raises OutOfMemory."""
    subject = Subject(
        name=name,
        config=model.config,
        weights=weights,
        itemsize=2,
        attention=for_window(model.config.window, indexed=True),
        kind=KIND,
        indexed=True,
    )
    machine = Machine(vram=vram, ram=_UNLIMITED, disk=0)
    return divide(subject, machine, Wish("gpu" if place == "device" else "host", context=tokens + _TAIL, slots=1))


def pool_of(model: Llama, plan: Plan, place: Place) -> GpuPool:
    """The plan's pool, with an index."""
    shape = model.config
    dims, limit = (shape.layers, shape.kv_heads, shape.head_dim), memory.limit_bytes(plan)
    device = torch.device(model.device)
    return GpuPool(*dims, limit, getattr(torch, KIND), device, random_bases(shape, device), place)


class Engine:
    """One context that fills the pool, but for the answer's slots."""

    def __init__(self, model: Llama, plan: Plan, pool: GpuPool, below: int) -> None:
        """`below`: contexts shorter than this are attended to whole."""
        self.plan, self.pool, self._model = plan, pool, model
        self._device = pool.device
        self._attention = replace(plan.attention, dense_below=below)
        streaming = Streaming(plan.staged, plan.longest)
        self._runner = GpuRunner(model, self.pool, self._attention, plan.slots, plan.chunk, streaming=streaming)
        self.recorded = self._runner.record()
        memory.reserve(plan, self._device)
        self._runs = shuffled(self.pool.allocate(self.pool.slots))
        fill(self.pool, self._runs)

    def piece(self, past: int, longest: int) -> tuple[int, float]:
        """Tokens and seconds of the next piece behind `past` tokens, the second time: its kernels are there then. As
        long as the engine makes it, or `longest` if that is more."""
        tokens, seconds = 0, 0.0
        for _ in range(2):
            course = self._runner.course(self._runs, [], past, self._attention)
            tokens = course.fits(max(self._runner.chunk(), longest), self.pool.slots - _TAIL - past)
            ids = array("i", torch.randint(self._model.config.vocab_size, (tokens,)).tolist())
            began = time.perf_counter()
            self._runner.read([(course, ids)])
            seconds = time.perf_counter() - began
            course.close()
        return tokens, seconds

    def answer(self, past: int) -> Row:
        """Read a question behind `past` tokens and answer it, the second time: seconds to the first token, and of a
        step. What compiles for it is there then."""
        course, first = self._asked(past)
        course.close()
        course, first = self._asked(past)
        clock = []
        for _ in range(_ANSWER):
            course.next()
            clock.append(time.perf_counter())
        course.close()
        steps = [b - a for a, b in pairwise(clock)][_ANSWER // 4 :]
        return {"first": first, "step": dict(zip(("mean", "p50", "p99"), summary(steps), strict=True))}

    def _asked(self, past: int) -> tuple[GpuCourse, float]:
        """A context whose question of 64 tokens has been read, and its first token chosen, in so many seconds."""
        course = self._runner.course(self._runs, [], past, self._attention)
        began = time.perf_counter()
        self._runner.read([(course, array("i", range(1, 65)))])
        course.first(Sampling(), [], None)
        return course, time.perf_counter() - began

    def reads(self, tokens: int) -> Row:
        """Read `tokens` tokens of documents, as one text and each alone behind the prefix, as the engine reads them.
        Seconds, and of one text what each pass read behind how many tokens. What the pool held is gone."""
        self.pool.free(self._runs)
        self._runs = []
        cache = KvCache(self.pool, PAGE)
        compositions: tuple[Composition, ...] = ("joint", "composable")
        for composition in compositions:
            self._read(cache, 4 * _DOCUMENT, composition)
        done = {composition: self._read(cache, tokens, composition) for composition in compositions}
        return {
            "tokens": sum(count for _, count, _ in done["joint"]),
            "joint": sum(seconds for *_, seconds in done["joint"]),
            "composable": sum(seconds for *_, seconds in done["composable"]),
            "passes": done["joint"],
        }

    def _read(self, cache: KvCache, tokens: int, composition: Composition) -> list[tuple[int, int, float]]:
        """The tokens before each pass, its own, and seconds."""
        vocabulary = self._model.config.vocab_size
        ids = torch.randint(vocabulary, (tokens // _DOCUMENT, _DOCUMENT)).tolist()
        prefix = pack_ids(torch.randint(vocabulary, (_PREFIX,)).tolist())
        parts = Composer("", PAGE, self._attention, "").parts(prefix, map(pack_ids, ids), composition)
        held, reader = Held(), Reader(self._runner, cache, None, self._attention, filler=0)
        passes, before, began = [], 0, time.perf_counter()
        for event in reader.hold("read", parts, held):
            if event is not None and event.done > before:
                now = time.perf_counter()
                passes.append((before, event.done - before, now - began))
                before, began = event.done, now
        for entry in held.holds:
            cache.release(entry)
        return passes

    def used(self) -> Row:
        """GPU memory at most, against the plan. `allocator`: torch's; `others`: what the card has less beside it, which
        is CUDA's own and the kernels' code where nobody else uses it."""
        allocator = torch.cuda.max_memory_reserved(self._device)
        free, total = torch.cuda.mem_get_info(self._device)
        others = total - free - torch.cuda.memory_reserved(self._device)
        return {
            "planned": self.plan.vram,
            "parts": [asdict(part) for part in self.plan.parts],
            "allocator": allocator,
            "others": others,
            "planned_others": DRIVER,
            "used": allocator + others,
            "of_plan": (allocator + others) / self.plan.vram,
        }


def whole(pasts: Sequence[int], rates: Sequence[float], length: int) -> float:
    """Seconds of a text of `length` tokens, from seconds a token behind several lengths of the past, ascending from 0:
    in between they are taken to grow evenly, behind the last to stay."""
    points = [*zip(pasts, rates, strict=True), (length, rates[-1])]
    inside = [(past, rate) for past, rate in points if past < length]
    cut = [*inside, (length, _at(points, length))]
    return sum((b - a) * (x + y) / 2 for (a, x), (b, y) in pairwise(cut))


def _at(points: Sequence[tuple[int, float]], past: int) -> float:
    for (a, x), (b, y) in pairwise(points):
        if a <= past <= b and b > a:
            return x + (y - x) * (past - a) / (b - a)
    return points[-1][1]
