"""Decode steps over a pool in host memory or on the GPU: their times, what the banks had, what came over the bus."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from typing import Any

from benchmarks.decode_context import Context
from benchmarks.decode_run import kernels_of, stepped, summary
from benchmarks.drift import Drift

from unabridged.engine.attention.config import AttentionConfig
from unabridged.engine.gpu.batch import DecodeBatch
from unabridged.models.config import ModelConfig
from unabridged.models.llama import Llama

# The share that choices on the GPU drift by: there it costs nothing, and the kernel that replaces them runs alike.
_ON_GPU = 0.1
# Intervals of the first stage that run before steps count, so that banks hold what they would.
_WARM_INTERVALS = 2
_WARM = 32
Row = dict[str, Any]


@dataclass(frozen=True)
class Bus:
    """Bytes a step over the bus. Counted: `fetched`, pages that the banks lacked. From shapes: `scored`, keys that a
    first stage without an index reads where they lie; `encoded`, keys that the index takes in; `stored`, what a step
    adds to the pool."""

    fetched: float
    scored: float
    encoded: float
    stored: float

    @property
    def total(self) -> float:
        """All of them."""
        return self.fetched + self.scored + self.encoded + self.stored


class Decoding:
    """One conversation at the end of a context. `own`: stages choose as they find; otherwise choices drift."""

    def __init__(self, model: Llama, config: AttentionConfig, context: Context, own: bool) -> None:
        self._model, self._config, self._context = model, config, context
        device = context.pool.device
        self._drift = None if own else Drift(config, context.length, device)
        with self._recording():
            self.batch = DecodeBatch(model, config, context.pool, 1, context.room, mass=True)
            self.captured = self.batch.capture(dense=False)
            context.admit(self.batch, 1)

    def rows(self, shares: tuple[float, ...], steps: int) -> Iterator[Row]:
        """One for each share that a renewal replaces; one of the model's own choices."""
        pool = self._context.pool
        for share in shares if self._drift is not None and pool.offloaded else (_ON_GPU,):
            if self._drift is not None:
                self._drift.set(share)
            warm = max(_WARM, _WARM_INTERVALS * max(self._config.intervals(3)))
            with self._recording():
                stepped(self.batch, warm)
                before = self.batch.traffic(0)
                gpu, wall = stepped(self.batch, steps)
                after = self.batch.traffic(0)
            row: Row = {
                "choice": "own" if self._drift is None else f"drift {share:.0%}",
                "tokens_per_second": len(wall) / sum(wall),
                "gpu": dict(zip(("mean", "p50", "p99"), summary(gpu), strict=True)),
                "wall": dict(zip(("mean", "p50", "p99"), summary(wall), strict=True)),
                "captured": asdict(self.captured),
            }
            if before is not None and after is not None:
                # Two more steps than are timed.
                done = len(gpu) + 2
                found, fetched = after.found - before.found, after.fetched - before.fetched
                keys, values = (found.sum(1) / (found + fetched).sum(1).clamp(min=1)).tolist()
                bus = bus_of(self._model.config, self._config, self._context, fetched.sum().item() / done)
                row |= {"hits": {"keys": keys, "values": values}, "bus": asdict(bus) | {"total": bus.total}}
            yield row

    def kernels(self) -> float:
        """Of a step, by the profiler; 0 where it does not tell."""
        with self._recording():
            return kernels_of(self.batch)

    def _recording(self) -> AbstractContextManager[object]:
        # Without a GPU nothing is recorded: steps choose as they run.
        return nullcontext() if self._drift is None else self._drift.recording()


def bus_of(model: ModelConfig, config: AttentionConfig, context: Context, pages: float) -> Bus:
    """Of steps that fetch so many pages of one head each."""
    pool = context.pool
    head = model.head_dim * pool.dtype.itemsize
    key = model.kv_heads * head
    scored = sum(first_stage_bytes(config, layer, context.length, key) for layer in range(model.layers))
    return Bus(
        fetched=pages * 16 * head,
        scored=scored,
        encoded=model.layers * key if scored == 0 else 0,
        stored=2 * model.layers * key,
    )


def first_stage_bytes(config: AttentionConfig, layer: int, length: int, key: int) -> float:
    """Of keys that a layer's first stage reads where they lie, a step; `key`: bytes of a token's in a layer."""
    settings = config.layer(layer)
    stage, interval = settings.stages[0], config.intervals(len(settings.stages))[0]
    keys = length - config.sink - config.stream
    if stage.scorer == "index":
        return 0.0
    # A tournament reads log2(l) + 1 keys of a chunk, if the heads of a group agree on them.
    return (keys if stage.scorer == "exact" else keys // stage.chunk * stage.chunk.bit_length()) * key / interval
