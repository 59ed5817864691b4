"""The GPU's engine, asked: an engine for a place of its keys and values, one question at a time, what the answer took.

Place       where keys and values lie, as the engine's options say
calibrated  the model with a calibration of its index
ask         a request's token ids, times, and what came over the bus
gap         by how much the best next token leads
"""

import gc
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import msgspec
import torch
from benchmarks.needle_contexts import Contexts
from torch import Tensor

from unabridged.engine.attention.calibrate import basis, observe
from unabridged.engine.attention.config import AttentionConfig, for_window
from unabridged.engine.attention.index_basis import Calibration, store, width_of
from unabridged.engine.events import Finished, Generate, Progress, Sampling, Segment, Token, pack_ids
from unabridged.engine.gpu import memory
from unabridged.engine.gpu.backend import GpuBackend
from unabridged.engine.gpu.bank_pages import SHARE, BankRoom
from unabridged.engine.kv.blocks import BLOCK, whole_blocks
from unabridged.engine.options import EngineOptions
from unabridged.models.llama import Llama
from unabridged.models.load import load
from unabridged.models.manifest import CALIBRATION, MANIFEST, SCHEMA, Manifest, read_manifest, write_manifest

# Slots that an answer takes at a time, and those around it.
_ANSWER = 512
Row = dict[str, Any]


@dataclass(frozen=True)
class Place:
    """`options`: but for `context_tokens`. `tight`: banks hold no more than a list of each stage. `most`: tokens
    of a context that is asked about here, 0: any. `share`: of the time. `device`, `dtype`: see GpuBackend."""

    name: str
    options: EngineOptions
    tight: bool = False
    most: int = 0
    share: float = 1.0
    device: str = "cuda:0"
    dtype: torch.dtype | None = None


@dataclass(frozen=True)
class Asked:
    """One answer. `read`: tokens of documents that were not there; `prepared`, `reading`: seconds until they are being
    read, and that it takes; `first_token`: seconds to it, without those of reading; `step`: mean seconds of a token
    behind the first."""

    ids: tuple[int, ...]
    text: str
    reason: str
    read: int
    prepared: float
    reading: float
    first_token: float
    step: float
    bus: Row | None


def calibrated(folder: Path, contexts: Contexts, into: Path) -> Path:
    """The folder if it has a calibration, else `into`: links to its files, and one made of the contexts' documents for
    it, in float32 on the CPU."""
    if (folder / CALIBRATION).exists():
        return folder
    for path in folder.iterdir():
        (into / path.name).symlink_to(path.resolve())
    model = load(folder, torch.float32, kernels=False)[0]
    window = model.config.window
    if not (folder / MANIFEST).exists():
        write_manifest(into, _manifest(folder, window))
    stream = for_window(window, indexed=True).stream
    with torch.inference_mode():
        moments = observe(model, contexts.calibration, contexts.prefix, stream)
    layers = tuple(basis(one, width_of(model.config.head_dim)) for one in moments)
    store(into / CALIBRATION, Calibration(layers, read_manifest(into).fingerprint, stream, moments[0].tokens))
    return into


def _manifest(folder: Path, window: int) -> Manifest:
    return Manifest(
        schema=SCHEMA,
        name=folder.name,
        format="safetensors",
        source=str(folder),
        window=window,
        parameters=0,
        fingerprint=folder.name,
        files=(),
        defaults={},
    )


def engine_for(place: Place, model: Path, tokens: int, questions: int) -> GpuBackend:
    """An engine whose pool holds `tokens` tokens and so many answers."""
    if place.device != "cpu":
        gc.collect()
        torch.cuda.empty_cache()
        torch.cuda.set_per_process_memory_fraction(1.0)
        torch.cuda.reset_peak_memory_stats()
    # A document's last block may be half empty.
    context = whole_blocks(tokens + questions * (_ANSWER + BLOCK))
    options = msgspec.structs.replace(place.options, context_tokens=context)
    with _one_list() if place.tight else nullcontext():
        return GpuBackend(model, options, place.device, place.dtype)


@contextmanager
def _one_list() -> Iterator[None]:
    """Banks are made for what one list takes."""
    usual = BankRoom.of

    def tight(config: AttentionConfig, layers: int, slots: int, room: int, share: float = SHARE) -> BankRoom:
        made = usual(config, layers, slots, room, share)
        keys, values = made.alone.listed
        return replace(made, alone=replace(made.alone, keys=keys, values=values))

    with patch.object(BankRoom, "of", tight):
        yield


def request(prefix: Sequence[int], segments: Iterable[Sequence[int]], prompt: Sequence[int], tokens: int) -> Generate:
    """Greedy, `tokens` tokens at most."""
    return Generate(
        id="needle",
        prefix=pack_ids(prefix),
        segments=tuple(Segment(pack_ids(one)) for one in segments),
        prompt=pack_ids(prompt),
        sampling=Sampling(max_tokens=tokens),
        attribution=False,
    )


def ask(engine: GpuBackend, asked: Generate) -> Asked:
    """The answer."""
    began = time.perf_counter()
    ids: list[int] = []
    text, read, first = "", 0, None
    reading = [began, began]
    for event in engine.run(asked):
        now = time.perf_counter()
        if isinstance(event, Progress) and event.phase == "read":
            read = event.done
            reading = [reading[0] if event.done else now, now]
        elif isinstance(event, Token):
            first = first or now
            ids += event.ids
            text += event.text
        elif isinstance(event, Finished):
            first = first or now
            bus = event.attention.bus if event.attention is not None else None
            return Asked(
                ids=tuple(ids),
                text=text,
                reason=event.reason,
                read=read,
                prepared=reading[0] - began,
                reading=reading[1] - reading[0],
                first_token=first - began - (reading[1] - reading[0]),
                step=event.decode_seconds / max(1, event.usage.completion - 1),
                bus=None if bus is None else msgspec.structs.asdict(bus),
            )
    raise RuntimeError("the engine ended without an answer")


def over_the_bus(asked: Sequence[Asked]) -> Row | None:
    """What all answers had of the host's pool while they were decoded."""
    reports = [one.bus for one in asked if one.bus is not None]
    if not reports:
        return None
    sums: Row = {name: sum(one[name] for one in reports) for name in reports[0]}
    for kind in ("keys", "values"):
        pages = sums[f"{kind}_found"] + sums[f"{kind}_fetched"]
        sums[f"{kind}_rate"] = sums[f"{kind}_found"] / max(1, pages)
    return sums | {"bytes_a_step": sums["bytes"] / max(1, sums["steps"])}


def gap(engine: GpuBackend, asked: Generate) -> Row:
    """The two best tokens behind the prompt, and how many logits lie between them."""
    seen: list[Tensor] = []
    usual = Llama.logits

    def noting(model: Llama, hidden: Tensor) -> Tensor:
        seen.append(usual(model, hidden))
        return seen[-1]

    with patch.object(Llama, "logits", noting):
        ask(engine, asked)
    best = seen[-1][0].float().topk(2)
    one, other = best.values.tolist()
    return {"best": best.indices.tolist(), "gap": one - other}


def memory_of(engine: GpuBackend) -> Row:
    """GPU memory at most since the engine was made, and what was planned. Bytes."""
    ready = engine.ready()
    used = memory.most_taken(torch.device("cuda")) if ready.device != "cpu" else 0
    return {"used": used, "planned": sum(size for _, size in ready.memory), "host": ready.host_bytes}
