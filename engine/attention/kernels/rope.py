"""Rotation inside kernels, from two small tables.

Position p = 8192 a + b: the angles of p are the sum of those of 8192 a and of b, so two tables of at most 8192 rows
serve every position up to 2^25 exactly, in 2 * 8192 * F * 8 bytes at most. Positions known to lie below 8192 (numbers
in a list, relative positions) read one table only: WIDE = False.

F = D/2 frequencies. Component i pairs with i + F (Hugging Face's halves).
"""

from dataclasses import dataclass, field

import torch
import triton
import triton.language as tl
from torch import Tensor

NEAR = 8192


@dataclass(frozen=True)
class RopeTables:
    """Float32 cosines and sines. near `[8192, 2, F]`: of positions 0..8191; far `[N, 2, F]`: of 0, 8192, 16384, ...

    near_half and far_half: the same in float16, for kernels that rotate FP8 keys in it.
    """

    near: Tensor
    far: Tensor
    near_half: Tensor = field(init=False)
    far_half: Tensor = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "near_half", self.near.half())
        object.__setattr__(self, "far_half", self.far.half())

    @classmethod
    def of(cls, inv_freq: Tensor, length: int, device: torch.device | str) -> "RopeTables":
        """Tables for positions below `length`; inv_freq `[F]`: the model's, its own scaling applied."""
        return cls(_table(inv_freq, NEAR, 1).to(device), _table(inv_freq, max(1, -(-length // NEAR)), NEAR).to(device))


def _table(inv_freq: Tensor, rows: int, step: int) -> Tensor:
    angles = torch.outer(torch.arange(rows, dtype=torch.float64) * step, inv_freq.double().cpu())
    return torch.stack((angles.cos(), angles.sin()), 1).float().contiguous()


@triton.jit
def angles(near, far, positions, f, F: tl.constexpr, WIDE: tl.constexpr):
    """Cosines and sines of `positions` (an integer tensor of some shape) at frequencies `f`, broadcast against it.

    Masked-out lanes must hold a valid position (0 will do), and an f below F.
    """
    if WIDE:
        low = positions % 8192
        high = positions // 8192
        c0 = tl.load(near + low * (2 * F) + f)
        s0 = tl.load(near + low * (2 * F) + F + f)
        c1 = tl.load(far + high * (2 * F) + f)
        s1 = tl.load(far + high * (2 * F) + F + f)
        cos = c0 * c1 - s0 * s1
        sin = s0 * c1 + c0 * s1
    else:
        cos = tl.load(near + positions * (2 * F) + f)
        sin = tl.load(near + positions * (2 * F) + F + f)
    return cos, sin


@triton.jit
def turn(low, high, cos, sin):
    """The two halves of vectors, rotated."""
    return low * cos - high * sin, high * cos + low * sin
