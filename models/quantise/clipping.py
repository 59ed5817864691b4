"""How far each group's range is drawn in before rounding: large weights lose a little, all others gain finer steps.

For every group alone, the squared error of its share of the projection's output on calibration rows decides. Of the
rows x only the group's second moments are needed: the error of weights off by e is e^T (x^T x) e.
"""

import torch
from torch import Tensor

from unabridged.models.quantise.rounding import limits, restored

# Shares of the range that are tried, the whole first: of equals the widest wins.
SHARES = tuple(1 - step / 20 for step in range(10))
# Weights whose errors are held at once.
_PIECE = 1 << 24


def moments(x: Tensor, group: int) -> Tensor:
    """x^T x of each group of columns of rows `x` `[T, K]`: `[K/g, g, g]`."""
    grouped = x.unflatten(-1, (-1, group)).transpose(0, 1)
    squares: Tensor = grouped.mT @ grouped
    return squares


def clipped(weight: Tensor, seen: Tensor) -> tuple[Tensor, Tensor]:
    """The range `(low, high)`, `[N, K/g]` each, of every group of `weight` `[N, K]`; `seen` are its inputs' moments."""
    step = max(_PIECE // weight.shape[1], 1)
    pieces = [_clipped(piece, seen) for piece in weight.split(step)]
    low, high = zip(*pieces, strict=True)
    return torch.cat(low), torch.cat(high)


def _clipped(weight: Tensor, seen: Tensor) -> tuple[Tensor, Tensor]:
    low, high = limits(weight, seen.shape[-1])
    share = torch.ones_like(low)
    least = torch.full_like(low, torch.inf)
    for tried in SHARES:
        error = (restored(weight, low * tried, high * tried) - weight).unflatten(-1, (len(seen), -1))
        # [groups, N, g] rows of errors against [groups, g, g].
        rows = error.transpose(0, 1)
        loss = ((rows @ seen) * rows).sum(-1).T
        better = loss < least
        least = torch.where(better, loss, least)
        share = torch.where(better, tried, share)
    return low * share, high * share
