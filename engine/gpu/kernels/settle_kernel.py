"""The last of sample.py's kernels: a row's token, from the keys that were collected of it.

One program a row goes through the list a few times; nearly always the list is short.
"""

import triton
import triton.language as tl

from unabridged.engine.gpu.kernels.sample_kernel import LOWEST, key_of, peaks_of, settings_of, uniform, weight

# Keys that one round of a search compares with.
_WAYS = tl.constexpr(8)


@triton.jit
def _reach(keys, number, least, top, COUNT: tl.constexpr, TILE: tl.constexpr):
    """How many keys are as large as each of `least`, or the sum of their weights."""
    total = tl.zeros((least.shape[0], TILE), tl.float32)
    for start in range(0, number, TILE):
        i = start + tl.arange(0, TILE)
        key = tl.load(keys + i, i < number, LOWEST)
        own = tl.zeros((TILE,), tl.float32) + 1.0 if COUNT else weight(key, top)
        total += tl.where((i < number)[None, :] & (key[None, :] >= least[:, None]), own[None, :], 0.0)
    return tl.sum(total, 1)


@triton.jit
def _threshold(keys, number, least, beyond, needed, top, COUNT: tl.constexpr, TILE: tl.constexpr):
    """The largest key from which on there is as much as `needed`, at least `least`: less than that lies from `beyond`
    on. And how much lies above it."""
    above = tl.full((), 0.0, tl.float32)
    while least < beyond - 1:
        step = (beyond.to(tl.int64) - least + _WAYS) // (_WAYS + 1)
        trial = tl.minimum(least + step * (1 + tl.arange(0, _WAYS)), beyond.to(tl.int64)).to(tl.int32)
        reach = _reach(keys, number, trial, top, COUNT, TILE)
        enough = reach >= needed
        least = tl.max(tl.where(enough, trial, least), 0)
        beyond = tl.min(tl.where(enough, beyond, trial), 0)
        above = tl.maximum(above, tl.max(tl.where(enough, 0.0, reach), 0))
    return least, above


@triton.jit
def _mass(keys, number, cut, ties, top, TILE: tl.constexpr):
    """The weights of the keys above `cut` and of `ties` equal to it."""
    above = tl.max(_reach(keys, number, tl.full((1,), 1, tl.int32) + cut, top, False, TILE), 0)
    return above + tl.where(ties > 0, ties * weight(cut, top), 0.0)


@triton.jit
def _cut(keys, number, least, mass, top, top_k, top_p, min_p, TILE: tl.constexpr):
    """A key, how many equal to it stay beside all larger ones, and the mass of both; `mass` of the whole row."""
    cut, ties = tl.full((), LOWEST, tl.int32), tl.full((), 0, tl.int32)
    beyond = key_of(top) + 1
    if top_k > 0:
        cut, above = _threshold(keys, number, least, beyond, top_k.to(tl.float32), top, True, TILE)
        ties = top_k - above.to(tl.int32)
        mass = _mass(keys, number, cut, ties, top, TILE)
    if top_p < 1.0:
        needed = top_p * mass
        border, above = _threshold(keys, number, tl.maximum(least, cut), beyond, needed, top, False, TILE)
        # The first token always stays.
        more = tl.maximum(tl.ceil((needed - above) / weight(border, top)), 1.0).to(tl.int32)
        ties = tl.where(border > cut, more, tl.minimum(ties, more))
        cut = border
        mass = above + ties * weight(cut, top)
    if min_p > 0.0:
        floor = key_of(top + tl.log(min_p)) - 1
        if floor >= cut:
            ties = tl.full((), 0, tl.int32)
            cut = floor
            mass = _mass(keys, number, cut, ties, top, TILE)
    return cut, ties, mass


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
        own = tl.where((i < number) & ((key > cut) | (tie & (earlier < ties))), weight(key, top), 0.0)
        reached = mass + tl.cumsum(own, 0)
        found = tl.minimum(found, tl.min(tl.where((own > 0.0) & (reached > aim), i, number), 0))
        final = tl.maximum(final, tl.max(tl.where(own > 0.0, i, 0), 0))
        mass += tl.sum(own, 0)
        equal += tl.sum(tie.to(tl.int32), 0)
    return tl.where(found < number, found, final)


@triton.jit
def _place(
    keys, number, least, mass, aim, random, top, top_k, top_p, min_p, cuts, TILE: tl.constexpr
):  # fmt: skip
    """Of the key that is drawn."""
    cut, ties = tl.full((), LOWEST, tl.int32), tl.full((), 0, tl.int32)
    if cuts:
        cut, ties, mass = _cut(keys, number, least, mass, top, top_k, top_p, min_p, TILE)
        aim = mass * random
    return _draw(keys, number, cut, ties, aim, top, TILE)


@triton.jit
def settle(
    seen, temperatures, penalties, top_ks, top_ps, min_ps, seeds, steps,
    peaks, firsts, totals, keys, tokens, numbers, leasts, aims, out, vocabulary, splits,
    SPLITS: tl.constexpr, SHORT: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0)
    # All asked for at once: a greedy row waits for memory and little else.
    temperature, penalty, step = tl.load(temperatures + row), tl.load(penalties + row), tl.load(steps + row)
    peak, top = peaks_of(peaks, row, splits, SPLITS)
    s = tl.arange(0, SPLITS)
    first = tl.load(firsts + row * splits + s, s < splits, vocabulary)
    choice = tl.min(tl.where(peak == top, first, vocabulary), 0)
    if temperature > 0.0:
        top_k, top_p, min_p, cuts = settings_of(top_ks, top_ps, min_ps, row)
        number, least, aim = tl.load(numbers + row), tl.load(leasts + row), tl.load(aims + row)
        random = uniform(tl.load(seeds + row), step)
        mass = tl.sum(tl.load(totals + row * splits + s, s < splits, 0.0) * tl.exp(peak - top), 0)
        listed = row.to(tl.int64) * vocabulary
        # Most lists are short, and a tile of their size is less work.
        if number <= SHORT:
            at = _place(keys + listed, number, least, mass, aim, random, top, top_k, top_p, min_p, cuts, SHORT)
        else:
            at = _place(keys + listed, number, least, mass, aim, random, top, top_k, top_p, min_p, cuts, TILE)
        choice = tl.load(tokens + listed + at)
    tl.store(out + row, choice.to(tl.int64))
    if penalty != 1.0:
        tl.store(seen + row.to(tl.int64) * vocabulary + choice, 1)
    tl.store(steps + row, step + 1)
