"""Tiles of prefill attention's keys and values: found through the list and the table, loaded, rotated.

A tile goes through `find` (places of the list to the bank's), `load` and `ready` (what products take), so that a kernel
can have the next tile on its way while it multiplies this one. PACKED tiles are FP8 and travel as 32-bit words of four
numbers, since loops carry narrower numbers in a register each. They are rotated in packed float16: with half the
instructions of float32, and finer than bfloat16 operands of products are. Other tiles are rotated in float32.

F = D/2 frequencies; P is F rounded up to a power of two, W = P/4 words.
"""

import triton
import triton.language as tl

from unabridged.engine.attention.kernels.rope import angles, turn


@triton.jit
def turned_by(place, position, limit, divisor, STYLE: tl.constexpr):
    """Where a style puts what stands at `position` and, in the list, at `place`."""
    if STYLE == "streaming":
        rotated = place
    elif STYLE == "infllm":
        rotated = tl.maximum(position - limit, 0)
    elif STYLE == "dynamic-extend":
        rotated = tl.where(position < limit, position // divisor, limit // divisor + position - limit)
    else:
        rotated = position
    return rotated


@triton.jit
def find(
    n, k_table, v_table, pages, starts, sink_end, kept_end, limit,
    PAGE: tl.constexpr, CHUNK: tl.constexpr, ONE_TABLE: tl.constexpr,
):  # fmt: skip
    """Where the keys and the values at places `n` of the list lie in the bank, in tokens, and their positions."""
    kept = (n >= sink_end) & (n < kept_end)
    rank = n - sink_end
    start = tl.load(starts + rank // CHUNK, mask=kept, other=0)
    position = tl.where(kept, start + rank % CHUNK, tl.where(n < sink_end, n, limit + n - kept_end))
    page = tl.minimum(position // PAGE, pages - 1)
    key = tl.maximum(tl.load(k_table + page), 0) * PAGE + position % PAGE
    value = key
    if not ONE_TABLE:
        value = tl.maximum(tl.load(v_table + page), 0) * PAGE + position % PAGE
    return key, value, position


@triton.jit
def load(k, v, key, value, F: tl.constexpr, PACKED: tl.constexpr):
    """A tile's keys in halves and its values, for `ready`: values in halves too if PACKED, else all of them twice."""
    P: tl.constexpr = triton.next_power_of_2(F)
    SIZE: tl.constexpr = 4 if PACKED else 1
    W: tl.constexpr = F // SIZE
    # Only the product with the width leaves 32 bits.
    key = key.to(tl.int64)[:, None] * (2 * W)
    value = value.to(tl.int64)[:, None] * (2 * W)
    f = tl.arange(0, P // SIZE)[None, :]
    if PACKED:
        k = k.to(tl.pointer_type(tl.int32))
        v = v.to(tl.pointer_type(tl.int32))
    k_low = _row(k + key + f, f, W)
    k_high = _row(k + key + W + f, f, W)
    if PACKED:
        v_low = _row(v + value + f, f, W)
        v_high = _row(v + value + W + f, f, W)
    else:
        d = tl.arange(0, 2 * P)[None, :]
        v_low = _row(v + value + d, d, 2 * F)
        v_high = v_low
    return k_low, k_high, v_low, v_high


@triton.jit
def turns(rotated, near, far, F: tl.constexpr, WIDE: tl.constexpr, PACKED: tl.constexpr):
    """Cosines and sines of positions `rotated` for `ready`; near, far: the float16 tables if PACKED."""
    P: tl.constexpr = triton.next_power_of_2(F)
    SIZE: tl.constexpr = 4 if PACKED else 1
    W: tl.constexpr = F // SIZE
    # A minimum hides from the compiler that frequencies lie side by side.
    f = tl.arange(0, P // SIZE)[None, :] if F == P else tl.minimum(tl.arange(0, P // SIZE), W - 1)[None, :]
    if PACKED:
        near = near.to(tl.pointer_type(tl.int64))
        far = far.to(tl.pointer_type(tl.int64))
    if PACKED and WIDE:
        low = rotated[:, None] % 8192 * (2 * W) + f
        high = rotated[:, None] // 8192 * (2 * W) + f
        cos, sin = _summed(tl.load(near + low), tl.load(near + low + W), tl.load(far + high), tl.load(far + high + W))
    else:
        cos, sin = angles(near, far, rotated[:, None], f, W, WIDE)
    return cos, sin


@triton.jit
def _row(at, f, W: tl.constexpr):
    """What lies at `at`, 0 for columns f from W on."""
    return tl.load(at) if triton.next_power_of_2(W) == W else tl.load(at, mask=f < W, other=0.0)


@triton.jit
def ready(
    k_low, k_high, v_low, v_high, cos, sin,
    DOT: tl.constexpr, VALUE: tl.constexpr, PACKED: tl.constexpr, ONCE: tl.constexpr,
):  # fmt: skip
    """What `load` loaded as operands: rotated keys in halves `[KEYS, P]` and values `[KEYS, 2 P]`."""
    if PACKED:
        a, b, c, d, e, f, g, h = _turned(k_low, k_high, cos, sin)
        low = _side_by_side(a, b, c, d)
        high = _side_by_side(e, f, g, h)
        a, b, c, d = _half(v_low)
        e, f, g, h = _half(v_high)
        both = tl.join(_side_by_side(a, b, c, d), _side_by_side(e, f, g, h)).permute(0, 2, 1)
        values = tl.reshape(both, (both.shape[0], both.shape[1] * both.shape[2]))
    else:
        low, high = turn(k_low.to(tl.float32), k_high.to(tl.float32), cos, sin)
        low = low.to(DOT)
        high = high.to(DOT)
        values = v_low.to(VALUE)
        if ONCE:
            low, high, values = _made_once(low), _made_once(high), _made_once(values)
    return low, high, values


@triton.jit
def _made_once(x):
    """x, in a way that the compiler must not repeat. Where products take their operands from registers it would move
    the conversion and rotation of keys behind their exchange between warps, and every warp would do all of it."""
    return tl.inline_asm_elementwise("mov.b32 $0, $1;", "=r,r", [x], dtype=x.dtype, is_pure=False, pack=2)


@triton.jit
def _side_by_side(a, b, c, d):
    """Four tensors `[KEYS, W]` as one `[KEYS, 4 W]`, their numbers by turns: as they lay in words."""
    x = tl.join(tl.join(a, c), tl.join(b, d))
    return tl.reshape(x, (x.shape[0], x.shape[1] * 4))


@triton.jit
def _half(words):
    """Four e4m3 numbers of a word, as float16."""
    return tl.inline_asm_elementwise(
        """{ .reg .b16 a, b; .reg .b32 x, y;
        mov.b32 {a, b}, $4;
        cvt.rn.f16x2.e4m3x2 x, a;
        cvt.rn.f16x2.e4m3x2 y, b;
        mov.b32 {$0, $1}, x;
        mov.b32 {$2, $3}, y; }""",
        "=&h,=&h,=&h,=&h,r",
        [words],
        dtype=(tl.float16, tl.float16, tl.float16, tl.float16),
        is_pure=False,
        pack=1,
    )


@triton.jit
def _turned(low, high, cos, sin):
    """rope.turn of words of four e4m3 numbers by words of four float16 angles: four numbers low, four high."""
    return tl.inline_asm_elementwise(
        """{ .reg .b16 a, b; .reg .b32 l0, l1, h0, h1, c0, c1, s0, s1, x, y;
        mov.b32 {a, b}, $8;
        cvt.rn.f16x2.e4m3x2 l0, a;
        cvt.rn.f16x2.e4m3x2 l1, b;
        mov.b32 {a, b}, $9;
        cvt.rn.f16x2.e4m3x2 h0, a;
        cvt.rn.f16x2.e4m3x2 h1, b;
        mov.b64 {c0, c1}, $10;
        mov.b64 {s0, s1}, $11;
        mul.rn.f16x2 x, h0, s0;
        neg.f16x2 x, x;
        fma.rn.f16x2 x, l0, c0, x;
        mul.rn.f16x2 y, l0, s0;
        fma.rn.f16x2 y, h0, c0, y;
        mov.b32 {$0, $1}, x;
        mov.b32 {$4, $5}, y;
        mul.rn.f16x2 x, h1, s1;
        neg.f16x2 x, x;
        fma.rn.f16x2 x, l1, c1, x;
        mul.rn.f16x2 y, l1, s1;
        fma.rn.f16x2 y, h1, c1, y;
        mov.b32 {$2, $3}, x;
        mov.b32 {$6, $7}, y; }""",
        "=&h,=&h,=&h,=&h,=&h,=&h,=&h,=&h,r,r,l,l",
        [low, high, cos, sin],
        dtype=(tl.float16, tl.float16, tl.float16, tl.float16, tl.float16, tl.float16, tl.float16, tl.float16),
        is_pure=False,
        pack=1,
    )


@triton.jit
def _summed(c0, s0, c1, s1):
    """Cosines and sines of sums of two angles, in words of four float16 numbers."""
    return tl.inline_asm_elementwise(
        """{ .reg .b32 a0, a1, b0, b1, c0, c1, d0, d1, x0, x1, y0, y1;
        mov.b64 {a0, a1}, $2;
        mov.b64 {b0, b1}, $3;
        mov.b64 {c0, c1}, $4;
        mov.b64 {d0, d1}, $5;
        mul.rn.f16x2 x0, b0, d0;
        mul.rn.f16x2 x1, b1, d1;
        neg.f16x2 x0, x0;
        neg.f16x2 x1, x1;
        fma.rn.f16x2 x0, a0, c0, x0;
        fma.rn.f16x2 x1, a1, c1, x1;
        mul.rn.f16x2 y0, b0, c0;
        mul.rn.f16x2 y1, b1, c1;
        fma.rn.f16x2 y0, a0, d0, y0;
        fma.rn.f16x2 y1, a1, d1, y1;
        mov.b64 $0, {x0, x1};
        mov.b64 $1, {y0, y1}; }""",
        "=&l,=&l,l,l,l,l",
        [c0, s0, c1, s1],
        dtype=(tl.int64, tl.int64),
        is_pure=False,
        pack=1,
    )
