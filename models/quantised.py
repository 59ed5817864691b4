"""int4 projections on a CUDA device: a decode step's few rows by kernels that read the packed weights, a prompt's many
rows by dequantised weights and the library's matrix product.

Dequantised weights live in one buffer a device, however many projections there are: a product that needs more takes
runs of rows in turn. So products of one device must follow each other on one stream.
"""

from collections.abc import Iterator

import torch
from torch import Tensor

from unabridged.models.config import Activation
from unabridged.models.kernels.dequantise import dequantise
from unabridged.models.kernels.gate_product import gate_product
from unabridged.models.kernels.gemv import ROWS, multiply_gated, multiply_parts, multiply_whole, splits
from unabridged.models.kernels.w4 import HALF_ROWS, W4
from unabridged.models.limits import BUFFER

# Up to so many rows of x, products of ROWS at a time are faster than dequantising the weights.
FEW = 4 * ROWS

_buffers: dict[torch.device, Tensor] = {}


class Quantised:
    """A Linear over int4 weights. x is float16 or bfloat16, contiguous, and so is what comes out."""

    def __init__(self, w: W4, bias: Tensor | None = None) -> None:
        """`bias` `[rows]` in the dtype of x."""
        self._w = w
        self._bias = bias

    def __call__(self, x: Tensor) -> Tensor:
        out = torch.empty(x.shape[0], self._w.rows, dtype=x.dtype, device=x.device)
        if x.shape[0] <= FEW:
            for rows in _passes(x):
                multiply_whole(x[rows], self._w, self._bias, out[rows])
        else:
            self._many(x, out)
        return out

    def add_to(self, residual: Tensor, x: Tensor) -> Tensor:
        return residual.add_(self(x))

    def parts(self, x: Tensor) -> Tensor:
        """`[T, in]` to `[S, T, out]`, whose sum over S is the product: float32 for few rows; one part for many."""
        if x.shape[0] > ROWS:
            return self(x)[None]
        out = torch.empty(splits(self._w), x.shape[0], self._w.rows, dtype=torch.float32, device=x.device)
        multiply_parts(x, self._w, self._bias, out)
        return out

    def _many(self, x: Tensor, out: Tensor) -> None:
        half = self._w.rows // 2
        for first, weights in _dequantised(self._w, x.dtype):
            count = weights.shape[1]
            if count == half:
                self._product(x, weights.flatten(0, 1), slice(None), out)
            else:
                for h in range(2):
                    self._product(x, weights[h], slice(h * half + first, h * half + first + count), out)

    def _product(self, x: Tensor, weights: Tensor, rows: slice, out: Tensor) -> None:
        if self._bias is None:
            torch.mm(x, weights.t(), out=out[:, rows])
        else:
            torch.addmm(self._bias[rows], x, weights.t(), out=out[:, rows])


class QuantisedGated:
    """A Gated over int4 weights whose rows are gate then up. x is as a Quantised takes it."""

    def __init__(self, w: W4, activation: Activation = "silu") -> None:
        self._w = w
        self._activation = activation

    def __call__(self, x: Tensor) -> Tensor:
        out = torch.empty(x.shape[0], self._w.rows // 2, dtype=x.dtype, device=x.device)
        if x.shape[0] <= FEW:
            for rows in _passes(x):
                multiply_gated(x[rows], self._w, self._activation, out[rows])
        else:
            for first, weights in _dequantised(self._w, x.dtype):
                # Without a name, so that one run's product is gone when the next one's is made.
                gate_product(
                    torch.mm(x, weights.flatten(0, 1).t()),
                    out[:, first : first + weights.shape[1]],
                    self._activation,
                )
        return out


def _passes(x: Tensor) -> Iterator[slice]:
    return (slice(start, start + ROWS) for start in range(0, len(x), ROWS))


def _dequantised(w: W4, dtype: torch.dtype) -> Iterator[tuple[int, Tensor]]:
    """Runs of rows of both halves of a matrix `[2, n, columns]`, each valid until the next, and where they begin."""
    device, half = w.words.device, w.rows // 2
    if device not in _buffers:
        _buffers[device] = torch.empty(BUFFER, dtype=torch.uint8, device=device)
    buffer = _buffers[device].view(dtype)
    most = buffer.numel() // (2 * w.columns)
    step = half if half <= most else most // HALF_ROWS * HALF_ROWS
    for first in range(0, half, step):
        count = min(step, half - first)
        weights = buffer[: 2 * count * w.columns].view(2, count, w.columns)
        dequantise(w, first, weights)
        yield first, weights
