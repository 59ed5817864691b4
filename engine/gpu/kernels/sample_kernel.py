"""Two of sample.py's kernels, which read rows of logits in splits; the third is in settle_kernel.py.

A row's *values* are its logits after repetition penalty and temperature. They fall into bins of 1/FINE, counted from
the row's largest down; the last bin holds everything below. Keys are values as whole numbers of the same order.
"""

import triton
import triton.language as tl

LOWEST = tl.constexpr(-(2**31))
# Finite: differences and exponentials of values never become NaN.
LARGEST = tl.constexpr(3e38)
# Bins end here: values beyond share the outermost.
GRID = tl.constexpr(1048576.0)


@triton.jit
def _values(logits, seen, row, ids, inside, vocabulary, penalty, temperature):
    """Of the tokens `ids`; NaN counts as the lowest."""
    at = row.to(tl.int64) * vocabulary + ids
    value = tl.load(logits + at, inside, -float("inf")).to(tl.float32)
    value = tl.where(value == value, value, -float("inf"))
    if penalty != 1.0:
        known = tl.load(seen + at, inside, 0) != 0
        divided = tl.div_rn(value, tl.zeros(value.shape, tl.float32) + penalty)
        value = tl.where(known, tl.where(value > 0.0, divided, value * penalty), value)
    if temperature > 0.0:
        value = tl.div_rn(value, tl.zeros(value.shape, tl.float32) + temperature)
    return tl.minimum(tl.maximum(value, -LARGEST), LARGEST)


@triton.jit
def _grid(value, FINE: tl.constexpr):
    return tl.floor(tl.minimum(tl.maximum(value, -GRID), GRID) * FINE).to(tl.int32)


@triton.jit
def key_of(value):
    # -0.0 equals 0.0.
    bits = tl.where(value == 0.0, 0.0, value).to(tl.int32, bitcast=True)
    return tl.where(bits < 0, bits ^ 0x7FFFFFFF, bits)


@triton.jit
def weight(key, top):
    """exp(value - top) of a key."""
    bits = tl.where(key < 0, key ^ 0x7FFFFFFF, key)
    return tl.exp(bits.to(tl.float32, bitcast=True) - top)


@triton.jit
def peaks_of(peaks, row, splits, SPLITS: tl.constexpr):
    """The splits' largest values, and the row's."""
    s = tl.arange(0, SPLITS)
    peak = tl.load(peaks + row * splits + s, s < splits, -LARGEST)
    return peak, tl.max(peak, 0)


@triton.jit
def uniform(seed, step):
    """In [0, 1), 24 bits, from Philox keyed by the seed and counting steps."""
    bits = tl.philox(seed, step, 0, 0, 0)[0]
    return (bits >> 8).to(tl.int32).to(tl.float32) * 5.9604644775390625e-08


@triton.jit
def settings_of(top_ks, top_ps, min_ps, row):
    """Top-k, top-p, min-p, and whether any of them is on."""
    top_k, top_p, min_p = tl.load(top_ks + row), tl.load(top_ps + row), tl.load(min_ps + row)
    return top_k, top_p, min_p, (top_k > 0) | (top_p < 1.0) | (min_p > 0.0)


@triton.jit
def survey(
    logits, seen, temperatures, penalties, top_ks, top_ps, min_ps, peaks, firsts, totals, counts, vocabulary,
    BLOCK: tl.constexpr, BINS: tl.constexpr, FINE: tl.constexpr,
):  # fmt: skip
    split, row = tl.program_id(0), tl.program_id(1)
    temperature = tl.load(temperatures + row)
    ids = split * BLOCK + tl.arange(0, BLOCK)
    inside = ids < vocabulary
    value = _values(logits, seen, row, ids, inside, vocabulary, tl.load(penalties + row), temperature)
    peak = tl.max(value, 0)
    at = row * tl.num_programs(0) + split
    tl.store(peaks + at, peak)
    tl.store(firsts + at, tl.min(tl.where((value == peak) & inside, ids, vocabulary), 0))
    if temperature > 0.0:
        tl.store(totals + at, tl.sum(tl.where(inside, tl.exp(value - peak), 0.0), 0))
        if settings_of(top_ks, top_ps, min_ps, row)[3]:
            own = tl.minimum(_grid(peak, FINE) - _grid(value, FINE), BINS - 1)
            tl.store(counts + at * BINS + tl.arange(0, BINS), tl.histogram(own, BINS, inside))


@triton.jit
def _last_bin(
    counts, at, shift, there, highest, top, total, top_k, top_p, min_p, vocabulary,
    BINS: tl.constexpr, FINE: tl.constexpr,
):  # fmt: skip
    """The last bin whose tokens may stay, or one behind it."""
    last = tl.full((), BINS - 1, tl.int32)
    if (top_k > 0) | (top_p < 1.0):
        bins = tl.arange(0, BINS)
        # The row's bins from those of its splits; the last holds what the others do not.
        own = bins[None, :] - shift[:, None]
        known = there[:, None] & (own >= 0) & (bins < BINS - 1)[None, :]
        count = tl.sum(tl.load(counts + at + own, known, 0), 0)
        count = tl.where(bins < BINS - 1, count, vocabulary - tl.sum(count, 0))
        if top_k > 0:
            last = tl.sum((tl.cumsum(count, 0) < top_k).to(tl.int32), 0)
        else:
            # More than a bin's tokens can weigh, added up from the end: what is behind the last must weigh less than
            # what top-p leaves out.
            most = count * tl.exp((highest + 1 - bins).to(tl.float32) / FINE - top)
            too_much = tl.cumsum(most, 0, reverse=True) > (1.0 - top_p) * total
            last = tl.sum(((bins > 0) & too_much).to(tl.int32), 0)
    if (min_p > 0.0) & (top_k == 0):
        last = tl.minimum(last, highest - _grid(top + tl.log(min_p), FINE))
    return last


@triton.jit
def collect(
    logits, seen, temperatures, penalties, top_ks, top_ps, min_ps, seeds, steps,
    peaks, totals, counts, keys, tokens, numbers, leasts, aims, vocabulary, splits,
    BLOCK: tl.constexpr, BINS: tl.constexpr, FINE: tl.constexpr, SPLITS: tl.constexpr,
):  # fmt: skip
    split, row = tl.program_id(0), tl.program_id(1)
    temperature = tl.load(temperatures + row)
    if temperature > 0.0:
        top_k, top_p, min_p, cuts = settings_of(top_ks, top_ps, min_ps, row)
        peak, top = peaks_of(peaks, row, splits, SPLITS)
        s = tl.arange(0, SPLITS)
        there = s < splits
        total = tl.load(totals + row * splits + s, there, 0.0) * tl.exp(peak - top)
        ids = split * BLOCK + tl.arange(0, BLOCK)
        inside = ids < vocabulary
        value = _values(logits, seen, row, ids, inside, vocabulary, tl.load(penalties + row), temperature)
        if cuts:
            highest = _grid(top, FINE)
            shift = highest - _grid(peak, FINE)
            at = (row * splits + s)[:, None] * BINS
            last = _last_bin(
                counts, at, shift, there, highest, top, tl.sum(total, 0), top_k, top_p, min_p, vocabulary, BINS, FINE
            )
            every = last >= BINS - 1
            own = tl.arange(0, BINS)[None, :]
            listed = there[:, None] & ((own <= (last - shift)[:, None]) | every)
            found = tl.sum(tl.load(counts + at + own, listed, 0), 1)
            before = tl.sum(tl.where(s < split, found, 0), 0)
            number = tl.sum(found, 0)
            mine = inside & ((highest - _grid(value, FINE) <= last) | every)
            # Values beyond the grid lie in its outermost bins.
            edge = (highest - last).to(tl.float32) / FINE
            least = tl.where(every | (edge <= -GRID), LOWEST, key_of(edge))
            aim = 0.0
        else:
            # Only one split's tokens matter: the one that the draw falls into.
            aim = uniform(tl.load(seeds + row), tl.load(steps + row)) * tl.sum(total, 0)
            over = (tl.cumsum(total, 0) > aim) & (total > 0.0)
            final = tl.max(tl.where(total > 0.0, s, 0), 0)
            drawn = tl.minimum(tl.min(tl.where(over, s, SPLITS), 0), final)
            aim -= tl.sum(tl.where(s < drawn, total, 0.0), 0)
            mine = inside & (split == drawn)
            before = 0
            number = tl.minimum(vocabulary - drawn * BLOCK, BLOCK)
            least = LOWEST
        to = row.to(tl.int64) * vocabulary + before + tl.cumsum(mine.to(tl.int32), 0) - 1
        tl.store(keys + to, key_of(value), mine)
        tl.store(tokens + to, ids, mine)
        if split == 0:
            tl.store(numbers + row, number)
            tl.store(leasts + row, least)
            tl.store(aims + row, aim)
