"""int4 weights to float16 or bfloat16, a run of rows of both halves of a matrix at a time, for products with many rows.

One program writes a tile's rows in a run of columns.
"""

import triton
import triton.language as tl
from torch import Tensor

from unabridged.models.kernels.launch import Launch, runs
from unabridged.models.kernels.nibbles import number
from unabridged.models.kernels.w4 import HALF_ROWS, W4, dequantise_plain

_STEPS = 8  # of 16 columns, a program


@triton.jit
def _write(
    out, words, zero, scale, first, last, columns, at, column, NIBBLE: tl.constexpr, S: tl.constexpr,
):  # fmt: skip
    UNIT: tl.constexpr = 2.0**20 if NIBBLE % 2 else 2.0**24
    w = (number(words, NIBBLE) - number(zero, NIBBLE)) * (scale.to(tl.float32) * UNIT)
    # [pairs of steps, step, r, c, h, u, p] to rows (u, r) and columns (pair, c, step, h, p).
    w = tl.permute(tl.reshape(w.to(tl.float16), [S // 2, 2, 8, 4, 2, 2, 2]), [5, 2, 0, 3, 1, 4, 6])
    w = tl.reshape(w, [16, S * 16]).to(out.dtype.element_ty)
    row = at + tl.arange(0, 16)
    own = out + (row - first).to(tl.int64)[:, None] * columns + column[None, :]
    tl.store(own, w, mask=((row >= first) & (row < last))[:, None] & (column < columns)[None, :])


@triton.jit
def _dequantise(
    words, scales, zeros, out, first, count, columns, half_length, G: tl.constexpr, S: tl.constexpr,
):  # fmt: skip
    tile = first // 32 + tl.program_id(0)
    s = tl.program_id(1) * S + tl.arange(0, S)[:, None, None, None]
    r = tl.arange(0, 8)[None, :, None, None]
    lane = r * 4 + tl.arange(0, 4)[None, None, :, None]
    e = tl.arange(0, 8)
    known = s * 16 < columns
    packed = tl.load(words + (tile * (columns // 16) + s).to(tl.int64) * 256 + lane * 8 + e, mask=known, other=0)
    # Of a lane's eight words (h, u, p): the rows' u.
    info = ((tile * (columns // G) + s * 16 // G) * 8 + r) * 2 + e // 2 % 2
    zero = tl.load(zeros + info, mask=known, other=0)
    column = tl.program_id(1) * (S * 16) + tl.arange(0, S * 16)
    for half in tl.static_range(2):
        for b in tl.static_range(2):
            scale = tl.load(scales + info * 4 + half * 2 + b, mask=known, other=0.0)
            _write(
                out + half * half_length, packed, zero, scale, first, first + count, columns,
                tile * 32 + b * 16, column, half * 2 + b, S,
            )  # fmt: skip


def plan_dequantise(w: W4, first: int, out: Tensor) -> Launch:
    """Rows first..first+n-1 of each half of the matrix into `out` `[2, n, columns]`, contiguous, float16 or bfloat16.

    All of it, in order: first = 0 and n = rows / 2.
    """
    count = out.shape[1]
    tiles = triton.cdiv(first + count, HALF_ROWS) - first // HALF_ROWS
    return Launch(
        _dequantise,
        (tiles, triton.cdiv(w.columns, _STEPS * 16)),
        {
            "words": w.words,
            "scales": w.scales,
            "zeros": w.zeros,
            "out": out,
            "first": first,
            "count": count,
            "columns": w.columns,
            "half_length": out.stride(0),
        },
        {"G": w.group, "S": _STEPS},
        warps=4,
    )


dequantise = runs(plan_dequantise)


def rows_plain(w: W4, first: int, out: Tensor) -> None:
    """`dequantise` in plain PyTorch."""
    out.copy_(dequantise_plain(w, out.dtype).view(2, -1, w.columns)[:, first : first + out.shape[1]])
