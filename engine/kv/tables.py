"""Where the tokens of one context lie: positions to slots. Knows the pool's layout, not its policy.

A context is a list of runs: prefix, segments, prompt. Runs that follow each other in the pool are merged, and each run
is read as a view; only scattered positions are gathered. G key/value heads, D head dimension, N tokens.
"""

from collections.abc import Iterable, Iterator

import torch
from torch import Tensor

from unabridged.engine.kv.blocks import Run
from unabridged.engine.kv.pool import KvPool


class Context:
    """The table of one context. Positions 0..length-1 hold KV; `reserved` of them have a slot already."""

    def __init__(self, pool: KvPool, filled: Iterable[Run], room: Iterable[Run] = ()) -> None:
        """`filled`: runs that hold KV, in order; `room`: runs that new tokens are written to."""
        self._pool = pool
        self._runs: list[tuple[int, int]] = []
        self._parts: list[Tensor] = []
        self.length = 0
        self.reserved = 0
        for run in filled:
            self._add(run)
        self.length = self.reserved
        for run in room:
            self._add(run)
        self.slots = torch.cat(self._parts) if self._parts else torch.zeros(0, dtype=torch.int64)

    def _add(self, run: Run) -> None:
        if run.length == 0:
            return
        if self._runs and sum(self._runs[-1]) == run.start:
            self._runs[-1] = (self._runs[-1][0], self._runs[-1][1] + run.length)
        else:
            self._runs.append((run.start, run.length))
        self._parts.append(torch.arange(run.start, run.start + run.length))
        self.reserved += run.length

    @property
    def dtype(self) -> torch.dtype:
        """The storage type of keys and values."""
        return self._pool.k.dtype

    @property
    def heads(self) -> int:
        """G."""
        return self._pool.k.shape[1]

    def extend(self, runs: Iterable[Run]) -> None:
        """More room at the end."""
        for run in runs:
            self._add(run)
        self.slots = torch.cat(self._parts)

    def spans(self, start: int, end: int) -> list[tuple[int, slice]]:
        """Positions start..end-1 as (first position, slots): one entry per run of slots."""
        out, position = [], 0
        for first, length in self._runs:
            low, high = max(start, position), min(end, position + length)
            if low < high:
                out.append((low, slice(first + low - position, first + high - position)))
            position += length
        return out

    def write(self, layer: int, start: int, k: Tensor, v: Tensor) -> None:
        """Store k and v `[G, T, D]` of `layer` at positions start..start+T-1."""
        for position, slots in self.spans(start, start + k.shape[1]):
            part = slice(position - start, position - start + slots.stop - slots.start)
            self._pool.k[layer, :, slots] = k[:, part]
            self._pool.v[layer, :, slots] = v[:, part]

    def rows(self, position: int) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
        """The places of one position's keys and values: a view `[G, D]` a layer, in the storage type."""
        slot = int(self.slots[position])
        return self._pool.k[:, :, slot].unbind(0), self._pool.v[:, :, slot].unbind(0)

    def read(self, layer: int, start: int, end: int) -> tuple[Tensor, Tensor]:
        """Keys and values of positions start..end-1, `[G, end-start, D]` float32, copied."""
        shape = (self._pool.k.shape[1], end - start, self._pool.k.shape[3])
        k, v = torch.empty(shape), torch.empty(shape)
        for position, slots in self.spans(start, end):
            part = slice(position - start, position - start + slots.stop - slots.start)
            k[:, part] = self._pool.k[layer, :, slots]
            v[:, part] = self._pool.v[layer, :, slots]
        return k, v

    def keys(self, layer: int, start: int, end: int) -> Iterator[tuple[int, Tensor]]:
        """Keys of positions start..end-1 as views: (first position, `[G, n, D]` in the storage type)."""
        for position, slots in self.spans(start, end):
            yield position, self._pool.k[layer, :, slots]

    def gather(self, layer: int, positions: Tensor) -> Tensor:
        """Keys at `positions` `[B, G, N]`: `[B, G, N, D]` float32. A negative position gives some row: mask it."""
        return _take(self._pool.k[layer], self._flat(positions), positions.shape)

    def gather_both(self, layer: int, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values at `positions`."""
        flat = self._flat(positions)
        return _take(self._pool.k[layer], flat, positions.shape), _take(self._pool.v[layer], flat, positions.shape)

    def _flat(self, positions: Tensor) -> Tensor:
        """Rows of the layer's `[G * S, D]`."""
        heads = torch.arange(self.heads).view(1, -1, 1) * self._pool.slots
        return (self.slots[positions.clamp(min=0)] + heads).reshape(-1)


def _take(plane: Tensor, flat: Tensor, shape: torch.Size) -> Tensor:
    return plane.view(-1, plane.shape[-1]).index_select(0, flat).view(*shape, plane.shape[-1]).float()
