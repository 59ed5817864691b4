"""The kernel of gemv.py."""

import os

import triton
import triton.language as tl

from unabridged.models.kernels.gate_product import activated
from unabridged.models.kernels.lanes import read, read_some

# PTX does not run in Triton's interpreter.
INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"


@triton.jit
def _halves(words, NIBBLE: tl.constexpr, BYTES: tl.constexpr, PTX: tl.constexpr):
    if PTX:
        if NIBBLE == 0:
            if BYTES:
                a, b = tl.inline_asm_elementwise(
                    "{ .reg .b32 t; and.b32 t, $2, 0x00FF00FF; mov.b32 {$0, $1}, t; }", "=h,=h,r", [words], (tl.int16, tl.int16), True, 1)
            else:
                a, b = tl.inline_asm_elementwise(
                    "{ .reg .b32 t; and.b32 t, $2, 0x000F000F; mov.b32 {$0, $1}, t; }", "=h,=h,r", [words], (tl.int16, tl.int16), True, 1)
        elif NIBBLE == 1:
            a, b = tl.inline_asm_elementwise(
                "{ .reg .b32 t; and.b32 t, $2, 0x00F000F0; mov.b32 {$0, $1}, t; }", "=h,=h,r", [words], (tl.int16, tl.int16), True, 1)
        elif NIBBLE == 2:
            if BYTES:
                a, b = tl.inline_asm_elementwise(
                    "{ .reg .b32 t; prmt.b32 t, $2, 0, 0x4341; mov.b32 {$0, $1}, t; }", "=h,=h,r", [words], (tl.int16, tl.int16), True, 1)
            else:
                a, b = tl.inline_asm_elementwise(
                    "{ .reg .b32 t; shr.b32 t, $2, 8; and.b32 t, t, 0x000F000F; mov.b32 {$0, $1}, t; }", "=h,=h,r", [words], (tl.int16, tl.int16), True, 1)
        else:
            if BYTES:
                a, b = tl.inline_asm_elementwise(
                    "{ .reg .b32 t; prmt.b32 t, $2, 0, 0x4341; and.b32 t, t, 0x00F000F0; mov.b32 {$0, $1}, t; }", "=h,=h,r", [words], (tl.int16, tl.int16), True, 1)
            else:
                a, b = tl.inline_asm_elementwise(
                    "{ .reg .b32 t; shr.b32 t, $2, 8; and.b32 t, t, 0x00F000F0; mov.b32 {$0, $1}, t; }", "=h,=h,r", [words], (tl.int16, tl.int16), True, 1)
    else:
        MASK: tl.constexpr = 0xFF if BYTES and NIBBLE % 2 == 0 else (0xF0 if NIBBLE % 2 else 0xF)
        if NIBBLE >= 2:
            words = words >> 8
        a = (words & MASK).to(tl.int16)
        b = ((words >> 16) & MASK).to(tl.int16)
    return a.to(tl.float16, bitcast=True), b.to(tl.float16, bitcast=True)


@triton.jit
def _number(words, NIBBLE: tl.constexpr):
    if NIBBLE >= 2:
        words = words >> 8
    return (words & (0xF0 if NIBBLE % 2 else 0xF)).to(tl.float16, bitcast=True).to(tl.float32)


@triton.jit
def _operand(words, NIBBLE: tl.constexpr, GI: tl.constexpr, W: tl.constexpr, S: tl.constexpr, BYTES: tl.constexpr, PTX: tl.constexpr):
    a, b = _halves(words, NIBBLE, BYTES, PTX)
    # [4 c, 8 r, W, GI, S / 2, step, 2 h, 2 u, 2 p]
    x = tl.reshape(tl.join(a, b), [4, 8, W, GI, S // 2, 2, 2, 2, 2])
    return tl.reshape(tl.permute(x, [3, 2, 7, 1, 4, 6, 0, 5, 8]), [GI * W, 16, S * 16])


@triton.jit
def _parted(x, GI: tl.constexpr, W: tl.constexpr, V: tl.constexpr):
    return tl.reshape(x, [GI, W, 2, 8, V, 4, 2])


@triton.jit
def _row(x):
    """[4, 8, W, GI, 2] to [GI, W, 2, 8, 1, 4, 1]"""
    return tl.permute(x, [3, 2, 4, 1, 0])[:, :, :, :, None, :, None]


@triton.jit
def _add(acc, part, offset, scale, zero):
    return acc + tl.sum(_row(scale.to(tl.float32)) * (part - _row(zero) * offset), 0)


@triton.jit
def _load(words, scales, zeros, at, more, S: tl.constexpr, W: tl.constexpr, GI: tl.constexpr, CACHE: tl.constexpr):
    r = tl.arange(0, 8)[None, :, None, None, None, None]
    lane = r * 4 + tl.arange(0, 4)[:, None, None, None, None, None]
    own = words + at * (S * 128) + tl.arange(0, S)[:, None] * 128 + lane * 4 + tl.arange(0, 4)
    info = at * 8 + r
    own_scales = tl.broadcast_to(scales + info * 8 + tl.arange(0, 8), [4, 8, W, GI, 1, 8])
    own_zeros = tl.broadcast_to(zeros + info * 2 + tl.arange(0, 2), [4, 8, W, GI, 1, 2])
    if more is None:
        a, b, z = read(own, None, CACHE), read(own_scales, None, ""), read(own_zeros, None, "")
    else:
        a = read_some(own, tl.broadcast_to(more, [4, 8, W, GI, S, 4]), CACHE)
        b = read_some(own_scales, tl.broadcast_to(more, [4, 8, W, GI, 1, 8]), "")
        z = read_some(own_zeros, tl.broadcast_to(more, [4, 8, W, GI, 1, 2]), "")
    return a, b, z


@triton.jit
def _accumulate(
    a0, a1, a2, a3, xs, packed, scale, zero, G: tl.constexpr, V: tl.constexpr, W: tl.constexpr, GI: tl.constexpr, BYTES: tl.constexpr,
    PTX: tl.constexpr,
):
    S: tl.constexpr = G // 16
    ones = tl.full([GI * W, 16, G], 1.0, tl.float16)
    xs = tl.reshape(xs, [4, 8, W, GI, V, G // 32, 2, 2, 2])
    any_order = tl.reshape(tl.permute(xs, [3, 2, 5, 6, 7, 0, 8, 4, 1]), [GI * W, G, V * 8])
    xs = tl.reshape(tl.permute(xs, [3, 2, 5, 7, 0, 6, 8, 4, 1]), [GI * W, G, V * 8])
    even, odd = tl.split(tl.reshape(scale, [4, 8, W, GI, 2, 2, 2]))
    s0, s2 = tl.split(even)
    s1, s3 = tl.split(odd)
    offset = _parted(tl.dot(ones, any_order), GI, W, V)
    zero = tl.reshape(zero, [4, 8, W, GI, 2])
    p1 = _parted(tl.dot(_operand(packed, 1, GI, W, S, BYTES, PTX), xs), GI, W, V)
    p0 = _parted(tl.dot(_operand(packed, 0, GI, W, S, BYTES, PTX), xs), GI, W, V)
    a1 = _add(a1, p1, offset, s1, _number(zero, 1))
    if BYTES:
        p0 -= p1
    a0 = _add(a0, p0, offset, s0, _number(zero, 0))
    p3 = _parted(tl.dot(_operand(packed, 3, GI, W, S, BYTES, PTX), xs), GI, W, V)
    p2 = _parted(tl.dot(_operand(packed, 2, GI, W, S, BYTES, PTX), xs), GI, W, V)
    a3 = _add(a3, p3, offset, s3, _number(zero, 3))
    if BYTES:
        p2 -= p3
    a2 = _add(a2, p2, offset, s2, _number(zero, 2))
    return a0, a1, a2, a3


@triton.jit
def multiply(
    x, words, scales, zeros, bias, out, count, x_stride, tiles, half, groups, share,
    G: tl.constexpr, V: tl.constexpr, WR: tl.constexpr, WK: tl.constexpr, GI: tl.constexpr, EVEN: tl.constexpr,
    ACTIVATION: tl.constexpr, PARTS: tl.constexpr, P: tl.constexpr, PTX: tl.constexpr, BYTES: tl.constexpr,
    AHEAD: tl.constexpr, UNROLL: tl.constexpr, STEPS: tl.constexpr, CACHE: tl.constexpr,
):  # fmt: skip
    W: tl.constexpr = WR * WK
    S: tl.constexpr = G // 16
    STRIDE: tl.constexpr = V * 8 // P
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
    row = tile * groups
    vs = tl.arange(0, V * G // 32)[:, None]
    column = r + vs // (G // 32) * 8
    m = column // STRIDE
    real = (m < count) & (column % STRIDE == 0)
    own_x = x + m * x_stride + vs % (G // 32) * 32 + c * 8 + e
    first = begin + gi * WK + w % WK
    if AHEAD > 0:
        packed, scale, zero = _load(words, scales, zeros, row + (first if EVEN else tl.minimum(first, end - 1)), None, S, W, GI, CACHE)
    if UNROLL == 0:
        for step in tl.static_range(STEPS):
            g = first + step * (GI * WK)
            known = real if EVEN else real & (g < end)
            at = g if EVEN else tl.minimum(g, end - 1)
            if AHEAD > 0:
                if step + 1 < STEPS:
                    later = g + GI * WK
                    if not EVEN:
                        later = tl.minimum(later, end - 1)
                    next_packed, next_scale, next_zero = _load(words, scales, zeros, row + later, None, S, W, GI, CACHE)
            else:
                packed, scale, zero = _load(words, scales, zeros, row + at, None, S, W, GI, CACHE)
            xs = read(own_x + at * G, tl.broadcast_to(known, [4, 8, W, GI, V * G // 32, 8]), "").to(tl.float16)
            a0, a1, a2, a3 = _accumulate(a0, a1, a2, a3, xs, packed, scale, zero, G, V, W, GI, BYTES, PTX)
            if AHEAD > 0:
                if step + 1 < STEPS:
                    packed, scale, zero = next_packed, next_scale, next_zero
    else:
        for step in tl.range(0, STEPS, loop_unroll_factor=UNROLL):
            g = first + step * (GI * WK)
            known = real if EVEN else real & (g < end)
            at = g if EVEN else tl.minimum(g, end - 1)
            if AHEAD > 0:
                later = g + GI * WK
                if AHEAD == 2:
                    later = tl.where(step + 1 < STEPS, later, g)
                if not EVEN:
                    later = tl.minimum(later, end - 1)
                more = None if AHEAD == 2 else step + 1 < STEPS
                next_packed, next_scale, next_zero = _load(words, scales, zeros, row + later, more, S, W, GI, CACHE)
            else:
                packed, scale, zero = _load(words, scales, zeros, row + at, None, S, W, GI, CACHE)
            xs = read(own_x + at * G, tl.broadcast_to(known, [4, 8, W, GI, V * G // 32, 8]), "").to(tl.float16)
            a0, a1, a2, a3 = _accumulate(a0, a1, a2, a3, xs, packed, scale, zero, G, V, W, GI, BYTES, PTX)
            if AHEAD > 0:
                packed, scale, zero = next_packed, next_scale, next_zero

    # [W, 2 u, 8 r, V, 4 c, 2 p, 2 b, 2 h]
    y = tl.join(tl.join(a0 * 2.0**24, a1 * 2.0**20), tl.join(a2 * 2.0**24, a3 * 2.0**20))
    if STRIDE > 1:
        y = tl.sum(tl.reshape(y, [W, 2, 8, P, STRIDE, 2, 2]), 4)
        # [W, b, h, u, r, P]
        y = tl.permute(y, [0, 4, 5, 1, 2, 3])
    else:
        # [W, b, h, p, u, v, r, c]
        y = tl.permute(y, [0, 6, 7, 5, 1, 3, 2, 4])
    if WK > 1:
        # Lanes last: they then write to different banks of shared memory.
        y = tl.sum(tl.reshape(y, [WR, WK, P * 64]), 1)
    # To [P, WR b u r, h].
    if STRIDE > 1:
        y = tl.permute(tl.reshape(y, [WR, 2, 2, 2, 8, P]), [5, 0, 1, 3, 4, 2])
    else:
        y = tl.permute(tl.reshape(y, [WR, 2, 2, 2, 2, V, 8, 4]), [5, 7, 3, 0, 1, 4, 6, 2])
    y = tl.reshape(y, [P, WR * 32, 2])
    n = tl.program_id(0) * (WR * 32) + tl.arange(0, WR * 32)
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
        y = activated(gate, ACTIVATION) * up
        tl.store(out + m[:, None] * half + n[None, :], y.to(out.dtype.element_ty), mask=mask)
