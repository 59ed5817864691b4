"""The MLP of a pass over many tokens, a slice of them at a time: what lies between its halves is several times as wide
as hidden rows, and would be most of what a long piece of a prompt takes of memory."""

from collections.abc import Iterator

import torch
from torch import Tensor

from unabridged.models.layers import Gated
from unabridged.models.limits import SLICE
from unabridged.models.linear import Linear


class Sliced:
    """`down` of `gated`, both of one layer, as a Linear of the hidden rows. See models.linear.Linear."""

    def __init__(self, gated: Gated, down: Linear) -> None:
        self._gated, self._down = gated, down

    def __call__(self, x: Tensor) -> Tensor:
        out = torch.empty_like(x)
        for rows, into in _slices(x, out):
            into.copy_(self._down(self._gated(rows)))
        return out

    def add_to(self, residual: Tensor, x: Tensor) -> Tensor:
        for rows, into in _slices(x, residual):
            self._down.add_to(into, self._gated(rows))
        return residual


def _slices(x: Tensor, out: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """The same rows of both; slices are as long as each other, for a short one takes other kernels."""
    count = -(-len(x) // SLICE)
    return zip(x.tensor_split(count), out.tensor_split(count), strict=True)
