"""Matrices of one byte a weight: w = value * scale, one scale a row, symmetric. For embedding and LM head (option
`head_bits`): half of what a token reads of a large vocabulary.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

# Rows at a time: what is in memory in float32 meanwhile.
_STEP = 4096


@dataclass(frozen=True, slots=True)
class Int8:
    """`values` int8 `[N, K]`, `scales` float32 `[N]`."""

    values: Tensor
    scales: Tensor


def quantised(weight: Tensor) -> Int8:
    """`weight` `[N, K]`, on its device. An entry is off by at most half of its row's largest / 127."""
    values = torch.empty(weight.shape, dtype=torch.int8, device=weight.device)
    scales = torch.empty(len(weight), dtype=torch.float32, device=weight.device)
    for start in range(0, len(weight), _STEP):
        rows = weight[start : start + _STEP].float()
        scale = rows.abs().amax(1) / 127
        # A row of zeros keeps scale 0, and values of 0.
        values[start : start + _STEP] = (rows / scale.clamp_min(torch.finfo(torch.float32).tiny)[:, None]).round()
        scales[start : start + _STEP] = scale
    return Int8(values, scales)


class Int8Linear:
    """See `models.linear.Linear`, in plain PyTorch: the weights become floating point for each product."""

    def __init__(self, weight: Int8) -> None:
        self.weight = weight

    def __call__(self, x: Tensor) -> Tensor:
        return ((x @ self.weight.values.to(x.dtype).t()).float() * self.weight.scales).to(x.dtype)

    def add_to(self, residual: Tensor, x: Tensor) -> Tensor:
        return residual.add_(self(x))
