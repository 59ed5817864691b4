"""The kernel of `attend_prefill`: a block's queries, its list, the softmax over tiles of it.

Queries pass through the output's memory, rotated: loaded from there they stay in shared memory, where products of
warpgroups read them; computed ones would be copied to registers for every tile.
"""

import triton
import triton.language as tl

from unabridged.engine.attention.kernels.attend_prefill_tiles import find, load, ready, turned_by, turns
from unabridged.engine.attention.kernels.rope import angles, turn


@triton.jit
def attend_blocks(
    q,
    out,
    lse,
    k,
    v,
    k_table,
    v_table,
    k_scale,
    v_scale,
    pages,
    starts,
    counts,
    capacity,
    sequence,
    first,
    limits,
    divisors,
    near,
    far,
    near_half,
    far_half,
    T: tl.constexpr,
    H: tl.constexpr,
    G: tl.constexpr,
    D: tl.constexpr,
    LISTS: tl.constexpr,
    CHUNK: tl.constexpr,
    SINK: tl.constexpr,
    STYLE: tl.constexpr,
    WIDE: tl.constexpr,
    ONE_TABLE: tl.constexpr,
    PAGE: tl.constexpr,
    PARTS: tl.constexpr,
    ROWS: tl.constexpr,
    KEYS: tl.constexpr,
    DOT: tl.constexpr,
    VALUE: tl.constexpr,
    PACKED: tl.constexpr,
    ONCE: tl.constexpr,
):
    """One part of one block, one key/value head; arguments are named as in `plan_attend_prefill`."""
    GROUP: tl.constexpr = H // G
    F: tl.constexpr = D // 2
    P: tl.constexpr = triton.next_power_of_2(F)
    block = tl.program_id(0) // PARTS
    part = tl.program_id(0) % PARTS
    head = tl.program_id(1)
    own = tl.load(sequence + block).to(tl.int64) * G + head
    k_table += own * pages
    v_table += own * pages
    limit = tl.load(limits + block)
    divisor = tl.load(divisors + block)
    begin = tl.load(first + block)

    chosen = block.to(tl.int64) * LISTS + head % LISTS
    starts += chosen * capacity
    count = tl.load(counts + chosen)
    last = tl.load(starts + count - 1, mask=count > 0, other=0)
    beyond = tl.where(count > 0, tl.maximum(last + CHUNK - limit, 0), 0)
    sink_end = tl.minimum(SINK, limit)
    kept_end = sink_end + count * CHUNK - beyond
    newest = kept_end + begin - limit
    end = newest + T

    row = part * ROWS + tl.arange(0, ROWS)
    real = row < T * GROUP
    token = tl.minimum(row // GROUP, T - 1)
    place = newest + token
    at = (block.to(tl.int64) * T + token) * H + head * GROUP + row % GROUP
    rotated = turned_by(place, begin + token, limit, divisor, STYLE)
    f = tl.arange(0, P)[None, :]
    low, high = _queries(q, out, at, rotated, real, f, near, far, F, WIDE, DOT, PACKED)
    # Logits in base 2, the scale of the keys included.
    scale = tl.load(k_scale + head) * (D**-0.5 * 1.4426950408889634)

    best = tl.full((ROWS,), float("-inf"), tl.float32)
    total = tl.zeros((ROWS,), tl.float32)
    acc = tl.zeros((ROWS, 2 * P), tl.float32)
    key_near = near_half if PACKED else near
    key_far = far_half if PACKED else far
    seen_by_all = (newest + 1) // KEYS * KEYS
    j = tl.arange(0, KEYS)
    if PACKED:
        key, value, position = find(
            tl.minimum(j, end - 1), k_table, v_table, pages, starts, sink_end, kept_end, limit, PAGE, CHUNK, ONE_TABLE
        )
        k_low, k_high, v_low, v_high = load(k, v, key, value, F, PACKED)
        held = position
        key, value, position = find(
            tl.minimum(KEYS + j, end - 1), k_table, v_table, pages, starts, sink_end, kept_end, limit,
            PAGE, CHUNK, ONE_TABLE,
        )  # fmt: skip
    for n in tl.range(0, seen_by_all, KEYS):
        if not PACKED:
            key, value, held = find(
                n + j, k_table, v_table, pages, starts, sink_end, kept_end, limit, PAGE, CHUNK, ONE_TABLE
            )
            k_low, k_high, v_low, v_high = load(k, v, key, value, F, PACKED)
        cos, sin = turns(turned_by(n + j, held, limit, divisor, STYLE), key_near, key_far, F, WIDE, PACKED)
        now_low, now_high, values = ready(k_low, k_high, v_low, v_high, cos, sin, DOT, VALUE, PACKED, ONCE)
        scores = tl.dot(low, tl.trans(now_low))
        scores = tl.dot(high, tl.trans(now_high), scores)
        shares, fade, best, total = _shares(scores, scale, best, total)
        if PACKED:
            # They arrive during the product with the values, when the scores' registers are free.
            k_low, k_high, v_low, v_high = load(k, v, key, value, F, PACKED)
            held = position
            key, value, position = find(
                tl.minimum(n + 2 * KEYS + j, end - 1), k_table, v_table, pages, starts, sink_end, kept_end, limit,
                PAGE, CHUNK, ONE_TABLE,
            )  # fmt: skip
        acc = tl.dot(shares.to(VALUE), values, acc * fade[:, None])
    for n in tl.range(seen_by_all, end, KEYS, num_stages=1):
        n = n + j
        here = tl.minimum(n, end - 1)
        key, value, held = find(
            here, k_table, v_table, pages, starts, sink_end, kept_end, limit, PAGE, CHUNK, ONE_TABLE
        )
        k_low, k_high, v_low, v_high = load(k, v, key, value, F, PACKED)
        cos, sin = turns(turned_by(here, held, limit, divisor, STYLE), key_near, key_far, F, WIDE, PACKED)
        now_low, now_high, values = ready(k_low, k_high, v_low, v_high, cos, sin, DOT, VALUE, PACKED, ONCE)
        # What lies behind a sequence's end is anything, and nothing times infinity is not nothing.
        values = tl.where(tl.abs(values) < float("inf"), values, 0.0)
        scores = tl.dot(low, tl.trans(now_low))
        scores = tl.dot(high, tl.trans(now_high), scores)
        scores = tl.where(n[None, :] <= place[:, None], scores, float("-inf"))
        shares, fade, best, total = _shares(scores, scale, best, total)
        acc = tl.dot(shares.to(VALUE), values, acc * fade[:, None])

    acc *= (tl.load(v_scale + head) / total)[:, None]
    d = tl.arange(0, 2 * P)[None, :]
    tl.store(out + at[:, None] * D + d, acc.to(out.dtype.element_ty), mask=real[:, None] & (d < D))
    tl.store(lse + at, (best + tl.log2(total)) * 0.6931471805599453, mask=real)


@triton.jit
def _queries(
    q, out, at, rotated, real, f, near, far,
    F: tl.constexpr, WIDE: tl.constexpr, DOT: tl.constexpr, PACKED: tl.constexpr,
):  # fmt: skip
    """Both halves of the queries at rows `at`, rotated."""
    at = at[:, None] * (2 * F) + f
    cos, sin = angles(near, far, rotated[:, None], tl.minimum(f, F - 1), F, WIDE)
    low = tl.load(q + at, mask=f < F, other=0.0).to(tl.float32)
    high = tl.load(q + at + F, mask=f < F, other=0.0).to(tl.float32)
    low, high = turn(low, high, cos, sin)
    low = low.to(DOT)
    high = high.to(DOT)
    if PACKED:
        staged = out.to(tl.pointer_type(DOT)) + at
        tl.store(staged, low, mask=real[:, None] & (f < F))
        tl.store(staged + F, high, mask=real[:, None] & (f < F))
        tl.debug_barrier()
        low = tl.load(staged, mask=f < F, other=0.0)
        high = tl.load(staged + F, mask=f < F, other=0.0)
    return low, high


@triton.jit
def _shares(scores, scale, best, total):
    """A tile's step of the softmax over a list: its weights, the factor of what came before, maxima and sums."""
    higher = tl.maximum(best, tl.max(scores, 1) * scale)
    fade = tl.exp2(best - higher)
    shares = tl.exp2(scores * scale - higher[:, None])
    return shares, fade, higher, total * fade + tl.sum(shares, 1)
