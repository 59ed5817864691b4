"""Keys and values of one layer by position, however they are stored. What selection and attention read from.

G key/value heads, D head dimension, T tokens, B query blocks, N positions.
"""

from collections.abc import Iterator
from typing import Protocol

import torch
from torch import Tensor

from unabridged.engine.kv.tables import Context


class Keys(Protocol):
    """Un-rotated keys and values of one layer."""

    @property
    def heads(self) -> int:
        """G."""
        ...

    def gather(self, positions: Tensor) -> Tensor:
        """Keys at `positions` `[B, G, N]`: `[B, G, N, D]` float32. A negative position gives some row: mask it."""
        ...

    def gather_both(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values at `positions`."""
        ...

    def runs(self, start: int, end: int) -> Iterator[tuple[int, Tensor]]:
        """Keys of positions start..end-1 without copying: (first position, `[G, n, D]` in the storage type)."""
        ...


class TensorKeys:
    """Keys that lie in one tensor, position by position."""

    def __init__(self, k: Tensor, v: Tensor) -> None:
        """k, v `[G, T, D]`."""
        self._k, self._v = k, v

    @property
    def heads(self) -> int:
        """See Keys."""
        return self._k.shape[0]

    def gather(self, positions: Tensor) -> Tensor:
        """See Keys."""
        return _rows(self._k, positions)

    def gather_both(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """See Keys."""
        return _rows(self._k, positions), _rows(self._v, positions)

    def runs(self, start: int, end: int) -> Iterator[tuple[int, Tensor]]:
        """See Keys."""
        yield start, self._k[:, start:end]


class PooledKeys:
    """Keys of one layer of a context in the pool."""

    def __init__(self, context: Context, layer: int) -> None:
        self._context, self._layer = context, layer

    @property
    def heads(self) -> int:
        """See Keys."""
        return self._context.heads

    def gather(self, positions: Tensor) -> Tensor:
        """See Keys."""
        return self._context.gather(self._layer, positions)

    def gather_both(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """See Keys."""
        return self._context.gather_both(self._layer, positions)

    def runs(self, start: int, end: int) -> Iterator[tuple[int, Tensor]]:
        """See Keys."""
        return self._context.keys(self._layer, start, end)


def _rows(x: Tensor, positions: Tensor) -> Tensor:
    heads = torch.arange(x.shape[0])[None, :, None]
    return x[heads, positions.clamp(min=0)].float()
