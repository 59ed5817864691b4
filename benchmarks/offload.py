"""Keys and values in host memory: decode steps, prefill, GPU memory and the disk, beside everything on the GPU.

    python -m benchmarks.offload --model DIR | --random 8b  [--contexts 131072 524288 1048576 1638400]
                                 [--presets 3k-index 3k 5k] [--refresh paper fast flash] [--drift 5 10 20 100]
                                 [--vram 24] [--place auto|managed|pinned] [--only decode engine read disk]
                                 [--folder DIR]

decode   One conversation at the end of a context of random keys and values, with the pool on the GPU and then in host
         memory, where torch may take --vram GiB at most. Rows: the model's own choices, which with random weights
         change about as much as choices can; and choices that drift, where each renewal replaces a stated share of
         what a stage keeps (drift.py). Steps run as the engine runs them: CUDA graphs, sampling inside, one launched
         ahead of the collected one; those of two intervals of the first stage do not count.
engine   The engine as the memory plan sizes it for one answer at a time. Prefill: pieces, as long as the engine makes
         them behind a past in host memory and of the same lengths on the GPU, at several lengths of the past; the whole
         text is the sum of what they take a token, which is taken to grow evenly in between. Contexts are attended to
         whole below the same length in both. And: seconds from a question's end to the first token, steps of the
         answer, and the GPU memory at most against the plan.
read     With engine: all of the context is read, as one text and as documents that are each alone behind a prefix, as
         the engine reads them: behind a long past in longer passes where the pool lies in host memory.
disk     Writing and restoring --disk-gib of the pool, beside dd.

Ratios are to rows of the same run with all on the GPU. Writes benchmarks/results/offload.json.
"""

import argparse
import gc
import itertools
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
from benchmarks.decode_context import Context, token_bytes
from benchmarks.decode_floor import floor
from benchmarks.gpu import card, copy_bandwidth, require_gpu, say
from benchmarks.loaded import add_model, folder_of, loaded
from benchmarks.offload_decode import Decoding
from benchmarks.offload_disk import disk
from benchmarks.offload_engine import Engine, plan_of, pool_of, whole
from benchmarks.offload_lines import decode_line, disk_line, engine_line
from benchmarks.report import machine, save

from unabridged.engine.attention.config import AttentionConfig, choose
from unabridged.engine.events import AttentionChoice
from unabridged.engine.gpu.host_memory import HostPlace, Place, best_place
from unabridged.engine.plan.machine import DRIVER
from unabridged.engine.plan.search import DENSE_BELOW
from unabridged.models.errors import UnabridgedError
from unabridged.models.llama import Llama

GIB = 1 << 30
# Shares of the context at which a piece is read.
_PASTS = (0.0, 0.125, 0.25, 0.5, 0.75, 0.96)
_FAILURES = (RuntimeError, ValueError, UnabridgedError)
_KINDS = ("decode", "engine", "read", "disk")
Row = dict[str, Any]


def main() -> None:
    """Measure, print, save."""
    arguments = _arguments()
    require_gpu("offload")
    torch.manual_seed(0)
    result: Row = {**machine(), **card(), "vram": round(arguments.vram * GIB), "steps": arguments.steps}
    if arguments.commit:
        result["commit"] = arguments.commit
    model = loaded(folder_of(arguments), arguments, result)
    benchmark = Benchmark(model, arguments, result)
    result["copy_bandwidth"] = copy_bandwidth()
    for length in arguments.contexts:
        if "decode" in arguments.only:
            benchmark.decode(length)
        if {"engine", "read"} & set(arguments.only):
            benchmark.engine(length)
    if "disk" in arguments.only:
        benchmark.disk(arguments.folder)


class Benchmark:
    """All rows. What fails is reported, and the others go on."""

    def __init__(self, model: Llama, arguments: argparse.Namespace, result: Row) -> None:
        self._model, self._arguments, self._result = model, arguments, result
        self._device = torch.device(model.device)
        result |= {"decode": [], "engine": [], "disk": []}

    def decode(self, length: int) -> None:
        """Steps at the end of a context of `length` tokens: on the GPU, then in host memory."""
        base: dict[tuple[str, ...], float] = {}
        for place in ("device", self._host(length)):
            with self._guarded(f"context {length:,} in {place} memory"), self._held(place):
                self._decode(length, place, base)

    def _decode(self, length: int, place: Place, base: dict[tuple[str, ...], float]) -> None:
        torch.cuda.reset_peak_memory_stats(self._device)
        context = Context(self._model.config, length, 1, torch.float8_e4m3fn, place, self._device)
        say(f"context {length:,} in {place} memory: {context.pool.slots:,} tokens")
        with closing(context.pool):
            for config in self._configs():
                with self._guarded(f"{length:,} {config.name} {config.refresh}"):
                    for row in self._steps(config, context, place):
                        key = (config.name, str(config.refresh), row["choice"].split()[0])
                        if place == "device":
                            base[key] = row["gpu"]["mean"]
                        elif key in base:
                            row["of_gpu"] = row["gpu"]["mean"] / base[key]
                        say(decode_line(row))
                        self._keep("decode", row)

    def engine(self, length: int) -> None:
        """The engine over a context of `length` tokens: in host memory, then the same on the GPU."""
        base: Row | None = None
        for place in (self._host(length), "device"):
            with self._guarded(f"engine over {length:,} in {place} memory"), self._held(place):
                row = self._engine(length, place, base)
                if base is not None:
                    row["host_of_gpu"] = {
                        "prefill": base["prefill"] / row["prefill"],
                        "step": base["step"]["mean"] / row["step"]["mean"],
                    }
                    if "read" in row:
                        for name in ("joint", "composable"):
                            row["host_of_gpu"][name] = base["read"][name] / row["read"][name]
                base = base or row
                say(engine_line(row))
                self._keep("engine", row)

    def _engine(self, length: int, place: Place, like: Row | None) -> Row:
        """`like`: the row whose pieces and dense attention this one takes over."""
        total = torch.cuda.mem_get_info(self._device)[1]
        vram = total if place == "device" else self._result["vram"]
        plan = plan_of(self._model, self._result["load"]["device"], self._result["model"], place, length, vram)
        below = like["dense_below"] if like else plan.attention.dense_below
        row: Row = {"context": length, "place": place, "dense_below": below, "pieces": []}
        torch.cuda.reset_peak_memory_stats(self._device)
        pool = pool_of(self._model, plan, place)
        with closing(pool):
            engine = Engine(self._model, plan, pool, below)
            pasts = [int(share * length) // 64 * 64 for share in _PASTS]
            for number, past in enumerate(pasts):
                tokens, seconds = engine.piece(past, like["pieces"][number]["tokens"] if like else 0)
                row["pieces"].append({"past": past, "tokens": tokens, "seconds": seconds})
                say(f"  behind {past:9,}: {tokens:6,} tokens in {seconds:.3f} s")
            rates = [one["seconds"] / one["tokens"] for one in row["pieces"]]
            row["prefill"] = whole(pasts, rates, length)
            row |= engine.answer(length)
            if "read" in self._arguments.only:
                row["read"] = engine.reads(length)
            return row | {"memory": engine.used()}

    def disk(self, folder: Path | None) -> None:
        """The pool and a disk."""
        size, model = round(self._arguments.disk_gib * GIB), self._model.config
        tokens = size // token_bytes(model, torch.float8_e4m3fn, ()) // 4096 * 4096
        for place in (self._host(tokens), "device"):
            with self._guarded(f"disk and {place} memory"), tempfile.TemporaryDirectory(dir=folder) as inside:
                context = Context(model, tokens, 1, torch.float8_e4m3fn, place, self._device)
                with closing(context.pool):
                    row = disk(context.pool, context.stored, Path(inside) / "kv", 2048)
                say(disk_line(place, row))
                self._keep("disk", {"place": place} | row)

    def _steps(self, config: AttentionConfig, context: Context, place: Place) -> Iterator[Row]:
        shares = tuple(percent / 100 for percent in self._arguments.drift)
        least = floor(self._model, config, context.pool, context.length, 1)
        head: Row = {"context": context.length, "preset": config.name, "refresh": list(config.refresh), "place": place}
        for own in (True, False):
            decoding = Decoding(self._model, config, context, own)
            rows = [*decoding.rows(shares, self._arguments.steps)]
            memory, kernels = torch.cuda.max_memory_reserved(self._device), decoding.kernels()
            for row in rows:
                yield head | row | {"floor": asdict(least), "kernels": kernels, "memory": memory}
            del decoding
            gc.collect()
            torch.cuda.empty_cache()

    def _configs(self) -> list[AttentionConfig]:
        arguments, window = self._arguments, self._model.config.window
        pairs = itertools.product(arguments.presets, arguments.refresh)
        configs = [choose(AttentionChoice(preset=a, refresh=b), window, indexed=True) for a, b in pairs]
        return [replace(config, dense_below=min(config.dense_below, DENSE_BELOW)) for config in configs]

    def _host(self, tokens: int) -> HostPlace:
        size, chosen = tokens * token_bytes(self._model.config, torch.float8_e4m3fn, ()), self._arguments.place
        return best_place(self._device, size) if chosen == "auto" else chosen

    @contextmanager
    def _held(self, place: Place) -> Iterator[None]:
        """With the pool in host memory torch takes no more than --vram, less what CUDA takes beside it."""
        gc.collect()
        torch.cuda.empty_cache()
        total = torch.cuda.get_device_properties(self._device).total_memory
        share = 1.0 if place == "device" else min(1.0, (self._result["vram"] - DRIVER) / total)
        torch.cuda.set_per_process_memory_fraction(share, self._device)
        try:
            yield
        finally:
            torch.cuda.set_per_process_memory_fraction(1.0, self._device)

    @contextmanager
    def _guarded(self, what: str) -> Iterator[None]:
        try:
            yield
        except _FAILURES as error:
            say(f"failed: {what}: {type(error).__name__}: {str(error)[:300]}")

    def _keep(self, kind: str, row: Row) -> None:
        self._result[kind].append(row)
        if not self._arguments.no_save:
            save("offload", self._result)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_model(parser)
    parser.add_argument("--contexts", type=int, nargs="+", default=[131072, 524288, 1048576, 1638400])
    parser.add_argument("--presets", nargs="+", default=["3k-index", "3k", "5k"])
    parser.add_argument("--refresh", nargs="+", default=["paper", "fast", "flash"])
    parser.add_argument("--drift", type=float, nargs="*", default=[5, 10, 20, 100], help="percent a renewal")
    parser.add_argument("--vram", type=float, default=24.0, help="GiB")
    parser.add_argument("--place", choices=("auto", "managed", "pinned"), default="auto")
    parser.add_argument("--only", choices=_KINDS, nargs="+", default=_KINDS)
    parser.add_argument("--steps", type=int, default=192)
    parser.add_argument("--disk-gib", type=float, default=8.0)
    parser.add_argument("--folder", type=Path, help="on the disk that is measured")
    parser.add_argument("--commit", help="where git cannot tell")
    parser.add_argument("--no-save", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    main()
