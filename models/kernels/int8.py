"""Wide matrices, in int8 with a scale a row or in floating point: their product with a few rows at the speed of reading
the weights, and rows looked up.

A product's weights become floating point in registers, exactly, and are multiplied by tensor cores; sums are float32
and are scaled at their end. One program takes a few rows of the weights over all columns: nothing is split, the result
is the same in every run.
"""

import os

import torch
import triton
import triton.language as tl
from torch import Tensor

from unabridged.models.kernels.launch import Argument, Launch, runs

# Rows of x up to which reading the weights takes longer than multiplying.
FEW = 16
# Columns of a step, and bytes of weights that a program asks for in one: three steps are under way at a time.
_STEP, _BYTES = 256, 16384
_INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"


@triton.jit
def _float16(values):
    """int8 as float16, four at a time: a byte b becomes the number 1152 + b, by its bits alone."""
    return tl.inline_asm_elementwise(
        """{
        .reg .b32 bytes, high, offset;
        xor.b32 bytes, $2, 0x80808080;
        mov.b32 high, 0x64646464;
        mov.b32 offset, 0x64806480;
        prmt.b32 $0, bytes, high, 0x4140;
        prmt.b32 $1, bytes, high, 0x4342;
        sub.f16x2 $0, $0, offset;
        sub.f16x2 $1, $1, offset;
        }""",
        "=&r,=&r,r",
        [values],
        dtype=tl.float16,
        is_pure=True,
        pack=4,
    )


@triton.jit
def _multiply(
    x, weights, scales, out, rows, tokens,
    K: tl.constexpr, TOKENS: tl.constexpr, ROWS: tl.constexpr, STEP: tl.constexpr, DOT: tl.constexpr,
    BITS: tl.constexpr,
):  # fmt: skip
    n = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    m, k = tl.arange(0, TOKENS), tl.arange(0, STEP)
    # Rows past the end read the last one: no mask in the loop.
    base = tl.minimum(n, rows - 1).to(tl.int64) * K
    total = tl.zeros((ROWS, TOKENS), tl.float32)
    for start in range(0, K, STEP):
        column = start + k
        here = (m < tokens)[None, :]
        if K % STEP == 0:
            w = tl.load(weights + base[:, None] + column[None, :], eviction_policy="evict_first")
        else:
            here = here & (column < K)[:, None]
            w = tl.load(weights + base[:, None] + column[None, :], (column < K)[None, :], 0)
        a = tl.load(x + m[None, :] * K + column[:, None], here, 0.0)
        w = _float16(w) if BITS else w.to(DOT)
        total = tl.dot(w, a.to(DOT), total, input_precision="ieee")
    if scales is not None:
        total *= tl.load(scales + n, n < rows, 0.0)[:, None]
    to = m.to(tl.int64)[None, :] * rows + n[:, None]
    tl.store(out + to, total, (m < tokens)[None, :] & (n < rows)[:, None])


@triton.jit
def _lookup(ids, values, scales, out, K: tl.constexpr, WIDTH: tl.constexpr):
    token = tl.program_id(0).to(tl.int64)
    row = tl.load(ids + token)
    k = tl.arange(0, WIDTH)
    value = tl.load(values + row * K + k, k < K, 0).to(tl.float32)
    tl.store(out + token * K + k, value * tl.load(scales + row), k < K)


def plan_multiply(
    x: Tensor, weights: Tensor, scales: Tensor | None, out: Tensor, bits: bool = not _INTERPRETED
) -> Launch:
    """out[t, n] = scales[n] * sum over k of x[t, k] * weights[n, k], for T <= FEW.

    x `[T, K]` float16, bfloat16 or float32, weights `[N, K]` int8, or of x's dtype; scales `[N]` float32 or None;
    out `[T, N]`; all contiguous. bits: int8 becomes float16 by its bits, in PTX, and not by the compiler's conversion.
    """
    tokens, columns = x.shape
    rows = _BYTES // (_STEP * weights.element_size())
    arguments: dict[str, Argument] = {"x": x, "weights": weights, "scales": scales, "out": out}
    return Launch(
        _multiply,
        (triton.cdiv(len(weights), rows),),
        {**arguments, "rows": len(weights), "tokens": tokens},
        {
            "K": columns,
            "TOKENS": max(8, triton.next_power_of_2(tokens)),
            "ROWS": rows,
            "STEP": _STEP,
            "DOT": _dot_type(x.dtype),
            "BITS": bits and weights.dtype == torch.int8 and x.dtype == torch.float16,
        },
        stages=3,
    )


def plan_lookup(ids: Tensor, values: Tensor, scales: Tensor, out: Tensor) -> Launch:
    """out[t] = values[ids[t]] * scales[ids[t]]: ids `[T]`, values `[N, K]` int8, scales `[N]` float32, out `[T, K]`."""
    columns = values.shape[1]
    width = triton.next_power_of_2(columns)
    arguments: dict[str, Argument] = {"ids": ids, "values": values, "scales": scales, "out": out}
    constants = {"K": columns, "WIDTH": width}
    return Launch(_lookup, (len(ids),), arguments, constants, warps=max(1, min(8, width // 512)))


multiply, lookup = runs(plan_multiply), runs(plan_lookup)


def multiply_plain(x: Tensor, weights: Tensor, scales: Tensor | None, out: Tensor) -> None:
    """`multiply` in plain PyTorch."""
    product = x.float() @ weights.float().t()
    out.copy_(product if scales is None else product * scales)


def lookup_plain(ids: Tensor, values: Tensor, scales: Tensor, out: Tensor) -> None:
    """`lookup` in plain PyTorch."""
    out.copy_(values[ids] * scales[ids, None])


def _dot_type(dtype: torch.dtype) -> tl.dtype:
    """What tensor cores multiply; Triton's interpreter cannot multiply bfloat16."""
    known = {torch.float16: tl.float16, torch.bfloat16: tl.float32 if _INTERPRETED else tl.bfloat16}
    return known.get(dtype, tl.float32)
