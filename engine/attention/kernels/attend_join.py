"""Findings together: of a program's warps, and of the programs that share a list (the last to arrive calls `join`)."""

import triton
import triton.language as tl


@triton.jit
def add_warps(
    best, summed, acc, W: tl.constexpr, WIDTH: tl.constexpr, RUN: tl.constexpr, PACKED: tl.constexpr,
):  # fmt: skip
    """What the warps found, together: maximum, sum `[PACKED]` and accumulator `[PACKED, WIDTH]`."""
    STRIDE: tl.constexpr = 8 // PACKED
    real = tl.arange(0, 8) % STRIDE == 0
    top = tl.max(best, 0)
    steady = tl.where(top == float("-inf"), 0.0, top)
    part = tl.where(real[None, :], tl.exp2(best - steady[None, :]), 0.0)
    summed = tl.sum(tl.reshape(tl.sum(summed * part, 0), [PACKED, STRIDE]), 1)
    top = tl.max(tl.reshape(tl.where(real, top, float("-inf")), [PACKED, STRIDE]), 1)
    acc = tl.sum(tl.sum(tl.reshape(acc * part[:, None, :], [W, WIDTH, PACKED, STRIDE]), 3), 0)
    acc = tl.permute(tl.reshape(acc, [WIDTH // (8 * RUN), RUN, 8, PACKED]), [3, 0, 2, 1])
    return top, summed, tl.reshape(acc, [PACKED, WIDTH])


@triton.jit
def join(
    row, head, active, length, out, lse, sums, state, splits, v_scale, mass, mass_width,
    GROUP: tl.constexpr, D: tl.constexpr, WIDTH: tl.constexpr, SPLITS: tl.constexpr, PIECE: tl.constexpr,
    PACKED: tl.constexpr,
):  # fmt: skip
    """What the splits of one key/value head's queries found, together: output, log-sum (with masses the binary one)."""
    i, d = tl.arange(0, PACKED), tl.arange(0, WIDTH)
    h = (row * tl.num_programs(1) + head) * GROUP + i
    second = tl.num_programs(2) * tl.num_programs(1) * GROUP * splits
    top = tl.full([PACKED], float("-inf"), tl.float32)
    total = tl.zeros([PACKED], tl.float32)
    acc = tl.zeros([PACKED, WIDTH], tl.float32)
    for begin in range(0, 1 if PIECE == SPLITS else active, PIECE):
        s = begin + tl.arange(0, PIECE)
        known = (i < GROUP)[:, None] & (s < active)[None, :]
        at = h[:, None] * splits + s[None, :]
        found_at = sums + at[:, :, None] * D + d[None, None, :]
        # Not through the first cache: other multiprocessors wrote these.
        found = tl.load(found_at, mask=known[:, :, None] & (d < D)[None, None, :], other=0.0, cache_modifier=".cg")
        best = tl.load(state + at, mask=known, other=float("-inf"), cache_modifier=".cg")
        summed = tl.load(state + second + at, mask=known, other=0.0, cache_modifier=".cg")
        higher = tl.maximum(top, tl.max(best, 1))
        steady = tl.where(higher == float("-inf"), 0.0, higher)
        share = tl.exp2(best - steady[:, None])
        old = tl.exp2(top - steady)
        total = total * old + tl.sum(share * summed, 1)
        acc = acc * old[:, None] + tl.sum(found * share[:, :, None], 1)
        top = higher
    top = tl.where(i < GROUP, top, 0.0)
    total = tl.where(i < GROUP, total, 1.0)
    acc = acc * (tl.load(v_scale + head) / total)[:, None]
    tl.store(
        out + h[:, None] * D + d[None, :],
        acc.to(out.dtype.element_ty),
        mask=(i < GROUP)[:, None] & (d < D)[None, :],
    )
    log = top + tl.log2(total)
    tl.store(lse + h, log * 0.6931471805599453, mask=i < GROUP)
    if mass is not None:
        tl.store(mass + h * mass_width + mass_width - 1, log, mask=i < GROUP)
