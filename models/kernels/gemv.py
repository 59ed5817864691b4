"""Products of 1 to 16 rows with int4 weights: whole, in parts for who adds them up, or gated.

Programs take a tile of the weights and a slice of K each. Inside a program warps take groups of columns in turn, each
with its own sums; these are added up in the end, always in the same order.
"""

import os
from dataclasses import dataclass

import torch
import triton
from torch import Tensor

from unabridged.models.config import Activation
from unabridged.models.kernels.gate_product import gate_product_plain
from unabridged.models.kernels.gemv_kernel import multiply
from unabridged.models.kernels.launch import Launch, runs
from unabridged.models.kernels.overlap import overlaps
from unabridged.models.kernels.w4 import W4, unpack

ROWS = 16  # at most, of x
# Of four warps, in a launch in parts: about four for each multiprocessor of a large card, all at once.
_PROGRAMS = 512
# PTX does not run in Triton's interpreter.
_PTX = os.environ.get("TRITON_INTERPRET") != "1"


@dataclass(frozen=True)
class Tiling:
    """How a launch shares out the work: `splits` slices of K, `warps` that share a slice's groups in a program. And
    whether nibbles are taken out by PTX, and whether weights are fetched before the kernel before this one has ended
    (None: where the card can)."""

    warps: int
    splits: int = 1
    ptx: bool = _PTX
    overlap: bool | None = None


def splits(w: W4) -> int:
    """How many parts `multiply_parts` leaves of a product with `w`: as many as make programs enough, fewer where warps
    would otherwise get unequal shares."""
    groups, most = w.columns // w.group, max(1, _PROGRAMS // w.tiles)
    equal = [count for count in range(1, most + 1) if groups % (4 * count) == 0]
    return equal[-1] if equal else max(1, min(most, groups // 4))


def plan_whole(x: Tensor, w: W4, bias: Tensor | None, out: Tensor, tiling: Tiling | None = None) -> Launch:
    """out = x w^T + bias. x `[T, columns]` float16 or bfloat16 with contiguous rows, T <= ROWS; bias `[rows]` or None;
    out `[T, rows]` contiguous, of any floating-point type.

    x is multiplied in float16: of bfloat16 numbers past its range nothing finite comes out.
    """
    return _plan(x, w, bias, out, tiling or Tiling(_warps(w, len(x))))


def plan_parts(x: Tensor, w: W4, bias: Tensor | None, out: Tensor, tiling: Tiling | None = None) -> Launch:
    """`plan_whole` of slices of K, the first with the bias: out `[splits(w), T, rows]`, whose sum over the first
    dimension is the product."""
    return _plan(x, w, bias, out, tiling or Tiling(min(4, _most(w)), splits(w)))


def plan_gated(x: Tensor, w: W4, activation: Activation, out: Tensor, tiling: Tiling | None = None) -> Launch:
    """out = activation(x gate^T) * (x up^T), of weights whose first half of rows is gate and whose second is up.
    out `[T, rows / 2]`; the rest as in `plan_whole`."""
    return _plan(x, w, None, out, tiling or Tiling(_warps(w, len(x))), activation)


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


def _most(w: W4) -> int:
    """Warps that all have a group."""
    return 1 << (w.columns // w.group - 1).bit_length()


def _warps(w: W4, rows: int) -> int:
    """Of a program that takes all of K. More than eight have no registers for more than eight rows."""
    wanted = 4 if w.tiles >= 400 else 8 if w.tiles >= 200 or rows > 8 else 16
    return min(wanted, _most(w))


def _plan(
    x: Tensor, w: W4, bias: Tensor | None, out: Tensor, tiling: Tiling, activation: Activation | None = None
) -> Launch:
    rows, groups = len(x), w.columns // w.group
    share = triton.cdiv(groups, tiling.splits)
    overlap = overlaps(x.device) if tiling.overlap is None else tiling.overlap
    return Launch(
        multiply,
        (w.tiles, tiling.splits),
        {
            "x": x,
            "words": w.words.view(torch.int32),
            "scales": w.scales,
            "zeros": w.zeros,
            "bias": bias,
            "out": out,
            "count": rows,
            "x_stride": x.stride(0),
            "half": w.rows // 2,
            "groups": groups,
            "share": share,
        },
        {
            "G": w.group,
            "V": 1 if rows <= 8 else 2,
            "P": triton.next_power_of_2(rows),
            "W": tiling.warps,
            "STEPS": triton.cdiv(share, tiling.warps),
            "EVEN": groups % tiling.splits == 0 and share % tiling.warps == 0,
            "ACTIVATION": activation,
            "PTX": tiling.ptx,
            "OVERLAP": overlap,
        },
        warps=tiling.warps,
        stages=1,
        overlap=overlap,
    )
