"""How much of the scale of a projection's inputs moves into its weights.

A channel whose inputs are large is multiplied by s in the weights and divided by s before them, which changes nothing
but the rounding: its weights are rounded in finer steps relative to their size. s is the channel's mean size to a power
that the squared error on calibration rows decides; the power 0 is plain rounding.
"""

from collections.abc import Callable

import torch
from torch import Tensor

# 0 first: of equals the least change wins.
EXPONENTS = tuple(step / 20 for step in range(20))
# Channels smaller than this share of the largest count as this large: factors stay within float16.
_SMALLEST = 1e-4


def size(x: Tensor) -> Tensor:
    """Mean size of each column of rows `x` `[T, K]`: `[K]`."""
    return x.abs().mean(0)


def best(sizes: Tensor, loss: Callable[[Tensor], Tensor]) -> Tensor:
    """The factors `[K]` of the least `loss`, a scalar, of those that `sizes` `[K]` to a power make."""
    chosen = torch.ones_like(sizes)
    if sizes.max() == 0:
        return chosen
    sizes = sizes.clamp(min=sizes.max() * _SMALLEST)
    least = torch.inf
    for exponent in EXPONENTS:
        tried = sizes**exponent
        tried = tried / (tried.max() * tried.min()).sqrt()
        found = float(loss(tried))
        if found < least:
            chosen, least = tried, found
    return chosen


def condensed(x: Tensor) -> Tensor:
    """At most K rows with the second moments of `x` `[T, K]`: any weight's squared error on them is the same."""
    return torch.linalg.qr(x, mode="r").R if x.shape[0] > x.shape[1] else x
