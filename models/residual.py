"""The residual stream of one forward pass: what every layer reads normed, and adds to.

The forward pass says what is added and what is read; how the two are carried out is the stream's. `Plain` does each at
once. On a GPU the sums wait for the next norm, so that one kernel does both (`models.fused`).
"""

from typing import Protocol

from torch import Tensor

from unabridged.models.layers import Norm
from unabridged.models.linear import Linear


class Residual(Protocol):
    """`[T, hidden]`, T the tokens of the pass."""

    def add(self, linear: Linear, x: Tensor) -> None:
        """Add `linear` of `x` `[T, in]`."""
        ...

    def plus(self, y: Tensor) -> None:
        """Add `y` `[T, hidden]`."""
        ...

    def normed(self, norm: Norm) -> Tensor:
        """The stream as it is now, normed, in the model's dtype."""
        ...

    def value(self) -> Tensor:
        """The stream as it is now, in the model's dtype."""
        ...


class Plain:
    """See Residual. It owns the tensor and changes it in place."""

    def __init__(self, x: Tensor) -> None:
        self._x = x

    def add(self, linear: Linear, x: Tensor) -> None:
        linear.add_to(self._x, x)

    def plus(self, y: Tensor) -> None:
        self._x += y

    def normed(self, norm: Norm) -> Tensor:
        return norm(self._x)

    def value(self) -> Tensor:
        return self._x
