"""Kernels of benchmarks: random keys and values, and choices that drift. Triton."""

import triton
import triton.language as tl


@triton.jit
def normal(x, count, divisor, seed, SIZE: tl.constexpr):
    """Fill `count` numbers with normal ones over `divisor`."""
    at = tl.program_id(0) * SIZE + tl.arange(0, SIZE)
    values = tl.randn(seed, at) / divisor
    tl.store(x + at, values.to(x.dtype.element_ty), mask=at < count)


@triton.jit
def drift(
    starts,
    count,
    before,
    picks,
    clock,
    share,
    chunks,
    first,
    parents,
    seed,
    K: tl.constexpr,
    LENGTH: tl.constexpr,
    RATIO: tl.constexpr,
    BEFORE: tl.constexpr,
    SIZE: tl.constexpr,
):
    """See drift.py. One program a list: entry i is chunk `picks[i]` of the i-th of K equal strata of `chunks` chunks;
    each changes with probability `share`, to another of its stratum. With BEFORE the chunks are parts, RATIO each, of
    those that the stage before kept, `before` with `parents` entries a list; without, they lie one behind the other
    from position `first` on."""
    one = tl.program_id(0)
    i = tl.arange(0, SIZE)
    there = i < K
    step = tl.load(clock + one)
    begin = (i.to(tl.int64) * chunks // K).to(tl.int32)
    width = ((i + 1).to(tl.int64) * chunks // K).to(tl.int32) - begin
    old = tl.load(picks + one * K + i, mask=there, other=0)
    change = tl.rand(seed + one, (2 * step) * SIZE + i) < tl.load(share)
    drawn = tl.rand(seed + one, (2 * step + 1) * SIZE + i)
    # Another one, where the stratum has another; the first time, any.
    other = (old + 1 + (drawn * (width - 1)).to(tl.int32)) % width
    pick = tl.where(step == 0, tl.minimum((drawn * width).to(tl.int32), width - 1), tl.where(change, other, old))
    tl.store(picks + one * K + i, pick, mask=there)
    tl.store(clock + one, step + 1)
    # Rows that hold no sequence have nothing to keep: before the first limit nothing was chosen.
    tl.store(count + one, tl.where(tl.load(count + one) > 0, K, 0))
    chunk = begin + pick
    if BEFORE:
        parent = tl.load(before + one * parents + chunk // RATIO, mask=there, other=0)
        start = parent + chunk % RATIO * LENGTH
    else:
        start = first + chunk * LENGTH
    tl.store(starts + one * K + i, start, mask=there)
