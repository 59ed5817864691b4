"""A projection without bias, as the forward pass uses it: applied, or added onto a residual."""

from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional

# The largest number of float16.
_LARGEST = 65504.0


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


class Packed:
    """The weight in float16 as FBGEMM lays it out; arithmetic is float32. A token's time is that of reading the
    weights, and these are half as long."""

    def __init__(self, weight: Tensor) -> None:
        """`weight` `[out, in]`, which is copied. See `packable`."""
        self._packed = torch.ops.quantized.linear_prepack_fp16(weight.float(), None)
        self._multiply = torch.ops.quantized.linear_dynamic_fp16.default

    def __call__(self, x: Tensor) -> Tensor:
        out: Tensor = self._multiply(x, self._packed)
        return out

    def add_to(self, residual: Tensor, x: Tensor) -> Tensor:
        return residual.add_(self._multiply(x, self._packed))


def packable(weight: Tensor) -> bool:
    """Whether this machine has FBGEMM and `weight` fits into float16."""
    return "fbgemm" in torch.backends.quantized.supported_engines and float(weight.abs().max()) <= _LARGEST
