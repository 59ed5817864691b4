"""The last of sample.py's kernels: a row's token, from the keys that were collected of it.

One program a row goes through the list again and again; nearly always the list is short.
"""

import triton
import triton.language as tl

from unabridged.engine.gpu.kernels.sample_kernel import LOWEST, key_of, peaks_of, uniform, weight


@triton.jit
def _from(keys, number, least, top, COUNT: tl.constexpr, TILE: tl.constexpr):
    """How many of the keys are `least` or more, or the sum of their weights."""
    total = tl.zeros((TILE,), tl.float32)
    for start in range(0, number, TILE):
        i = start + tl.arange(0, TILE)
        key = tl.load(keys + i, i < number, LOWEST)
        total += tl.where((i < number) & (key >= least), 1.0 if COUNT else weight(key, top), 0.0)
    return tl.sum(total, 0)


@triton.jit
def _threshold(keys, number, needed, top, COUNT: tl.constexpr, TILE: tl.constexpr):
    """The largest key from which on there are `needed`; the smallest where there are not so many. What lies above it,
    and how many keys equal it."""
    low = tl.full((TILE,), 0x7FFFFFFF, tl.int32)
    high = tl.full((TILE,), LOWEST, tl.int32)
    for start in range(0, number, TILE):
        i = start + tl.arange(0, TILE)
        key = tl.load(keys + i, i < number, LOWEST)
        low = tl.minimum(low, tl.where(i < number, key, 0x7FFFFFFF))
        high = tl.maximum(high, key)
    least, beyond = tl.min(low, 0), tl.max(high, 0) + 1
    while least < beyond - 1:
        middle = (least >> 1) + (beyond >> 1) + (least & beyond & 1)
        enough = _from(keys, number, middle, top, COUNT, TILE) >= needed
        least = tl.where(enough, middle, least)
        beyond = tl.where(enough, beyond, middle)
    above = _from(keys, number, least + 1, top, COUNT, TILE)
    equal = _from(keys, number, least, top, True, TILE) - _from(keys, number, least + 1, top, True, TILE)
    return least, above, equal


@triton.jit
def _draw(keys, number, cut, ties, aim, top, TILE: tl.constexpr):
    """The place of the first key with more than `aim` up to and with it, of those above `cut` and the first `ties` at
    it; of the last of them where rounding left too little."""
    found, final, equal, mass = number, 0, 0, 0.0
    for start in range(0, number, TILE):
        i = start + tl.arange(0, TILE)
        key = tl.load(keys + i, i < number, LOWEST)
        tie = (i < number) & (key == cut)
        earlier = equal + tl.cumsum(tie.to(tl.int32), 0) - 1
        stays = (i < number) & ((key > cut) | (tie & (earlier < ties)))
        own = tl.where(stays, weight(key, top), 0.0)
        reached = mass + tl.cumsum(own, 0)
        found = tl.minimum(found, tl.min(tl.where(stays & (own > 0.0) & (reached > aim), i, number), 0))
        final = tl.maximum(final, tl.max(tl.where(stays & (own > 0.0), i, 0), 0))
        mass += tl.sum(own, 0)
        equal += tl.sum(tie.to(tl.int32), 0)
    return tl.where(found < number, found, final)


@triton.jit
def settle(
    seen, temperatures, penalties, top_ks, top_ps, min_ps, seeds, steps,
    peaks, firsts, totals, keys, tokens, numbers, aims, out, vocabulary, splits,
    SPLITS: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0)
    peak, top = peaks_of(peaks, row, splits, SPLITS)
    s = tl.arange(0, SPLITS)
    first = tl.load(firsts + row * splits + s, s < splits, vocabulary)
    choice = tl.min(tl.where(peak == top, first, vocabulary), 0)
    if tl.load(temperatures + row) > 0.0:
        top_k, top_p, min_p = tl.load(top_ks + row), tl.load(top_ps + row), tl.load(min_ps + row)
        number, aim = tl.load(numbers + row), tl.load(aims + row)
        listed = row.to(tl.int64) * vocabulary
        keys += listed
        cut, ties = tl.full((), LOWEST, tl.int32), tl.full((), 0, tl.int32)
        if (top_k > 0) | (top_p < 1.0) | (min_p > 0.0):
            mass = tl.sum(tl.load(totals + row * splits + s, s < splits, 0.0) * tl.exp(peak - top), 0)
            if top_k > 0:
                cut, above, equal = _threshold(keys, number, top_k.to(tl.float32), top, True, TILE)
                ties = tl.minimum(top_k - above.to(tl.int32), equal.to(tl.int32))
                mass = _from(keys, number, cut + 1, top, False, TILE) + ties * weight(cut, top)
            if top_p < 1.0:
                needed = top_p * mass
                border, above, equal = _threshold(keys, number, needed, top, False, TILE)
                # The first token always stays.
                more = tl.maximum(tl.ceil((needed - above) / weight(border, top)), 1.0)
                more = tl.minimum(more, equal).to(tl.int32)
                ties = tl.where(border > cut, more, tl.where(border == cut, tl.minimum(ties, more), ties))
                cut = tl.maximum(cut, border)
            if min_p > 0.0:
                least = key_of(top + tl.log(min_p))
                ties = tl.where(least > cut, 0, ties)
                cut = tl.maximum(cut, least - 1)
            mass = _from(keys, number, cut + 1, top, False, TILE)
            mass += tl.where(ties > 0, ties * weight(cut, top), 0.0)
            aim = mass * uniform(tl.load(seeds + row), tl.load(steps + row))
        choice = tl.load(tokens + listed + _draw(keys, number, cut, ties, aim, top, TILE))
    tl.store(out + row, choice.to(tl.int64))
    if tl.load(penalties + row) != 1.0:
        tl.store(seen + row.to(tl.int64) * vocabulary + choice, 1)
    tl.store(steps + row, tl.load(steps + row) + 1)
