"""Weights to 4 bits in groups of neighbouring columns, and back: w = (q - zero) * scale, q and zero in 0..15.

The scale is rounded to float16, as it is stored, before the weights are divided by it. Zero is always inside a group's
range: 0 stays 0, and the zero point fits its 4 bits.
"""

import torch
from torch import Tensor

from unabridged.models.awq import Int4
from unabridged.models.errors import ModelUnsupported

LEVELS = 15
GROUPS = (128, 64, 32)
# The smallest scale that float16 holds with all its digits.
_SMALLEST = 2.0**-14


def group_for(widths: set[int], wanted: int = GROUPS[0]) -> int:
    """The largest group, at most `wanted`, that divides every width. Raises ModelUnsupported when none does."""
    for group in GROUPS:
        if group <= wanted and not any(width % group for width in widths):
            return group
    shown = ", ".join(map(str, sorted(widths)))
    raise ModelUnsupported(f"projections with {shown} inputs", f"one of {', '.join(map(str, GROUPS))} must divide all")


def limits(weight: Tensor, group: int) -> tuple[Tensor, Tensor]:
    """The least and the greatest of each group of `weight` `[N, K]`, and of 0: `[N, K/g]` each."""
    grouped = weight.unflatten(-1, (-1, group))
    return grouped.amin(-1).clamp_(max=0), grouped.amax(-1).clamp_(min=0)


def rounded(weight: Tensor, low: Tensor, high: Tensor) -> Int4:
    """`weight` `[N, K]` with groups that reach from `low` to `high` `[N, K/g]`; what lies outside is clipped."""
    scales, zeros = _steps(low, high)
    values = _values(weight.unflatten(-1, (low.shape[-1], -1)), scales, zeros)
    return Int4(values.flatten(-2).to(torch.uint8), scales.half(), zeros.to(torch.uint8))


def restored(weight: Tensor, low: Tensor, high: Tensor) -> Tensor:
    """What `rounded` leaves of `weight`, `[N, K]` in its dtype."""
    scales, zeros = _steps(low, high)
    values = _values(weight.unflatten(-1, (low.shape[-1], -1)), scales, zeros)
    return values.sub_(zeros[..., None]).mul_(scales[..., None]).flatten(-2)


def to_nearest(weight: Tensor, group: int) -> Tensor:
    """`restored` without clipping: plain rounding to the nearest of 16 levels."""
    return restored(weight, *limits(weight, group))


def _steps(low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
    scales = ((high - low) / LEVELS).clamp_(min=_SMALLEST).half().to(low.dtype)
    return scales, (-low / scales).round_().clamp_(0, LEVELS)


def _values(grouped: Tensor, scales: Tensor, zeros: Tensor) -> Tensor:
    return (grouped / scales[..., None]).round_().add_(zeros[..., None]).clamp_(0, LEVELS)
