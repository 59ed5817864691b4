"""The kernel of gemv.py.

Warps read packed weights as lanes want them (w4.py), the next group while they multiply one, and nothing leaves a
thread between load and product. A product gives sums of x q; zeros are taken off afterwards, by the sum of x over the
group, in float32 as scales and all sums are.

Sums have dimensions [W (warps), 2 (u), 8 (r), V (eight rows of x each), 4 (c), 2].
"""

import triton
import triton.language as tl

from unabridged.models.kernels.gate_product import activated
from unabridged.models.kernels.lanes import add_warps, read
from unabridged.models.kernels.nibbles import number, pairs
from unabridged.models.kernels.overlap import let_next_begin, wait


@triton.jit
def _group(words, scales, zeros, which, G: tl.constexpr, W: tl.constexpr):
    """Words, scales and zeros of a group for each warp, counted over all tiles."""
    r = tl.arange(0, 8)[None, :, None, None, None]
    lane = r * 4 + tl.arange(0, 4)[:, None, None, None, None]
    step = tl.arange(0, G // 16)[:, None]
    own_scales = tl.broadcast_to(scales + (which * 8 + r) * 8 + tl.arange(0, 8), [4, 8, W, 1, 8])
    own_zeros = tl.broadcast_to(zeros + (which * 8 + r) * 2 + tl.arange(0, 2), [4, 8, W, 1, 2])
    own_words = words + which * (G * 8) + step * 128 + lane * 4 + tl.arange(0, 4)
    return read(own_words, None), read(own_scales, None), read(own_zeros, None)


@triton.jit
def _product(words, x, NIBBLE: tl.constexpr, G: tl.constexpr, V: tl.constexpr, W: tl.constexpr, PTX: tl.constexpr):
    # A lane's four int32 are of columns (h) and rows (u); steps come in twos. To rows (u, r) and columns as in x.
    w = tl.reshape(pairs(words, NIBBLE, PTX), [4, 8, W, G // 32, 2, 2, 2, 2])
    w = tl.reshape(tl.permute(w, [2, 6, 1, 3, 5, 0, 4, 7]), [W, 16, G])
    return _sums(tl.dot(w, x), V, W)


@triton.jit
def _sums(y, V: tl.constexpr, W: tl.constexpr):
    return tl.reshape(y, [W, 2, 8, V, 4, 2])


@triton.jit
def _of_rows(x):
    """A number a row `[4, 8, W, 2]` beside sums."""
    return tl.permute(x, [2, 3, 1, 0])[:, :, :, None, :, None]


@triton.jit
def _weighed(sums, x_sums, scale, zero):
    return _of_rows(scale.to(tl.float32)) * (sums - _of_rows(zero) * x_sums)


@triton.jit
def _add_group(
    a0, a1, a2, a3, x, words, scale, zero, G: tl.constexpr, V: tl.constexpr, W: tl.constexpr, PTX: tl.constexpr,
):  # fmt: skip
    """What a group adds to the sums of the four nibbles, in units of 2^-24 and 2^-20."""
    x = tl.reshape(x, [4, 8, W, V, G // 32, 2, 2, 2])
    in_any_order = tl.reshape(tl.permute(x, [2, 4, 5, 6, 0, 7, 3, 1]), [W, G, V * 8])
    x_sums = _sums(tl.dot(tl.full([W, 16, G], 1.0, tl.float16), in_any_order), V, W)
    # Of an operand that was joined Triton gives a lane runs of four places, not two: (pair of steps, h, c, step, p).
    x = tl.reshape(tl.permute(x, [2, 4, 6, 0, 5, 7, 3, 1]), [W, G, V * 8])
    even, odd = tl.split(tl.reshape(scale, [4, 8, W, 2, 2, 2]))
    s0, s2 = tl.split(even)
    s1, s3 = tl.split(odd)
    zero = tl.reshape(zero, [4, 8, W, 2])
    # Sums of nibbles 0 and 2 come with those of 1 and 3 in them.
    p1 = _product(words, x, 1, G, V, W, PTX)
    p0 = _product(words, x, 0, G, V, W, PTX) - p1
    a1 += _weighed(p1, x_sums, s1, number(zero, 1))
    a0 += _weighed(p0, x_sums, s0, number(zero, 0))
    p3 = _product(words, x, 3, G, V, W, PTX)
    p2 = _product(words, x, 2, G, V, W, PTX) - p3
    a3 += _weighed(p3, x_sums, s3, number(zero, 3))
    a2 += _weighed(p2, x_sums, s2, number(zero, 2))
    return a0, a1, a2, a3


@triton.jit
def _finished(a0, a1, a2, a3, P: tl.constexpr, V: tl.constexpr, W: tl.constexpr):
    """Sums over warps, `[P rows of x, 32 rows of the tile in a half, 2 halves]`."""
    STRIDE: tl.constexpr = V * 8 // P
    y = tl.join(tl.join(a0 * 2.0**24, a1 * 2.0**20), tl.join(a2 * 2.0**24, a3 * 2.0**20))
    # The columns between are 0. Lanes come last, so that they write to different banks of shared memory.
    if STRIDE > 1:
        y = tl.sum(tl.reshape(y, [W, 2, 8, P, STRIDE, 2, 2]), 4)
        y = tl.reshape(tl.permute(y, [0, 4, 5, 1, 2, 3]), [W, P * 64])
        y = tl.reshape(add_warps(y, W, P * 64), [2, 2, 2, 8, P])
        y = tl.permute(y, [4, 0, 2, 3, 1])
    else:
        y = tl.reshape(tl.permute(y, [0, 6, 7, 5, 1, 3, 2, 4]), [W, P * 64])
        y = tl.reshape(add_warps(y, W, P * 64), [2, 2, 2, 2, V, 8, 4])
        y = tl.permute(y, [4, 6, 2, 0, 3, 5, 1])
    return tl.reshape(y, [P, 32, 2])


@triton.jit
def multiply(
    x, words, scales, zeros, bias, out, count, x_stride, half, groups, share,
    G: tl.constexpr, V: tl.constexpr, P: tl.constexpr, W: tl.constexpr, STEPS: tl.constexpr, EVEN: tl.constexpr,
    ACTIVATION: tl.constexpr, PTX: tl.constexpr, OVERLAP: tl.constexpr,
):  # fmt: skip
    tile, split = tl.program_id(0), tl.program_id(1)
    # Rows of x take every STRIDE-th of a product's columns: the columns between are then dropped inside a thread.
    STRIDE: tl.constexpr = V * 8 // P
    piece = tl.arange(0, V * G // 32)[:, None]
    column = tl.arange(0, 8)[None, :, None, None, None] + piece // (G // 32) * 8
    row = column // STRIDE
    real = tl.broadcast_to((row < count) & (column % STRIDE == 0), [4, 8, W, V * G // 32, 8])
    c = tl.arange(0, 4)[:, None, None, None, None]
    own_x = x + row * x_stride + piece % (G // 32) * 32 + c * 8 + tl.arange(0, 8)

    # Past a slice's end a warp takes its last group again, with an x of 0.
    end = tl.minimum(split * share + share, groups)
    group = split * share + tl.arange(0, W)[None, None, :, None, None]
    at = group if EVEN else tl.minimum(group, end - 1)
    a0 = tl.zeros([W, 2, 8, V, 4, 2], tl.float32)
    a1, a2, a3 = a0, a0, a0
    packed, scale, zero = _group(words, scales, zeros, tile * groups + at, G, W)
    if OVERLAP:
        let_next_begin()
        wait()
    for step in range(STEPS):
        known = real if EVEN else real & (group < end)
        own = read(own_x + at * G, known).to(tl.float16)
        # The last time that is the same group once more, out of the first cache.
        if STEPS > 1:
            group += tl.where(step + 1 < STEPS, W, 0)
            at = group if EVEN else tl.minimum(group, end - 1)
            later_packed, later_scale, later_zero = _group(words, scales, zeros, tile * groups + at, G, W)
        a0, a1, a2, a3 = _add_group(a0, a1, a2, a3, own, packed, scale, zero, G, V, W, PTX)
        if STEPS > 1:
            packed, scale, zero = later_packed, later_scale, later_zero

    y = _finished(a0, a1, a2, a3, P, V, W)
    n = tile * 32 + tl.arange(0, 32)
    m = tl.arange(0, P)
    inside = (m < count)[:, None] & (n < half)[None, :]
    if ACTIVATION is None:
        n = n[:, None] + tl.arange(0, 2)[None, :] * half
        inside = tl.broadcast_to(inside[:, :, None], [P, 32, 2])
        if bias is not None:
            first = tl.broadcast_to((tl.arange(0, 32) + tile * 32 < half)[:, None] & (split == 0), [32, 2])
            y += tl.load(bias + n, mask=first, other=0.0).to(tl.float32)[None, :, :]
        own_out = out + (split * count + m)[:, None, None] * (2 * half) + n[None, :, :]
        tl.store(own_out, y.to(out.dtype.element_ty), mask=inside)
    else:
        gate, up = tl.split(y)
        y = activated(gate, ACTIVATION) * up
        tl.store(out + m[:, None] * half + n[None, :], y.to(out.dtype.element_ty), mask=inside)
