"""A projection without bias, as the forward pass uses it: applied, or added onto a residual."""

from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional


class Linear(Protocol):
    """y = x W^T with W `[out, in]`, however W is stored."""

    def __call__(self, x: Tensor) -> Tensor:
        """`[T, in]` to `[T, out]`."""
        ...

    def add_to(self, residual: Tensor, x: Tensor) -> Tensor:
        """`residual + x W^T`, written into `residual` `[T, out]` and returned."""
        ...


class Dense:
    """The weight as it is."""

    def __init__(self, weight: Tensor) -> None:
        """`weight` `[out, in]`."""
        self.weight = weight
        self._transposed = weight.t()

    def __call__(self, x: Tensor) -> Tensor:
        return functional.linear(x, self.weight)

    def add_to(self, residual: Tensor, x: Tensor) -> Tensor:
        return torch.addmm(residual, x, self._transposed, out=residual)
