"""Long texts of random tokens through a whole model in GPU memory, timed: in one go, and as sections behind a prefix.
And the matrix products that linear layers cannot do without."""

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial

import torch
from benchmarks.decode_context import random_bases, token_bytes
from benchmarks.gpu import eager_time
from torch import Tensor

from unabridged.engine.attention.config import AttentionConfig
from unabridged.engine.gpu.pool import GpuPool
from unabridged.engine.gpu.prefill import Part, Prefill
from unabridged.engine.kv.blocks import BLOCK, Run
from unabridged.models.attention import Attend
from unabridged.models.config import ModelConfig
from unabridged.models.llama import Llama

PREFIX, SECTION = 64, 2048


@dataclass(frozen=True)
class Reading:
    """`tokens` read in `seconds`, of which `attention` were the GPU's time in attention."""

    tokens: int
    seconds: float
    attention: float


class Watched(Llama):
    """The model, with a clock around its attention."""

    def __init__(self, model: Llama) -> None:
        vars(self).update(vars(model))
        self._marks: list[tuple[torch.cuda.Event, torch.cuda.Event]] = []

    def forward(self, ids: Tensor, attend: Attend) -> Tensor:
        def timed(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            out = attend(layer, q, k, v)
            end.record()
            self._marks.append((begin, end))
            return out

        return super().forward(ids, timed)

    def attention(self) -> float:
        """Seconds in attention since the last call. Everything queued has run."""
        spent = [float(begin.elapsed_time(end)) for begin, end in self._marks]
        self._marks.clear()
        return sum(spent) / 1e3


def pool_of(model: ModelConfig, tokens: int, dtype: torch.dtype) -> GpuPool:
    """Room for so many tokens, with an index."""
    bases = random_bases(model)
    size = (tokens + BLOCK) * token_bytes(model, dtype, bases)
    return GpuPool(model.layers, model.kv_heads, model.head_dim, size, dtype, bases=bases)


class Text:
    """Random tokens that are read in one go, in pieces."""

    def __init__(self, model: Llama, pool: GpuPool, length: int, piece: int) -> None:
        self._model, self._pool, self._piece = Watched(model), pool, piece
        self._ids = torch.randint(model.config.vocab_size, (length,)).tolist()
        self._warm: set[tuple[int, ...]] = set()

    def read(self, config: AttentionConfig, average: dict[str, int]) -> Reading:
        """Read it; before that, once, what of it runs other kernels: the first piece and the last."""
        prefill = Prefill(self._model, config, self._pool, 1, len(self._ids), average)
        with _slots(self._pool, len(self._ids)) as runs:
            prefill.put(0, runs)
            starts = range(0, len(self._ids), self._piece)
            keeps = (stage.keep for layer in config.layers for stage in layer.stages)
            kind = (config.dense_below, *average.values(), *keeps)
            if kind not in self._warm:
                self._pieces(prefill, sorted({starts[0], starts[-1]}))
                self._warm.add(kind)
            return self._pieces(prefill, starts)

    def _pieces(self, prefill: Prefill, starts: Sequence[int]) -> Reading:
        parts = [[Part(0, start, self._ids[start : start + self._piece])] for start in starts]
        return _timed(self._model, prefill, parts)


def read_sections(model: Llama, pool: GpuPool, config: AttentionConfig, tokens: int, piece: int) -> Reading:
    """As many sections as make `tokens`, each alone behind one prefix, several in a forward pass of `piece` tokens."""
    watched, together = Watched(model), max(1, piece // SECTION)
    prefill = Prefill(watched, config, pool, together, PREFIX + SECTION)
    ids = torch.randint(model.config.vocab_size, (PREFIX + SECTION,)).tolist()
    with ExitStack() as taken:
        prefix = taken.enter_context(_slots(pool, PREFIX))
        for row in range(together):
            prefill.put(row, [*prefix, *taken.enter_context(_slots(pool, SECTION))])
        prefill.read([Part(0, 0, ids[:PREFIX])])
        parts = [Part(row, PREFIX, ids[PREFIX:]) for row in range(together)]
        _timed(watched, prefill, [parts])
        return _timed(watched, prefill, [parts] * max(1, tokens // SECTION // together))


@contextmanager
def _slots(pool: GpuPool, tokens: int) -> Iterator[list[Run]]:
    runs = pool.allocate(tokens)
    try:
        yield runs
    finally:
        pool.free(runs)


def _timed(model: Watched, prefill: Prefill, passes: Sequence[Sequence[Part]]) -> Reading:
    torch.cuda.synchronize()
    model.attention()
    began = time.perf_counter()
    for parts in passes:
        prefill.read(parts)
    torch.cuda.synchronize()
    seconds = time.perf_counter() - began
    return Reading(sum(len(part.ids) for parts in passes for part in parts), seconds, model.attention())


@dataclass(frozen=True)
class Products:
    """The matrix products of all layers' projections over some tokens: operations, and seconds by torch.mm."""

    operations: float
    seconds: float

    @property
    def rate(self) -> float:
        """Operations a second."""
        return self.operations / self.seconds


def products(model: ModelConfig, tokens: int, dtype: torch.dtype) -> Products:
    """Floating weights at the real shapes; embedding and head do not count."""
    wide = (model.heads + 2 * model.kv_heads) * model.head_dim
    shapes = [
        (wide, model.hidden),
        (model.hidden, model.heads * model.head_dim),
        (2 * model.intermediate, model.hidden),
        (model.hidden, model.intermediate),
    ]
    operations, seconds = 0.0, 0.0
    for rows, columns in shapes:
        weight = torch.randn(rows, columns, dtype=dtype, device="cuda").t()
        x = torch.randn(tokens, columns, dtype=dtype, device="cuda")
        out = torch.empty(tokens, rows, dtype=dtype, device="cuda")
        operations += 2.0 * rows * columns * tokens * model.layers
        seconds += eager_time(partial(torch.mm, x, weight, out=out), 8) * model.layers
    return Products(operations, seconds)
