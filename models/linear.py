"""A projection as the forward pass uses it: applied, or added onto a residual."""

from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional

# The largest number of float16.
_LARGEST = 65504.0


class Linear(Protocol):
    """y = x W^T + b with W `[out, in]`, however W is stored, and b `[out]`, if there is one."""

    def __call__(self, x: Tensor) -> Tensor:
        """`[T, in]` to `[T, out]`."""
        ...

    def add_to(self, residual: Tensor, x: Tensor) -> Tensor:
        """`residual + y`, written into `residual` `[T, out]` and returned."""
        ...


class Dense:
    """The weight as it is."""

    def __init__(self, weight: Tensor, bias: Tensor | None = None) -> None:
        """`weight` `[out, in]`, `bias` `[out]`."""
        self.weight = weight
        self.bias = bias
        self._transposed = weight.t()

    def __call__(self, x: Tensor) -> Tensor:
        return functional.linear(x, self.weight, self.bias)

    def add_to(self, residual: Tensor, x: Tensor) -> Tensor:
        torch.addmm(residual, x, self._transposed, out=residual)
        return residual if self.bias is None else residual.add_(self.bias)


class Packed:
    """The weight in float16 as FBGEMM lays it out; arithmetic is float32. A token's time is that of reading the
    weights, and these are half as long."""

    def __init__(self, weight: Tensor, bias: Tensor | None = None) -> None:
        """`weight` `[out, in]`, which is copied; `bias` `[out]` stays in float32. See `packable`."""
        self._packed = torch.ops.quantized.linear_prepack_fp16(weight.float(), None if bias is None else bias.float())
        self._multiply = torch.ops.quantized.linear_dynamic_fp16.default

    def __call__(self, x: Tensor) -> Tensor:
        out: Tensor = self._multiply(x, self._packed)
        return out

    def add_to(self, residual: Tensor, x: Tensor) -> Tensor:
        return residual.add_(self._multiply(x, self._packed))


def packable(weight: Tensor) -> bool:
    """Whether this machine has FBGEMM and `weight` fits into float16."""
    return "fbgemm" in torch.backends.quantized.supported_engines and float(weight.abs().max()) <= _LARGEST
