"""The kernels of topk.py: one for lists that a program holds, three in a row for longer ones."""

import triton
import triton.language as tl


@triton.jit
def _own(scores, chunks, row, at, inside, JOINED: tl.constexpr):
    """Scores of the chunks `at` of a list: the best of its heads, -inf for NaN."""
    base = scores + row.to(tl.int64) * JOINED * chunks
    best = tl.full(at.shape, -float("inf"), tl.float32)
    for head in tl.static_range(JOINED):
        own = tl.load(base + head * chunks + at, inside, -float("inf"))
        best = tl.where(own > best, own, best)
    return best


@triton.jit
def _places(listed, first, chunks, row, at, inside, CHUNK: tl.constexpr, PARTS: tl.constexpr):
    """Positions of the chunks' first tokens."""
    if listed is None:
        places = first + at * CHUNK
    else:
        start = tl.load(listed + row.to(tl.int64) * (chunks // PARTS) + at // PARTS, inside, -1)
        places = tl.where(start < 0, -1, start + at % PARTS * CHUNK)
    return places


@triton.jit
def _keys(
    scores,
    listed,
    first,
    chunks,
    row,
    at,
    end,
    CHUNK: tl.constexpr,
    PARTS: tl.constexpr,
    JOINED: tl.constexpr,
    TRAIL: tl.constexpr,
):
    """Own scores of the chunks `at`, and their ranks as keys of 16 bits, 0 for a chunk that does not exist."""
    inside = at < end
    own = _own(scores, chunks, row, at, inside, JOINED)
    rank = own
    for back in tl.static_range(1, TRAIL + 1):
        near = inside & (at >= back)
        if listed is not None:
            here = _places(listed, first, chunks, row, at, inside, CHUNK, PARTS)
            near = near & (here - _places(listed, first, chunks, row, at - back, near, CHUNK, PARTS) == back * CHUNK)
        rank = tl.maximum(rank, _own(scores, chunks, row, at - back, near, JOINED))
    fine = tl.minimum(tl.maximum(rank, -64.0), 64.0)
    coarse = tl.minimum(tl.maximum(rank, -1024.0), 1024.0) - fine
    # Positive before it is cut to a whole number: that is a floor.
    key = (coarse * 16.0 + (fine * 256.0 + 32768.0)).to(tl.int32)
    return own, tl.where(own > -float("inf"), key, 0)


@triton.jit
def _above(histogram):
    """How many keys lie above each digit."""
    return tl.cumsum(histogram, 0, reverse=True) - histogram


@triton.jit
def _digit(above, WANTED: tl.constexpr):
    """The smallest digit with fewer than WANTED keys above it, and how many those are."""
    # `above` falls: of the numbers below WANTED the largest stands first, and one maximum finds both.
    best = tl.max(tl.where(above < WANTED, above * 256 + (255 - tl.arange(0, 256)), 0), 0)
    return 255 - (best & 255), best >> 8


@triton.jit
def _kept(key, threshold, above, ties, budget):
    """Which keys are kept: those above the threshold, and `budget` of those at it. `above` and `ties` of them lie
    before. And each one's place in the list."""
    over, tie = key > threshold, key == threshold
    packed = over.to(tl.int32) + (tie.to(tl.int32) << 16)
    before = tl.cumsum(packed, 0) - packed
    earlier = ties + (before >> 16)
    return over | (tie & (earlier < budget)), above + (before & 0xFFFF) + tl.minimum(earlier, budget)


@triton.jit
def _finish(starts, count, row, number, WANTED: tl.constexpr, PAD: tl.constexpr):
    """The number of chunks kept, and -1 behind them."""
    to = tl.arange(0, PAD)
    tl.store(starts + row.to(tl.int64) * WANTED + to, tl.full((PAD,), -1, tl.int32), (to >= number) & (to < WANTED))
    tl.store(count + row, number)


@triton.jit
def _log(total, base):
    """base + log(total); -inf for a total of nothing."""
    return tl.where(total > 0.0, base + tl.log(tl.where(total > 0.0, total, 1.0)), -float("inf"))


@triton.jit
def _log_sum(logs):
    """Log of the summed exponentials; -inf for nothing."""
    top = tl.max(logs, 0)
    base = tl.where(top > -float("inf"), top, 0.0)
    return _log(tl.sum(tl.exp(logs - base), 0), base)


@triton.jit
def keep_few(
    scores, listed, first, chunks, starts, count, dropped,
    CHUNK: tl.constexpr, PARTS: tl.constexpr, JOINED: tl.constexpr, TRAIL: tl.constexpr,
    WANTED: tl.constexpr, BLOCK: tl.constexpr,
    PAD: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    own, key = _keys(scores, listed, first, chunks, row, at, chunks, CHUNK, PARTS, JOINED, TRAIL)
    threshold, over, unit = 0, 0, 65536
    for _ in tl.static_range(11):
        unit = (unit + 2) // 3
        trial = threshold + unit
        # Two counts in one sum.
        counts = tl.sum((key >= trial).to(tl.int32) + ((key >= trial + unit).to(tl.int32) << 16), 0)
        one, two = counts & 0xFFFF, counts >> 16
        over = tl.where(one < WANTED, one, tl.where(two < WANTED, two, over))
        threshold += tl.where(two >= WANTED, 2 * unit, tl.where(one >= WANTED, unit, 0))
    # A threshold of 0 is one that all chunks pass: what is at it does not exist.
    budget = tl.where(threshold > 0, WANTED - over, 0)
    places = _places(listed, first, chunks, row, at, at < chunks, CHUNK, PARTS)
    keep, to = _kept(key, threshold, 0, 0, budget)
    tl.store(starts + row.to(tl.int64) * WANTED + to, places, keep)
    _finish(starts, count, row, over + budget, WANTED, PAD)
    tl.store(dropped + row, _log_sum(tl.where(keep, -float("inf"), own)))


@triton.jit
def count_high(
    scores, listed, first, chunks, high, low,
    CHUNK: tl.constexpr, PARTS: tl.constexpr, JOINED: tl.constexpr, TRAIL: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    row, split = tl.program_id(0), tl.program_id(1)
    at = split * BLOCK + tl.arange(0, BLOCK)
    key = _keys(scores, listed, first, chunks, row, at, chunks, CHUNK, PARTS, JOINED, TRAIL)[1]
    bins = row * 256 + tl.arange(0, 256)
    if split == 0:
        tl.store(low + bins, tl.zeros((256,), tl.int32))
    above = _above(tl.histogram(key >> 8, 256))
    tl.atomic_add(high + bins, above, above > 0, sem="relaxed")


@triton.jit
def count_low(
    scores, listed, first, chunks, high, low, top, own,
    CHUNK: tl.constexpr, PARTS: tl.constexpr, JOINED: tl.constexpr, TRAIL: tl.constexpr,
    WANTED: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    row, split = tl.program_id(0), tl.program_id(1)
    at = split * BLOCK + tl.arange(0, BLOCK)
    key = _keys(scores, listed, first, chunks, row, at, chunks, CHUNK, PARTS, JOINED, TRAIL)[1]
    bins = tl.arange(0, 256)
    digit = _digit(tl.load(high + row * 256 + bins), WANTED)[0]
    if split == 0:
        tl.store(top + row, digit)
    upper = key >> 8
    equal = tl.histogram(key & 255, 256, upper == digit)
    above = _above(equal) + tl.sum((upper > digit).to(tl.int32), 0)
    tl.store(own + (row.to(tl.int64) * tl.num_programs(1) + split) * 256 + bins, above | (equal << 16))
    tl.atomic_add(low + row * 256 + bins, above, above > 0, sem="relaxed")


@triton.jit
def write_kept(
    scores, listed, first, chunks, high, low, top, own, partial, arrived, starts, count, dropped,
    CHUNK: tl.constexpr, PARTS: tl.constexpr, JOINED: tl.constexpr, TRAIL: tl.constexpr,
    WANTED: tl.constexpr, BLOCK: tl.constexpr,
    SPLITS: tl.constexpr, PAD: tl.constexpr,
):  # fmt: skip
    row, split, splits = tl.program_id(0), tl.program_id(1), tl.num_programs(1)
    at = split * BLOCK + tl.arange(0, BLOCK)
    score, key = _keys(scores, listed, first, chunks, row, at, chunks, CHUNK, PARTS, JOINED, TRAIL)
    places = _places(listed, first, chunks, row, at, at < chunks, CHUNK, PARTS)
    bins = row * 256 + tl.arange(0, 256)
    upper = tl.load(top + row)
    lower, over = _digit(tl.load(low + bins), WANTED)
    threshold = upper * 256 + lower
    # A threshold of 0 is one that all chunks pass: what is at it does not exist.
    budget = tl.where(threshold > 0, WANTED - over, 0)
    base = row.to(tl.int64) * splits
    others = tl.arange(0, SPLITS)
    before = tl.load(own + (base + others) * 256 + lower, others < split, 0).to(tl.int64)
    before = tl.sum((before & 0xFFFF) + (before >> 16 << 32), 0)
    above, ties = (before & 0xFFFFFFFF).to(tl.int32), (before >> 32).to(tl.int32)
    keep, to = _kept(key, threshold, above, ties, budget)
    tl.store(partial + base + split, _log_sum(tl.where(keep, -float("inf"), score)))
    # Before the longer stores, which it would wait for.
    done = tl.atomic_add(arrived + row, 1, sem="acq_rel")
    tl.store(starts + row.to(tl.int64) * WANTED + to, places, keep)
    if split == 0:
        _finish(starts, count, row, over + budget, WANTED, PAD)
        tl.store(high + bins, tl.zeros((256,), tl.int32))
    # The last of a list's programs sees what all wrote, and adds it up in the order of splits.
    if done == splits - 1:
        parts = tl.load(partial + base + others, others < splits, -float("inf"), cache_modifier=".cg")
        tl.store(dropped + row, _log_sum(parts))
        tl.store(arrived + row, 0)
