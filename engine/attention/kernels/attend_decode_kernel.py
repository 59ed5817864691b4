"""The kernel of attend_decode.py.

Each warp of a program attends for itself, as if it were a split: it takes `PAGES` pages of 16 keys at a time, keeps its
own maximum, sum and accumulator, and waits for no other until the warps' findings are added up. Loads lie as products
want their operands (attend_operands.py): between a load and a product nothing leaves a thread.

Rotation: a page's 16 keys are turned by their steps from the first only, the same for every page, and the query by its
distance from that first key. Lists whose numbers run on inside a page allow it; the others turn each key by its number.

Dimensions of loaded tensors: [4, 8 (lanes), W (warps), PAGES, ...], of keys then 2 (keys 0..7 and 8..15 of a page), of
values 2, 2 (the same, and neighbours), at the end what a lane holds of a row.
"""

import triton
import triton.language as tl

from unabridged.engine.attention.kernels.attend_join import add_warps, join
from unabridged.engine.attention.kernels.attend_operands import (
    key_angles,
    keys,
    of_lanes,
    operand,
    padded,
    query,
    read,
    read_angles,
    shares,
    values,
)
from unabridged.engine.attention.kernels.rope import turn
from unabridged.models.kernels.overlap import let_next_begin, wait


@triton.jit
def _starts(chosen, place, CHUNK: tl.constexpr, SINK: tl.constexpr, CHUNKS: tl.constexpr):
    """The start of the chunk at each place: nothing is kept where the sink is cut short, so it counts from SINK."""
    number = (place - SINK) // CHUNK
    return read(chosen + number, (place >= SINK) & (number < CHUNKS), False) if CHUNKS > 0 else 0


@triton.jit
def _used(place, sinks, kept, gap, length, CLIPPED: tl.constexpr):
    """Whether places are of the list: what the limit cuts off its last chunk, `gap` places, is not."""
    used = place < length
    if CLIPPED:
        used = used & ((place < sinks + kept - gap) | (place >= sinks + kept))
    return used


@triton.jit
def _locate(
    start, place, sinks, kept, gap, limit, length, CHUNK: tl.constexpr, SINK: tl.constexpr, CLIPPED: tl.constexpr
):  # fmt: skip
    """Positions of places of the list; whether they are of the stream; whether they are of the list at all."""
    recent = place >= sinks + kept
    position = tl.where(recent, limit + place - sinks - kept, place)
    middle = (place >= sinks) & (place < sinks + kept)
    position = tl.where(middle, start + (place - SINK) % CHUNK, position)
    return position, recent, _used(place, sinks, kept, gap, length, CLIPPED)


@triton.jit
def _slots(
    k_table, v_table, table_row, start, place, sinks, kept, gap, limit, length,
    CHUNK: tl.constexpr, SINK: tl.constexpr, CLIPPED: tl.constexpr, SHARED: tl.constexpr,
):  # fmt: skip
    """Positions of places, and the slots of keys and values there; a page without one counts as slot 0."""
    position, _, used = _locate(start, place, sinks, kept, gap, limit, length, CHUNK, SINK, CLIPPED)
    k_slot = tl.maximum(read(k_table + table_row + position // 16, used, False), 0)
    v_slot = k_slot if SHARED else tl.maximum(read(v_table + table_row + position // 16, used, False), 0)
    return position, k_slot, v_slot


@triton.jit
def _numbers(place, position, recent, used, limit, gap, divisor, STYLE: tl.constexpr):
    """What keys at `place` of the list and `position` of the context are rotated as."""
    if STYLE == "streaming":
        number = tl.where(recent, place - gap, place)
    elif STYLE == "infllm":
        number = tl.where(recent, position - limit, 0)
    elif STYLE == "dynamic-extend":
        number = tl.where(recent, limit // divisor + position - limit, position // divisor)
    else:
        number = position
    return tl.where(used, number, 0)


@triton.jit
def attend(
    q, q_row, sequence, first, limits, divisors, k, v, k_table, v_table, k_scale, v_scale, pages, starts, count, near,
    far, out, lse, sums, state, arrived, splits, capacity, mass, mass_width, logit_scale,
    GROUP: tl.constexpr, D: tl.constexpr, WIDTH: tl.constexpr, CHUNK: tl.constexpr, SINK: tl.constexpr,
    CHUNKS: tl.constexpr, LISTS: tl.constexpr, SHARED: tl.constexpr, STYLE: tl.constexpr, WIDE: tl.constexpr,
    CLIPPED: tl.constexpr, PAGED: tl.constexpr, ONE: tl.constexpr, W: tl.constexpr, PAGES: tl.constexpr,
    RUN: tl.constexpr, KW: tl.constexpr, SPLITS: tl.constexpr, PIECE: tl.constexpr, PACKED: tl.constexpr,
    DOT: tl.constexpr, TURN: tl.constexpr, OVERLAP: tl.constexpr,
):  # fmt: skip
    if OVERLAP:
        let_next_begin()
        wait()
    split, head, row = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    F: tl.constexpr = D // 2
    HALF: tl.constexpr = WIDTH // 2
    KEYS: tl.constexpr = 16 * PAGES * W
    # Heads take every STRIDE-th of a product's eight columns: the columns between are then a thread's own to drop.
    STRIDE: tl.constexpr = 8 // PACKED
    # A page's keys are numbered one after the other.
    STEPPED: tl.constexpr = PAGED and (STYLE == "streaming" or STYLE == "true")
    chosen = starts
    kept, gap = 0, 0
    # A row of a batch that holds no sequence counts on, past its table: all it asks for must be somewhere.
    own = tl.minimum(tl.load(first + row), pages * 16 - 1)
    limit = tl.minimum(tl.load(limits + row), own // 16 * 16)
    divisor = tl.load(divisors + row) if STYLE == "dynamic-extend" else 1
    table_row = (tl.load(sequence + row).to(tl.int64) * tl.num_programs(1) + head) * pages
    if CHUNKS > 0:
        list_ = row * LISTS + (head if LISTS > 1 else 0)
        chosen = starts + list_ * CHUNKS
        chunks = tl.load(count + list_)
        kept = chunks * CHUNK
        if CLIPPED:
            last = tl.load(chosen + chunks - 1, mask=chunks > 0, other=0)
            gap = tl.where(chunks > 0, tl.maximum(last + CHUNK - limit, 0), 0)
    # Everything that does not wait for these numbers is read beside them: latency is all.
    heads_before = (row * tl.num_programs(1) + head) * GROUP
    q_low, q_high = query(q + row * q_row, head * GROUP, GROUP, STRIDE, D, HALF, RUN, W)
    scale = tl.load(k_scale + head) * logit_scale
    page = tl.arange(0, W)[:, None] + tl.arange(0, PAGES)[None, :] * W
    page = tl.broadcast_to(page[None, None, :, :], [4, 8, W, PAGES])
    inside_k = tl.arange(0, 8)[None, :, None, None, None] + tl.arange(0, 2) * 8
    inside_k = tl.broadcast_to(inside_k, [4, 8, W, 1, 2])
    inside_v = tl.arange(0, 4)[:, None, None, None, None, None] * 2 + tl.arange(0, 2)[:, None] * 8 + tl.arange(0, 2)
    inside_v = tl.broadcast_to(inside_v, [4, 8, W, 1, 2, 2])
    if STEPPED:
        k_cos, k_sin = key_angles(near, far, inside_k, F, HALF, RUN, 1, W, False, TURN)
    if ONE and PAGED:
        start = _starts(chosen, split * KEYS + page * 16, CHUNK, SINK, CHUNKS)
    sinks = tl.minimum(limit, SINK)
    length = tl.minimum(sinks + kept + own + 1 - limit, capacity)
    tiles = tl.cdiv(length, KEYS)
    share = 1 if ONE else tl.cdiv(tiles, tl.num_programs(0))
    active = tiles if ONE else tl.cdiv(tiles, share)
    # An only tile's loads do not wait to hear whether the list reaches it.
    if not ONE:  # noqa: SIM102 (a constant and a number of the device do not mix)
        if split >= active:
            return

    if STYLE == "streaming":
        at = length - 1 - gap
    elif STYLE == "infllm":
        at = own - limit
    elif STYLE == "dynamic-extend":
        at = limit // divisor + own - limit
    else:
        at = own
    best = tl.full([W, 8], float("-inf"), tl.float32)
    summed = tl.zeros([W, 8], tl.float32)
    acc = tl.zeros([W, WIDTH, 8], tl.float32)
    begin = split * share
    if PAGED:
        place = begin * KEYS + page * 16
        if not ONE:
            start = _starts(chosen, place, CHUNK, SINK, CHUNKS)
        position, k_slot, v_slot = _slots(
            k_table, v_table, table_row, start, place, sinks, kept, gap, limit, length, CHUNK, SINK, CLIPPED, SHARED
        )
    for step in range(0, 1 if ONE else tl.minimum(share, tiles - begin)):
        tile = split if ONE else begin + step
        place = tile * KEYS + page * 16
        place_k = place[:, :, :, :, None] + inside_k
        place_v = place[:, :, :, :, None, None] + inside_v
        if PAGED:
            recent, used = place >= sinks + kept, _used(place, sinks, kept, gap, length, CLIPPED)
            base = _numbers(place, position, recent, used, limit, gap, divisor, STYLE)
            k_rows = (k_slot.to(tl.int64) * (16 * D))[:, :, :, :, None] + inside_k * D
            v_rows = (v_slot.to(tl.int64) * (16 * D))[:, :, :, :, None, None] + inside_v * D
            k_used = _used(place_k, sinks, kept, gap, length, CLIPPED)
            v_used = _used(place_v, sinks, kept, gap, length, CLIPPED)
            if not STEPPED:
                position_k = position[:, :, :, :, None] + inside_k
                recent_k = recent[:, :, :, :, None]
                numbers = _numbers(place_k, position_k, recent_k, k_used, limit, gap, divisor, STYLE)
                numbers = tl.where(k_used, numbers - base[:, :, :, :, None], 0)
        else:
            start_k = _starts(chosen, place_k, CHUNK, SINK, CHUNKS)
            position_k, recent_k, k_used = _locate(
                start_k, place_k, sinks, kept, gap, limit, length, CHUNK, SINK, CLIPPED
            )
            start_v = _starts(chosen, place_v, CHUNK, SINK, CHUNKS)
            position_v, _, v_used = _locate(start_v, place_v, sinks, kept, gap, limit, length, CHUNK, SINK, CLIPPED)
            k_page = tl.maximum(read(k_table + table_row + position_k // 16, k_used, False), 0).to(tl.int64)
            v_page = tl.maximum(read(v_table + table_row + position_v // 16, v_used, False), 0).to(tl.int64)
            k_rows = k_page * (16 * D) + position_k % 16 * D
            v_rows = v_page * (16 * D) + position_v % 16 * D
            base = place * 0
            numbers = _numbers(place_k, position_k, recent_k, k_used, limit, gap, divisor, STYLE)
        low, high = keys(k, k_rows, k_used, F, HALF, RUN, PAGES, W, TURN)
        if PAGED and not ONE:
            # The next tile's slots, while this one's keys are on their way.
            later = place + KEYS
            start = _starts(chosen, later, CHUNK, SINK, CHUNKS)
            next_position, next_k, next_v = _slots(
                k_table,
                v_table,
                table_row,
                start,
                later,
                sinks,
                kept,
                gap,
                limit,
                length,
                CHUNK,
                SINK,
                CLIPPED,
                SHARED,
            )
        x_values = values(v, v_rows, v_used, D, WIDTH, RUN, PAGES, W, KW, DOT)
        if not STEPPED:
            k_cos, k_sin = key_angles(near, far, numbers, F, HALF, RUN, PAGES, W, WIDE and not PAGED, TURN)

        f = of_lanes(RUN, HALF // (4 * RUN), 4, F, HALF)[:, None, None, None]
        cos, sin = read_angles(near, far, (at - base)[:, :, :, :, None, None, None], f, F, WIDE)
        cos = tl.reshape(tl.permute(cos, [3, 2, 1, 0, 4, 5, 6]), [PAGES, W, 8, 4, HALF // 4])
        sin = tl.reshape(tl.permute(sin, [3, 2, 1, 0, 4, 5, 6]), [PAGES, W, 8, 4, HALF // 4])
        x_low, x_high = turn(q_low.to(tl.float32), q_high.to(tl.float32), cos, sin)
        x_low = padded(operand(x_low.to(DOT), KW, PAGES * W, 8, HALF), PAGES * W, HALF)
        x_high = padded(operand(x_high.to(DOT), KW, PAGES * W, 8, HALF), PAGES * W, HALF)
        low, high = turn(low, high, k_cos, k_sin)
        low = operand(low.to(DOT), KW, PAGES * W, 16, HALF)
        high = operand(high.to(DOT), KW, PAGES * W, 16, HALF)
        logits = tl.dot(x_low, tl.permute(low, [0, 2, 1]))
        logits = tl.dot(x_high, tl.permute(high, [0, 2, 1]), logits)
        logits = tl.sum(tl.reshape(logits, [PAGES * W, 2, 8, 16]), 1) * scale
        here = tile * KEYS + tl.arange(0, PAGES * W)[:, None, None] * 16 + tl.arange(0, 16)
        seen = _used(here, sinks, kept, gap, length, CLIPPED)
        logits = tl.reshape(tl.where(seen, logits, float("-inf")), [PAGES, W, 8, 16])
        logits = tl.reshape(tl.permute(logits, [1, 2, 0, 3]), [W, 8, PAGES * 16])
        top = tl.maximum(best, tl.max(logits, 2))
        # A warp's tile may be empty: a list's or a clipped chunk's end.
        steady = tl.where(top == float("-inf"), 0.0, top)
        weights = tl.exp2(logits - steady[:, :, None])
        old = tl.exp2(best - steady)
        summed = summed * old + tl.sum(weights, 2)
        acc = tl.dot(x_values, shares(weights, PAGES, W, KW, DOT), acc * old[:, None, :])
        best = top
        if PAGED and not ONE:
            position, k_slot, v_slot = next_position, next_k, next_v
        if mass is not None:
            found = tl.sum(tl.reshape(weights, [W, 8, PAGES, 16]), 3)
            cell = tile * (KEYS // 16) + tl.arange(0, PAGES)[None, None, :] * W + tl.arange(0, W)[:, None, None]
            i = tl.arange(0, 8)[None, :, None]
            wanted = (i % STRIDE == 0) & (i < GROUP * STRIDE) & (cell * 16 < length)
            log = tl.where(found > 0, tl.log2(tl.maximum(found, 1e-38)), float("-inf")) + steady[:, :, None]
            tl.store(mass + (heads_before + i // STRIDE) * mass_width + cell, log, mask=wanted)

    if split < active:
        all_best, all_summed, all_acc = add_warps(best, summed, acc, W, WIDTH, RUN, PACKED)
        h, d = tl.arange(0, PACKED), tl.arange(0, WIDTH)
        slot = (heads_before + h) * splits + split
        second = tl.num_programs(2) * tl.num_programs(1) * GROUP * splits
        tl.store(sums + slot[:, None] * D + d[None, :], all_acc, mask=(h < GROUP)[:, None] & (d < D)[None, :])
        tl.store(state + slot, all_best, mask=h < GROUP)
        tl.store(state + second + slot, all_summed, mask=h < GROUP)
        # All of the program's stores come before its arrival, and the last to arrive sees everyone's.
        tl.debug_barrier()
        counter = arrived + row * tl.num_programs(1) + head
        before = tl.atomic_add(counter, 1, sem="acq_rel", scope="gpu")
        if before == active - 1:
            tl.store(counter, 0)
            join(
                row, head, active, length, out, lse, sums, state, splits, v_scale, mass, mass_width,
                GROUP, D, WIDTH, SPLITS, PIECE, PACKED,
            )  # fmt: skip
