"""Matrices of one byte a weight: w = value * scale, one scale a row, symmetric. For embedding and LM head (option
`head_bits`): half of what a token reads of a large vocabulary.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

# Numbers at a time: what is in memory as floating point meanwhile.
_SLICE = 1 << 24


@dataclass(frozen=True, slots=True)
class Int8:
    """`values` int8 `[N, K]`, `scales` float32 `[N]`."""

    values: Tensor
    scales: Tensor

    def slices(self) -> list[slice]:
        """Rows that are converted together."""
        rows, columns = self.values.shape
        step = max(1, _SLICE // columns)
        return [slice(start, min(start + step, rows)) for start in range(0, rows, step)]


def quantised(weight: Tensor) -> Int8:
    """`weight` `[N, K]`, on its device. An entry is off by at most half of its row's largest / 127."""
    values = torch.empty(weight.shape, dtype=torch.int8, device=weight.device)
    whole = Int8(values, torch.empty(len(weight), dtype=torch.float32, device=weight.device))
    for piece in whole.slices():
        rows = weight[piece].float()
        scale = rows.abs().amax(1) / 127
        # A row of zeros keeps scale 0, and values of 0.
        whole.values[piece] = (rows / scale.clamp_min(torch.finfo(torch.float32).tiny)[:, None]).round()
        whole.scales[piece] = scale
    return whole


class Int8Linear:
    """See models.linear.Linear. On a GPU a kernel multiplies few rows, as in decoding; otherwise weights become
    floating point slice by slice, rounded to x's dtype."""

    def __init__(self, weight: Int8) -> None:
        self.weight = weight

    def __call__(self, x: Tensor) -> Tensor:
        out = x.new_empty(len(x), len(self.weight.values))
        if x.is_cuda:
            # Triton is there with a CUDA device only.
            from unabridged.models.kernels import int8 as kernels

            if len(x) <= kernels.FEW:
                kernels.multiply(x.contiguous(), self.weight.values, self.weight.scales, out)
                return out
        for piece in self.weight.slices():
            torch.mm(x, _floating(self.weight, piece, x.dtype).t(), out=out[:, piece])
        return out

    def add_to(self, residual: Tensor, x: Tensor) -> Tensor:
        return residual.add_(self(x))


def _floating(weight: Int8, piece: slice, dtype: torch.dtype) -> Tensor:
    values = weight.values[piece]
    out = torch.empty(values.shape, dtype=dtype, device=values.device)
    # In float32, then rounded once.
    return torch.mul(values, weight.scales[piece, None], out=out)
