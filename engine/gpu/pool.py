"""The KV pool in GPU memory: un-rotated keys and values of all layers, in pages of 16 tokens.

Page p holds tokens 16p..16p+15 of all heads and layers. In every layer head g has slot p * G + g of the bank for it, so
one table of slots serves all layers. Memory is taken once, for the life of the pool.

With bases of an index the pool keeps codes of its keys too: of every token in it but the newest of rows that decode.

L layers, G key/value heads, D head dimension, N tokens.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from unabridged.engine.attention.index_basis import Basis
from unabridged.engine.attention.kernels.index import Index, encode
from unabridged.engine.attention.kernels.layout import PAGE, Bank
from unabridged.engine.attention.stages import LayerCache
from unabridged.engine.errors import OutOfMemory
from unabridged.engine.gpu.tables import Tables
from unabridged.engine.kv.blocks import Blocks, Run

# FP8 holds numbers to 448 times these. Un-rotated keys of known models reach about 100 and values about 30, and numbers
# below a 64th of a scale lose digits.
K_SCALE, V_SCALE = 0.5, 0.25
# Tokens that are copied between the host and the device at a time.
_PIECE = 4096


class GpuPool:
    """See engine.kv.blocks.Pool. `dtype`: float8_e4m3fn, bfloat16, float16 or float32."""

    def __init__(
        self,
        layers: int,
        kv_heads: int,
        head_dim: int,
        limit_bytes: int,
        dtype: torch.dtype = torch.float8_e4m3fn,
        device: torch.device | str = "cuda",
        bases: Sequence[Basis] = (),
    ) -> None:
        """Takes at most `limit_bytes` now. `bases`: one a layer, or none for a pool without an index. Raises
        OutOfMemory when the limit is less than a block or more than is free."""
        self.shape, self.dtype, self.device = (layers, kv_heads, head_dim), dtype, torch.device(device)
        self.token_bytes = 2 * layers * kv_heads * head_dim * dtype.itemsize
        widths = [basis.key.shape[2] // 4 for basis in bases]
        self._blocks = Blocks(limit_bytes, self.token_bytes + kv_heads * sum(width + 1 for width in widths))
        self.slots = self._blocks.slots
        # Zeros: rows of a batch that hold no sequence read slot 0 whatever is there, and numbers must come of it.
        pages = self.slots // PAGE
        shape = layers, pages * kv_heads, PAGE, head_dim
        nowhere = torch.empty(0, 0, dtype=torch.int32, device=device)
        try:
            self._k, self._v = (torch.zeros(shape, dtype=dtype, device=device) for _ in range(2))
            self._indexes = [Index.empty(pages, nowhere, basis.to(device)) for basis in bases]
        except torch.OutOfMemoryError as error:
            raise OutOfMemory(
                f"a KV pool of {limit_bytes:,} bytes does not fit into the memory of {self.device}",
                "lower the engine's kv_bytes",
            ) from error
        scales = (K_SCALE, V_SCALE) if dtype == torch.float8_e4m3fn else (1.0, 1.0)
        self._k_scale, self._v_scale = (torch.full((kv_heads,), one, device=device) for one in scales)

    @property
    def free_tokens(self) -> int:
        """Slots not handed out."""
        return self._blocks.free_tokens

    def allocate(self, tokens: int) -> list[Run]:
        """Runs for `tokens` tokens, one run where the free blocks allow it. Raises OutOfMemory and takes nothing."""
        return self._blocks.allocate(tokens)

    def free(self, runs: Iterable[Run]) -> None:
        """Take runs back."""
        self._blocks.free(runs)

    @property
    def indexed(self) -> bool:
        """Whether it keeps an index of the keys."""
        return bool(self._indexes)

    def caches(self, tables: Tables) -> list[LayerCache]:
        """All layers as the rows of `tables` see them."""
        return [self._cache(layer, tables.slots, tables.pages) for layer in range(self.shape[0])]

    def encode(self, tables: Tables, row: int, start: int, end: int) -> None:
        """Bring positions start..end-1 of a row into the index, if there is one."""
        if not self._indexes or end <= start:
            return
        one = slice(row, row + 1)
        first, last = torch.tensor([[start], [end]], dtype=torch.int32).to(self.device, non_blocking=True).unbind(0)
        for layer in range(self.shape[0]):
            cache = self._cache(layer, tables.slots[one], tables.pages[one])
            assert cache.index is not None
            encode(cache.bank, cache.index, first, last, end - start)

    def _cache(self, layer: int, slots: Tensor, pages: Tensor) -> LayerCache:
        bank = Bank(self._k[layer], self._v[layer], slots, slots, self._k_scale, self._v_scale)
        return LayerCache(bank, replace(self._indexes[layer], table=pages) if self._indexes else None)

    def read(self, runs: Sequence[Run]) -> Tensor:
        """Keys and values of runs, one after the other: `[2, L, G, N, D]` on the host, in the pool's type. Waits."""
        layers, heads, dim = self.shape
        out = torch.empty(2, layers, heads, sum(run.length for run in runs), dim, dtype=self.dtype)
        at = 0
        for run in _pieces(runs):
            for half, store in enumerate((self._k, self._v)):
                tokens = self._pages(store, run).transpose(1, 2).flatten(2, 3)
                out[half, :, :, at : at + run.length] = tokens[:, :, : run.length].cpu()
            at += run.length
        return out

    def write(self, runs: Sequence[Run], data: Tensor) -> None:
        """Put what `read` gave into runs of as many tokens. What a run's last page holds behind them is undefined."""
        at = 0
        for run in _pieces(runs):
            for store, part in zip((self._k, self._v), data[:, :, :, at : at + run.length].unbind(0), strict=True):
                tokens = part.contiguous().view(torch.uint8).to(self.device)
                tokens = torch.nn.functional.pad(tokens, (0, 0, 0, -run.length % PAGE)).view(self.dtype)
                self._pages(store, run).copy_(tokens.unflatten(2, (-1, PAGE)).transpose(1, 2))
            at += run.length
        if self._indexes:
            for run in runs:
                self._encode(run)

    def _encode(self, run: Run) -> None:
        own = Tables(1, self.shape[1], run.length, self.device)
        own.put(0, [run])
        self.encode(own, 0, 0, run.length)

    def close(self) -> None:
        """Give the memory back. The pool must not be used afterwards."""
        self._k = self._v = torch.zeros(0)
        self._indexes = []

    def _pages(self, store: Tensor, run: Run) -> Tensor:
        """A run's pages of all layers, `[L, n, G, PAGE, D]`."""
        by_page: Tensor = store.unflatten(1, (-1, self.shape[1]))
        return by_page[:, run.start // PAGE :][:, : -(-run.length // PAGE)]


def _pieces(runs: Sequence[Run]) -> Iterator[Run]:
    """The same tokens, so many at a time that their copies take little memory."""
    for run in runs:
        for at in range(0, run.length, _PIECE):
            yield Run(run.start + at, min(_PIECE, run.length - at))
