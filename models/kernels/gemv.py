"""Products of 1 to 16 rows with int4 weights: whole, in parts for who adds them up, or gated.

Programs take a tile of the weights and a slice of K each. Inside a program warps take groups of columns in turn, each
with its own sums; these are added up in the end, always in the same order.
"""

from dataclasses import dataclass

import torch
import triton
from torch import Tensor

from unabridged.models.config import Activation
from unabridged.models.kernels.gate_product import gate_product_plain
from unabridged.models.kernels.gemv_kernel import INTERPRETED, multiply
from unabridged.models.kernels.launch import Launch, runs
from unabridged.models.kernels.w4 import W4, unpack

ROWS = 16  # at most, of x
_WARPS = 2048  # of a launch: enough to keep a large card's memory busy


@dataclass(frozen=True)
class Tiling:
    """How a launch shares out the work: `splits` slices of K, `warps` that share a slice's groups in a program, groups
    that a warp takes `together`, `tiles` beside one another in a program, and whether nibbles are taken out by PTX."""

    warps: int
    splits: int = 1
    together: int = 1
    tiles: int = 1
    ptx: bool = not INTERPRETED


def splits(w: W4) -> int:
    """How many parts `multiply_parts` leaves of a product with `w`."""
    groups = w.columns // w.group
    return max(1, min(groups // 4, _WARPS // (4 * w.tiles)))


def plan_whole(x: Tensor, w: W4, bias: Tensor | None, out: Tensor, tiling: Tiling | None = None) -> Launch:
    """out = x w^T + bias. x `[T, columns]` float16 or bfloat16 with contiguous rows, T <= ROWS; bias `[rows]` or None;
    out `[T, rows]` contiguous, of any floating-point type.

    x is multiplied in float16: of bfloat16 numbers past its range nothing finite comes out.
    """
    return _plan(x, w, bias, out, tiling or Tiling(_warps(w, 16)))


def plan_parts(x: Tensor, w: W4, bias: Tensor | None, out: Tensor, tiling: Tiling | None = None) -> Launch:
    """`plan_whole` of slices of K, the first with the bias: out `[splits(w), T, rows]`, whose sum over the first
    dimension is the product."""
    return _plan(x, w, bias, out, tiling or Tiling(_warps(w, 4), splits(w)))


def plan_gated(x: Tensor, w: W4, activation: Activation, out: Tensor, tiling: Tiling | None = None) -> Launch:
    """out = activation(x gate^T) * (x up^T), of weights whose first half of rows is gate and whose second is up.
    out `[T, rows / 2]`; the rest as in `plan_whole`."""
    return _plan(x, w, None, out, tiling or Tiling(_warps(w, 8)), activation)


multiply_whole = runs(plan_whole)
multiply_parts = runs(plan_parts)
multiply_gated = runs(plan_gated)


def multiply_plain(x: Tensor, w: W4) -> Tensor:
    """x w^T `[T, rows]` in plain PyTorch, all of it in float32."""
    values, scales, zeros = unpack(w)
    centred = values.view(w.rows, -1, w.group).float() - zeros.float()[:, :, None]
    return x.float() @ (centred * scales.float()[:, :, None]).view(w.rows, w.columns).t()


def gated_plain(x: Tensor, w: W4, activation: Activation) -> Tensor:
    """`multiply_gated` in plain PyTorch, float32."""
    return gate_product_plain(multiply_plain(x, w), activation)


def _warps(w: W4, most: int) -> int:
    return min(most, 1 << (w.columns // w.group - 1).bit_length())


def _plan(
    x: Tensor, w: W4, bias: Tensor | None, out: Tensor, tiling: Tiling, activation: Activation | None = None
) -> Launch:
    rows, groups = x.shape[0], w.columns // w.group
    share = triton.cdiv(groups, tiling.splits)
    at_once = tiling.warps * tiling.together
    return Launch(
        multiply,
        (triton.cdiv(w.tiles, tiling.tiles), tiling.splits),
        {
            "x": x,
            "words": w.words.view(torch.int32),
            "scales": w.scales,
            "zeros": w.zeros,
            "bias": bias,
            "out": out,
            "count": rows,
            "x_stride": x.stride(0),
            "tiles": w.tiles,
            "half": w.rows // 2,
            "groups": groups,
            "share": share,
        },
        {
            "G": w.group,
            "V": triton.cdiv(triton.next_power_of_2(rows), 8),
            "WR": tiling.tiles,
            "WK": tiling.warps,
            "GI": tiling.together,
            "EVEN": groups % tiling.splits == 0 and share % at_once == 0,
            "ACTIVATION": activation or "none",
            "PARTS": out.dim() == 3,
            "P": triton.next_power_of_2(rows),
            "PTX": tiling.ptx,
            "BYTES": True,
            "STEPS": triton.cdiv(share, at_once),
            "UNROLL": 1,
            "AHEAD": 0,
            "CACHE": "",
        },
        warps=tiling.tiles * tiling.warps,
        stages=1,
    )
