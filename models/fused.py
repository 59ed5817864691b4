"""The residual stream on a GPU: sums wait for the next norm, and one kernel adds them and norms the stream.

The stream is float32 whatever the model's dtype and however many tokens a pass has: the 64 sums of an 8B model are not
rounded to 11 bits (or 8) each, in a prompt no more than in decoding. For a prompt that is memory and time: 32K tokens
of 4096 numbers take 512 MiB instead of 256 beside the 1.75 GiB of one layer's gate and up projection, and a norm moves
12 bytes a number instead of 8.

A CUDA device; the same in every run.
"""

from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from unabridged.models.kernels.add_norm import add, add_norm
from unabridged.models.layers import Norm
from unabridged.models.linear import Linear


@runtime_checkable
class InParts(Protocol):
    """A Linear that leaves adding up to whoever needs its result."""

    def parts(self, x: Tensor) -> Tensor:
        """`[T, in]` to `[S, T, out]`, whose sum over S is the product."""
        ...


class FusedResidual:
    """See models.residual.Residual. Its rows must not be changed from outside while it lives: it may read them late."""

    def __init__(self, x: Tensor) -> None:
        """x `[T, hidden]` in the model's dtype, on a CUDA device, contiguous."""
        self._dtype = x.dtype
        self._x = x
        self._waiting: Tensor | None = None

    def add(self, linear: Linear, x: Tensor) -> None:
        self._wait(linear.parts(x) if isinstance(linear, InParts) else linear(x)[None])

    def plus(self, y: Tensor) -> None:
        self._wait(y[None])

    def normed(self, norm: Norm) -> Tensor:
        out = torch.empty(self._x.shape, dtype=self._dtype, device=self._x.device)
        # Without anything to add the stream stays as it is, be it in the model's dtype.
        into = None if self._waiting is None else self._sums()
        add_norm(self._x, self._waiting, into, norm.weight, norm.eps, out)
        if into is not None:
            self._x, self._waiting = into, None
        return out

    def value(self) -> Tensor:
        if self._waiting is None:
            return self._x.to(self._dtype)
        out = torch.empty(self._x.shape, dtype=self._dtype, device=self._x.device)
        add(self._x, self._waiting, out)
        return out

    def _wait(self, parts: Tensor) -> None:
        if self._waiting is not None:
            into = self._sums()
            add(self._x, self._waiting, into)
            self._x = into
        self._waiting = parts

    def _sums(self) -> Tensor:
        """Where the stream goes with what waits: its own place, once that is float32."""
        return self._x if self._x.dtype == torch.float32 else torch.empty_like(self._x, dtype=torch.float32)
