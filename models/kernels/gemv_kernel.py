"""The kernel of gemv.py."""

import os

import triton
import triton.language as tl

from unabridged.models.kernels.lanes import read

# PTX does not run in Triton's interpreter.
INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"


@triton.jit
def _plane(words, NIBBLE: tl.constexpr, ASM: tl.constexpr):
    if ASM:
        if NIBBLE == 0:
            x = tl.inline_asm_elementwise("and.b32 $0, $1, 0x000F000F;", "=r,r", [words], tl.int16, True, 2)
        elif NIBBLE == 1:
            x = tl.inline_asm_elementwise("and.b32 $0, $1, 0x00F000F0;", "=r,r", [words], tl.int16, True, 2)
        elif NIBBLE == 2:
            x = tl.inline_asm_elementwise(
                "{ .reg .b32 t; shr.b32 t, $1, 8; and.b32 $0, t, 0x000F000F; }", "=r,r", [words], tl.int16, True, 2
            )
        else:
            x = tl.inline_asm_elementwise(
                "{ .reg .b32 t; shr.b32 t, $1, 8; and.b32 $0, t, 0x00F000F0; }", "=r,r", [words], tl.int16, True, 2
            )
    else:
        if NIBBLE >= 2:
            words = words >> 8
        x = words & (0xF0 if NIBBLE % 2 else 0xF)
    return x


@triton.jit
def _operand(words, NIBBLE: tl.constexpr, ASM: tl.constexpr):
    return _plane(words, NIBBLE, ASM).to(tl.float16, bitcast=True)


@triton.jit
def _parted(x, GI: tl.constexpr, W: tl.constexpr, V: tl.constexpr):
    return tl.reshape(x, [GI, W, 2, 8, V, 4, 2])


@triton.jit
def _row(x):
    """[4, 8, W, GI, 2] to [GI, W, 2, 8, 1, 4, 1]"""
    return tl.permute(x, [3, 2, 4, 1, 0])[:, :, :, :, None, :, None]


@triton.jit
def _add(
    acc,
    words,
    x,
    offset,
    scale,
    zero,
    NIBBLE: tl.constexpr,
    GI: tl.constexpr,
    W: tl.constexpr,
    V: tl.constexpr,
    ASM: tl.constexpr,
):
    part = _parted(tl.dot(_operand(words, NIBBLE, ASM), x), GI, W, V)
    z = _row(_operand(zero, NIBBLE, False).to(tl.float32))
    return acc + tl.sum(_row(scale.to(tl.float32)) * (part - z * offset), 0)


@triton.jit
def _activated(gate, ACTIVATION: tl.constexpr):
    if ACTIVATION == "silu":
        y = gate / (1 + tl.exp(-gate))
    else:
        inner = 0.7978845608028654 * (gate + 0.044715 * gate * gate * gate)
        y = gate / (1 + tl.exp(-2 * inner))
    return y


@triton.jit
def multiply(
    x, words, scales, zeros, bias, out, count, x_stride, tiles, half, groups, share, steps,
    G: tl.constexpr, V: tl.constexpr, WR: tl.constexpr, WK: tl.constexpr, GI: tl.constexpr, EVEN: tl.constexpr,
    ACTIVATION: tl.constexpr, PARTS: tl.constexpr, P: tl.constexpr, ASM: tl.constexpr, STAGES: tl.constexpr, AHEAD: tl.constexpr,
):  # fmt: skip
    W: tl.constexpr = WR * WK
    S: tl.constexpr = G // 16
    c = tl.arange(0, 4)[:, None, None, None, None, None]
    r = tl.arange(0, 8)[None, :, None, None, None, None]
    w = tl.arange(0, W)[None, None, :, None, None, None]
    gi = tl.arange(0, GI)[None, None, None, :, None, None]
    e = tl.arange(0, 8)
    split = tl.program_id(1)
    tile = tl.minimum(tl.program_id(0) * WR + w // WK, tiles - 1)
    begin = split * share
    end = tl.minimum(begin + share, groups)
    a0 = tl.zeros([W, 2, 8, V, 4, 2], tl.float32)
    a1 = tl.zeros([W, 2, 8, V, 4, 2], tl.float32)
    a2 = tl.zeros([W, 2, 8, V, 4, 2], tl.float32)
    a3 = tl.zeros([W, 2, 8, V, 4, 2], tl.float32)
    ones = tl.full([GI * W, 16, G], 1.0, tl.float16)
    row = tile * groups
    STRIDE: tl.constexpr = V * 8 // P
    own_words = words + row * (G * 16) + tl.arange(0, S)[:, None] * 256 + (r * 4 + c) * 8 + e
    if AHEAD:
        first = begin + gi * WK + w % WK
        next_packed = read(own_words + (first if EVEN else tl.minimum(first, end - 1)) * (G * 16), None)
    for step in tl.range(0, steps, num_stages=STAGES):
        g = begin + step * (GI * WK) + gi * WK + w % WK
        at = g if EVEN else tl.minimum(g, end - 1)
        # [4, 8, W, GI, S, 8]
        if AHEAD:
            packed = next_packed
            later = g + GI * WK
            more = step + 1 < steps
            if not EVEN:
                later = tl.minimum(later, end - 1)
            next_packed = read(own_words + later * (G * 16), tl.broadcast_to(more, [4, 8, W, GI, S, 8]))
        else:
            packed = read(own_words + at * (G * 16), None)
        # [4, 8, W, GI, V * G // 32, 8]
        vs = tl.arange(0, V * G // 32)[:, None]
        column = r + vs // (G // 32) * 8
        m = column // STRIDE
        known = (m < count) & (column % STRIDE == 0)
        if not EVEN:
            known = known & (g < end)
        own = x + m * x_stride + at * G + vs % (G // 32) * 32 + c * 8 + e
        xs = read(own, tl.broadcast_to(known, [4, 8, W, GI, V * G // 32, 8])).to(tl.float16)
        info = (row + at) * 8 + r
        scale = read(tl.broadcast_to(scales + info * 8 + e, [4, 8, W, GI, 1, 8]), None)
        zero = read(tl.broadcast_to(zeros + info * 2 + tl.arange(0, 2), [4, 8, W, GI, 1, 2]), None)

        packed = tl.reshape(packed, [4, 8, W, GI, S, 2, 2, 2])
        packed = tl.reshape(tl.permute(packed, [3, 2, 6, 1, 4, 5, 0, 7]), [GI * W, 16, G])
        xs = tl.reshape(xs, [4, 8, W, GI, V, G // 32, 2, 2, 2])
        xs = tl.reshape(tl.permute(xs, [3, 2, 5, 6, 7, 0, 8, 4, 1]), [GI * W, G, V * 8])
        zero = tl.reshape(zero, [4, 8, W, GI, 2])
        even, odd = tl.split(tl.reshape(scale, [4, 8, W, GI, 2, 2, 2]))
        s0, s2 = tl.split(even)
        s1, s3 = tl.split(odd)
        offset = _parted(tl.dot(ones, xs), GI, W, V)
        a0 = _add(a0, packed, xs, offset, s0, zero, 0, GI, W, V, ASM)
        a1 = _add(a1, packed, xs, offset, s1, zero, 1, GI, W, V, ASM)
        a2 = _add(a2, packed, xs, offset, s2, zero, 2, GI, W, V, ASM)
        a3 = _add(a3, packed, xs, offset, s3, zero, 3, GI, W, V, ASM)

    # [W, 2 u, 8 r, V, 4 c, 2 p, 2 b, 2 h]
    y = tl.join(tl.join(a0 * 2.0**24, a1 * 2.0**20), tl.join(a2 * 2.0**24, a3 * 2.0**20))
    if STRIDE > 1:
        y = tl.sum(tl.reshape(y, [W, 2, 8, P, STRIDE, 2, 2]), 4)
    else:
        y = tl.reshape(y, [W, 2, 8, P, 2, 2])
    if WK > 1:
        y = tl.sum(tl.reshape(y, [WR, WK, 2, 8, P, 2, 2]), 1)
    # [P, WR b u r, h]
    y = tl.reshape(tl.permute(y, [3, 0, 4, 1, 2, 5]), [P, WR * 32, 2])
    i = tl.arange(0, WR * 32)
    # rows: WR, b, u, r
    n = tl.program_id(0) * (WR * 32) + i
    m = tl.arange(0, P)
    if PARTS:
        out += split * count * (2 * half)
    mask = (m < count)[:, None] & (n < half)[None, :]
    if ACTIVATION == "none":
        h = tl.arange(0, 2)
        column = n[:, None] + h[None, :] * half
        if bias is not None:
            y += tl.load(bias + column, mask=(n < half)[:, None] & (split == 0), other=0.0).to(tl.float32)[None]
        own = out + m[:, None, None] * (2 * half) + column[None]
        tl.store(own, y.to(out.dtype.element_ty), mask=tl.broadcast_to(mask[:, :, None], own.shape))
    else:
        gate, up = tl.split(y)
        y = _activated(gate, ACTIVATION) * up
        tl.store(out + m[:, None] * half + n[None, :], y.to(out.dtype.element_ty), mask=mask)
