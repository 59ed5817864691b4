"""Keys and values of the contexts of a prompt's pass, a layer at a time on the GPU, where the pool lies in the host.

A layer of a long context is gigabytes, and each of a piece's blocks reads much of it: it is brought over the bus once a
pass, in the order of positions. There are two buffers. While a layer computes in one of them, a stream of its own takes
to the pool what the layer before added to the other, and then brings there the past of the layer after.

    begin   the contexts of a pass
    enter   the layer's past is there; its cache is read and written
    leave   the layer's attention is queued
    end     what is queued from now on finds the pool as the pass left it; after one that failed, too

Without a CUDA device each happens at once. One instance serves all passes, one at a time.

R rows of tables, G key/value heads, D head dimension.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace

import torch

from unabridged.engine.attention.kernels.layout import PAGE, Bank
from unabridged.engine.attention.stages import LayerCache
from unabridged.engine.gpu.kernels.pages import Paged, copy_pages
from unabridged.engine.gpu.pool import GpuPool
from unabridged.engine.gpu.tables import Tables


@dataclass(frozen=True)
class Span:
    """The context in `row` of the tables: `start` tokens of it are stored, the pass adds those up to `end`."""

    row: int
    start: int
    end: int


def pages(tokens: int) -> int:
    """Pages that hold so many tokens."""
    return -(-tokens // PAGE)


class Staging:
    """See the module."""

    def __init__(self, pool: GpuPool, rows: int, tokens: int) -> None:
        """`rows`: R, of every table that `begin` gets. `tokens`: of a pass's contexts together, each filled up to whole
        pages. How much memory it takes, plan.kv says."""
        self._pool, self._heads, dim = pool, pool.shape[1], pool.shape[2]
        self.pages = pages(tokens)
        shape, device = (2, self.pages * self._heads, PAGE, dim), pool.device
        # Zeros: what was never written travels with its page, and numbers must come of it.
        k, v = (torch.zeros(shape, dtype=pool.dtype, device=device) for _ in range(2))
        table = torch.full((1, rows, self._heads, self.pages), -1, dtype=torch.int32, device=device)
        self._paged = Paged(k, v, table, table)
        order = torch.arange(self.pages * self._heads, dtype=torch.int32, device=device)
        self._order = order.view(self.pages, self._heads).t().contiguous()
        # Bytes that went over the bus since it is there, either way.
        self.moved = 0
        self._page_bytes = 2 * self._heads * PAGE * dim * pool.dtype.itemsize
        self._spans: Sequence[Span] = ()
        self._source: Paged | None = None
        # Before all others: whatever waits for the bus should have it.
        self._stream = torch.cuda.Stream(device, priority=-1) if device.type == "cuda" else None
        self._loaded, self._left = ([torch.cuda.Event() for _ in range(2)] if self._stream else [] for _ in range(2))

    def caches(self, tables: Tables) -> list[LayerCache]:
        """All layers as passes over `tables` see them here: the keys and values of the spans, the pool's index."""
        k, v, table = self._paged.k, self._paged.v, self._paged.k_table[0]
        return [
            replace(cache, bank=Bank(k[layer % 2], v[layer % 2], table, table, self._pool.k_scale, self._pool.v_scale))
            for layer, cache in enumerate(self._pool.caches(tables))
        ]

    def fits(self, spans: Sequence[Span]) -> bool:
        """Whether there is room for these in one pass."""
        return sum(pages(span.end) for span in spans) <= self.pages

    def begin(self, tables: Tables, spans: Sequence[Span]) -> None:
        """A pass over these contexts, each of which has slots in `tables`. ValueError where they do not fit."""
        if not self.fits(spans):
            tokens = sum(span.end for span in spans)
            raise ValueError(f"{tokens:,} tokens in a pass with room for {self.pages * PAGE:,}")
        table, first = self._paged.k_table[0].fill_(-1), 0
        for span in spans:
            count = pages(span.end)
            torch.add(self._order[:, :count], first * self._heads, out=table[span.row, :, :count])
            first += count
        pool = self._pool
        self._spans, self._source = spans, pool.paged(tables)
        if self._stream is not None:
            self._stream.wait_stream(torch.cuda.current_stream(pool.device))
        for layer in range(min(2, pool.shape[0])):
            self._load(layer)

    def enter(self, layer: int) -> None:
        """What the current stream does from now on finds the layer's past in its cache."""
        if self._stream is not None:
            torch.cuda.current_stream(self._pool.device).wait_event(self._loaded[layer % 2])

    def leave(self, layer: int) -> None:
        """The layer's attention is queued on the current stream, and nothing more that uses its cache."""
        if self._stream is not None:
            self._left[layer % 2].record(torch.cuda.current_stream(self._pool.device))
            self._stream.wait_event(self._left[layer % 2])
        self._store(layer)
        if layer + 2 < self._pool.shape[0]:
            self._load(layer + 2)

    def end(self) -> None:
        """The pass is queued, or has failed."""
        if self._stream is not None:
            torch.cuda.current_stream(self._pool.device).wait_stream(self._stream)
        self._spans, self._source = (), None

    def _load(self, layer: int) -> None:
        """Bring a layer's past here."""
        assert self._source is not None
        with self._aside():
            for span in self._spans:
                row, count, layers = span.row, pages(span.start), range(layer, layer + 1)
                copy_pages(self._source, self._paged, row, row, 0, count, layers, layer % 2)
                self.moved += count * self._page_bytes
            if self._stream is not None:
                self._loaded[layer % 2].record(self._stream)

    def _store(self, layer: int) -> None:
        """Take what a layer added to the pool, with what its first pages held before."""
        assert self._source is not None
        with self._aside():
            for span in self._spans:
                first, layers = span.start // PAGE, range(layer % 2, layer % 2 + 1)
                count = pages(span.end) - first
                copy_pages(self._paged, self._source, span.row, span.row, first, count, layers, layer)
                self.moved += count * self._page_bytes

    def _aside(self) -> AbstractContextManager[object]:
        return torch.cuda.stream(self._stream) if self._stream is not None else nullcontext()
