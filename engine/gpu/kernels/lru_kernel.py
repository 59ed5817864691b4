"""The kernels of lru.py: one program a row and head that finds what is missing and who gives way, and its copies."""

import triton
import triton.language as tl

from unabridged.models.kernels.overlap import let_next_begin, wait


@triton.jit
def _oldest(age, oldest, number):
    """The largest age that `number` slots reach, and how many are older. Ages from 1 to oldest + 1."""
    least, beyond, above = 1, oldest + 2, 0
    while beyond - least > 1:
        step = (beyond - least + 1) // 3
        one, two = least + step, least + 2 * step
        # Two counts in one sum.
        counts = tl.sum((age >= one).to(tl.int32) + ((age >= two).to(tl.int32) << 16), 0)
        first, second = counts & 0xFFFF, counts >> 16
        above = tl.where(first < number, first, tl.where(second < number, second, above))
        beyond = tl.where(first < number, one, tl.where(second < number, two, beyond))
        least = tl.where(second >= number, two, tl.where(first >= number, one, least))
    return least, above


@triton.jit
def _listed(starts, count, limit, pages, LIST: tl.constexpr, CHUNK: tl.constexpr):
    """The pages of a list, and which of them there are."""
    each: tl.constexpr = max(1, CHUNK // 16)
    i = tl.arange(0, LIST)
    start = tl.load(starts + i // each, mask=i < count * each, other=-1)
    page = start // 16 + i % each
    there = (start >= 0) & (page * 16 < limit) & (page < pages)
    if CHUNK < 16:
        # The list ascends: a page that was named before was named right before.
        before = tl.load(starts + i - 1, mask=there & (i > 0), other=-16)
        there = there & ((before < 0) | (before // 16 != page))
    return page, there


@triton.jit
def update(
    starts, count, limits, table, owner, stamp, clock, out_pages, out_slots, missing, hits, misses, chunks, pages,
    G: tl.constexpr, A: tl.constexpr, N: tl.constexpr, SINK: tl.constexpr, RING: tl.constexpr, CHUNK: tl.constexpr,
    JOINED: tl.constexpr, LIST: tl.constexpr, SLOTS: tl.constexpr, OVERLAP: tl.constexpr,
):  # fmt: skip
    if OVERLAP:
        let_next_begin()
        wait()
    row = tl.program_id(1)
    own = row * G + tl.program_id(0)
    list_number = row if JOINED else own
    number = tl.load(count + list_number)
    now = tl.load(clock + own) + 1
    begin = own * (SINK + RING + A) + SINK + RING
    table += own.to(tl.int64) * pages
    owner += own.to(tl.int64) * A
    stamp += own.to(tl.int64) * A
    out_pages += own.to(tl.int64) * N
    out_slots += own.to(tl.int64) * N

    limit = tl.load(limits + row)
    page, there = _listed(starts + list_number.to(tl.int64) * chunks, number, limit, pages, LIST, CHUNK)
    entry = tl.load(table + page, mask=there, other=-1)
    hit, miss = entry >= begin, (entry >= 0) & (entry < begin)
    tl.store(stamp + (entry - begin), tl.zeros((LIST,), tl.int32) + now, mask=hit)
    tl.store(out_pages + tl.cumsum(miss.to(tl.int32), 0) - 1, page, mask=miss)
    counts = tl.sum(miss.to(tl.int32) + (hit.to(tl.int32) << 16), 0)
    absent = counts & 0xFFFF
    # From here on every thread sees the others' stamps and misses, and none needs the old clock.
    tl.debug_barrier()
    tl.store(clock + own, now)
    tl.store(missing + own, absent)
    tl.store(hits + own, tl.load(hits + own) + (counts >> 16))
    tl.store(misses + own, tl.load(misses + own) + absent)
    if absent > 0:
        a = tl.arange(0, SLOTS)
        free = tl.load(owner + a, mask=a < A, other=0) < 0
        age = now - tl.load(stamp + a, mask=a < A, other=now)
        oldest = tl.max(tl.where(free, 0, age), 0)
        # Free slots are older than any; what this list uses, and what is no slot, is of age 0.
        age = tl.where(free, oldest + 1, age)
        threshold, above = _oldest(age, oldest, absent)
        over, tie, budget = age > threshold, age == threshold, absent - above
        packed = over.to(tl.int32) + (tie.to(tl.int32) << 16)
        before = tl.cumsum(packed, 0) - packed
        earlier = before >> 16
        taken = over | (tie & (earlier < budget))
        place = (before & 0xFFFF) + tl.minimum(earlier, budget)
        new = tl.load(out_pages + place, mask=taken, other=0)
        # Asked for again: to keep it would cost as many registers.
        held = tl.load(owner + a, mask=taken, other=-1)
        tl.debug_barrier()
        tl.store(table + held, begin - RING + held % RING, mask=taken & (held >= 0))
        tl.store(table + new, begin + a, mask=taken)
        tl.store(owner + a, new, mask=taken)
        tl.store(stamp + a, tl.zeros((SLOTS,), tl.int32) + now, mask=taken)
        tl.store(out_slots + place, begin + a, mask=taken)


@triton.jit
def fetch(
    source, target, source_table, pages, slots, missing, table_pages,
    N: tl.constexpr, WORDS: tl.constexpr, WIDTH: tl.constexpr, TILE: tl.constexpr, OVERLAP: tl.constexpr,
):  # fmt: skip
    if OVERLAP:
        let_next_begin()
        wait()
    own = tl.program_id(1)
    number = tl.load(missing + own)
    word = tl.arange(0, WIDTH)[None, :]
    for begin in range(tl.program_id(0) * TILE, number, tl.num_programs(0) * TILE):
        i = begin + tl.arange(0, TILE)
        page = tl.load(pages + own.to(tl.int64) * N + i, mask=i < number, other=0)
        to = tl.load(slots + own.to(tl.int64) * N + i, mask=i < number, other=0)
        known = (i < number) & (page < table_pages)
        of = tl.load(source_table + own.to(tl.int64) * table_pages + page, mask=known, other=-1)
        there = (of >= 0)[:, None] & (word < WORDS)
        values = tl.load(source + of.to(tl.int64)[:, None] * WORDS + word, mask=there)
        tl.store(target + to.to(tl.int64)[:, None] * WORDS + word, values, mask=there)
