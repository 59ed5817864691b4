"""Sparse attention of one query a sequence, split over keys (FlashDecoding), in one launch.

A block's keys are one virtual list: the sink, what was kept, the stream. A program takes the query heads of one
key/value head and a run of the list; the last program of a head to arrive joins what all of them found, in the order of
the list whichever it is. The list's length is the device's affair: the grid is made for `capacity`.

All keys of a group of U = gcd(16, chunk, sink) places lie in one page, one behind the other: a group is looked up once,
and its angles are those of its first key and of a few steps from it, added in registers.

Latency is all: loads go out together. `if together` is always so; without such a block the compiler waits for each load
to move what it brought between threads, before it sends out the next. A loop over tiles it pipelines by itself.
"""

import math
from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from unabridged.engine.attention.config import AttentionRope
from unabridged.engine.attention.kernels.launch import Launch
from unabridged.engine.attention.kernels.layout import PAGE, Bank, Kept, Rows
from unabridged.engine.attention.kernels.numbers import dot_type
from unabridged.engine.attention.kernels.rope import NEAR, RopeTables, angles, turn

# Programs that keep a large card busy; past it a program takes several tiles.
_PROGRAMS = 512
# A last program reads the splits' sums in pieces of so many numbers a warp.
_JOINED = 2048


@dataclass(frozen=True)
class Cut:
    """How a list is cut: tiles of `keys` keys, `splits` runs of tiles, `warps` a program."""

    keys: int
    splits: int
    warps: int

    @classmethod
    def of(cls, capacity: int, lists: int, dim: int) -> "Cut":
        """For `lists` = R * G lists of at most `capacity` keys."""
        keys = 128 if dim <= 128 else 64
        return cls(keys, max(1, min(triton.cdiv(capacity, keys), _PROGRAMS // lists)), 8)


@dataclass(frozen=True)
class Scratch:
    """What programs leave for the last one: sums `[R, H, splits, D]` and, `[2, R, H, splits]`, largest logits and
    summed exponentials, float32; how many of a head have arrived, `[R, G]` int32, zero between launches."""

    sums: Tensor
    state: Tensor
    arrived: Tensor

    @classmethod
    def of(cls, q: Tensor, kv_heads: int, splits: int) -> "Scratch":
        """For q `[R, 1, H, D]`; launches of fewer splits may share it, one after the other."""
        rows, _, heads, dim = q.shape
        return cls(
            torch.empty(rows, heads, splits, dim, dtype=torch.float32, device=q.device),
            torch.empty(2, rows, heads, splits, dtype=torch.float32, device=q.device),
            torch.zeros(rows, kv_heads, dtype=torch.int32, device=q.device),
        )


@triton.jit
def _angle_parts(
    place, position, used, limit, recent, gap, divisor, near, far, together,
    STYLE: tl.constexpr, U: tl.constexpr, F: tl.constexpr, HALF: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """Cosines and sines of the positions of each group's first key, `[groups, 1, HALF]`, and of the steps from it to
    its keys, `[groups or 1, U, HALF]`, of groups at `place` of the list and `position` of the context."""
    base = position
    steps = tl.arange(0, U)[None, :]
    if STYLE == "streaming":
        base = tl.where(recent, place - gap, place)
    elif STYLE == "infllm":
        base = tl.where(recent, position - limit, 0)
        steps = tl.where(recent[:, None], steps, 0)
    elif STYLE == "dynamic-extend":
        base = tl.where(recent, limit // divisor + position - limit, position // divisor)
        steps = tl.where(recent[:, None], steps, ((position % divisor)[:, None] + steps) // divisor)
    base = tl.where(used, base, 0)
    f = _frequencies(F, HALF)[None, None, :]
    c0 = tl.zeros([base.shape[0], 1, HALF], tl.float32)
    c1 = tl.zeros([steps.shape[0], U, HALF], tl.float32)
    s0, s1 = c0, c1
    if together:
        c0, s0 = angles(near, far, base[:, None, None], f, F, WIDE)
        c1, s1 = angles(near, far, steps[:, :, None], f, F, False)
    return c0, s0, c1, s1


@triton.jit
def _frequencies(F: tl.constexpr, HALF: tl.constexpr):
    """0..HALF-1, the last ones held at F-1 where F is no power of two."""
    f = tl.arange(0, HALF)
    return f if F == HALF else tl.minimum(f, F - 1)


@triton.jit
def _rotated_query(
    q, row, head, at, scale, near, far, GROUP: tl.constexpr, D: tl.constexpr, F: tl.constexpr, HALF: tl.constexpr,
    WIDE: tl.constexpr, ROWS: tl.constexpr, DOT: tl.constexpr,
):  # fmt: skip
    """The halves of a key/value head's queries, rotated, scaled, padded with zeros to `[ROWS, HALF]`."""
    h, f = tl.arange(0, ROWS), tl.arange(0, HALF)
    cos, sin = angles(near, far, at, _frequencies(F, HALF), F, WIDE)
    own = q + ((row * tl.num_programs(1) + head) * GROUP + h)[:, None] * D + f[None, :]
    valid = (h < GROUP)[:, None] & (f < F)[None, :]
    low = tl.load(own, mask=valid, other=0.0).to(tl.float32) * scale
    high = tl.load(own + F, mask=valid, other=0.0).to(tl.float32) * scale
    low, high = turn(low, high, cos[None, :], sin[None, :])
    return low.to(DOT), high.to(DOT)


@triton.jit
def _starts(chosen, place, CHUNK: tl.constexpr, SINK: tl.constexpr, CHUNKS: tl.constexpr):
    """The start of the chunk at each place: nothing is kept where the sink is cut short, so it counts from SINK."""
    number = (place - SINK) // CHUNK
    return tl.load(chosen + number, mask=(place >= SINK) & (number < CHUNKS), other=0)


@triton.jit
def _join(
    row, head, active, length, out, lse, sums, state, splits, v_scale, mass, mass_width,
    GROUP: tl.constexpr, D: tl.constexpr, WIDTH: tl.constexpr, SPLITS: tl.constexpr, PIECE: tl.constexpr,
    PACKED: tl.constexpr,
):  # fmt: skip
    """What the splits of one key/value head's queries found, together: output, log-sum, masses."""
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
        for begin in range(0, mass_width, 256):
            c = begin + tl.arange(0, 256)
            cell = mass + h[:, None] * mass_width + c[None, :]
            inside = (i < GROUP)[:, None] & (c < mass_width)[None, :]
            raw = tl.load(cell, mask=inside & (c * 16 < length)[None, :], other=float("-inf"), cache_modifier=".cg")
            tl.store(cell, tl.exp2(raw - log[:, None]), mask=inside)


@triton.jit
def _attend(
    q, sequence, first, limits, divisors, k, v, k_table, v_table, k_scale, v_scale, pages, starts, count, near, far,
    out, lse, sums, state, arrived, splits, mass, mass_width, logit_scale,
    GROUP: tl.constexpr, D: tl.constexpr, WIDTH: tl.constexpr, CHUNK: tl.constexpr, SINK: tl.constexpr,
    CHUNKS: tl.constexpr, LISTS: tl.constexpr, SHARED: tl.constexpr, STYLE: tl.constexpr, WIDE: tl.constexpr,
    CLIPPED: tl.constexpr, U: tl.constexpr, KEYS: tl.constexpr, ONE: tl.constexpr, SPLITS: tl.constexpr,
    PIECE: tl.constexpr, PACKED: tl.constexpr, DOT: tl.constexpr, V_DOT: tl.constexpr,
):  # fmt: skip
    split, head, row = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    F: tl.constexpr = D // 2
    HALF: tl.constexpr = WIDTH // 2
    ROWS: tl.constexpr = 16
    # Loads go out as early as their addresses are known: what is known of the only tile before the row's numbers
    # are is its places, their chunks' starts and, numbered in order, their angles.
    EARLY: tl.constexpr = ONE and STYLE == "streaming" and not CLIPPED
    together = pages > 0 if ONE else True
    places = tl.arange(0, KEYS // U) * U
    chosen = starts
    if starts is not None:
        list_ = row * LISTS + (head if LISTS > 1 else 0)
        chosen = starts + list_ * CHUNKS
        if ONE:
            start = _starts(chosen, split * KEYS + places, CHUNK, SINK, CHUNKS)
    limit = tl.load(limits + row)
    own = tl.load(first + row)
    divisor = tl.load(divisors + row) if STYLE == "dynamic-extend" else 1
    table_row = (tl.load(sequence + row).to(tl.int64) * tl.num_programs(1) + head) * pages
    scale = logit_scale * tl.load(k_scale + head)
    sinks = tl.minimum(limit, SINK)
    kept = 0
    gap = 0
    if starts is not None:
        chunks = tl.load(count + list_)
        kept = chunks * CHUNK
        if CLIPPED:
            last = tl.load(chosen + chunks - 1, mask=chunks > 0, other=0)
            gap = tl.where(chunks > 0, tl.maximum(last + CHUNK - limit, 0), 0)
    if EARLY:
        place = split * KEYS + places
        c0, s0, c1, s1 = _angle_parts(
            place, place, place >= 0, 0, place < 0, 0, 1, near, far, together, STYLE, U, F, HALF, WIDE
        )
    length = sinks + kept + own + 1 - limit
    tiles = tl.cdiv(length, KEYS)
    share = 1 if ONE else tl.cdiv(tiles, tl.num_programs(0))
    active = tiles if ONE else tl.cdiv(tiles, share)
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
    if not ONE:
        q_low, q_high = _rotated_query(q, row, head, at, scale, near, far, GROUP, D, F, HALF, WIDE, ROWS, DOT)
    best = tl.full([ROWS], float("-inf"), tl.float32)
    summed = tl.zeros([ROWS], tl.float32)
    acc = tl.zeros([ROWS, WIDTH], tl.float32)
    f, d, inside = tl.arange(0, HALF), tl.arange(0, WIDTH), tl.arange(0, U)
    begin = split * share
    for step in range(0, 1 if ONE else tl.minimum(share, tiles - begin)):
        tile = split if ONE else begin + step
        place = tile * KEYS + places
        recent = place >= sinks + kept
        position = tl.where(recent, limit + place - sinks - kept, place)
        if starts is not None:
            if not ONE:
                start = _starts(chosen, place, CHUNK, SINK, CHUNKS)
            middle = (place >= sinks) & (place < sinks + kept)
            position = tl.where(middle, start + (place - SINK) % CHUNK, position)
        page = table_row + position // 16
        used = place < length
        if CLIPPED:
            used = used & (recent | (position < limit))
        k_slot = tl.load(k_table + page, mask=used, other=0).to(tl.int64)
        v_slot = k_slot if SHARED else tl.load(v_table + page, mask=used, other=0).to(tl.int64)
        if not EARLY:
            c0, s0, c1, s1 = _angle_parts(
                place, position, used, limit, recent, gap, divisor, near, far, together, STYLE, U, F, HALF, WIDE
            )
        valid = used[:, None] & (place[:, None] + inside[None, :] < length)
        offset = (position % 16)[:, None] + inside[None, :]
        k_row = k + (k_slot[:, None] * (16 * D) + offset * D)[:, :, None] + f[None, None, :]
        v_row = v + (v_slot[:, None] * (16 * D) + offset * D)[:, :, None] + d[None, None, :]
        k_valid = valid[:, :, None]
        v_valid = valid[:, :, None]
        if F < HALF:
            k_valid = k_valid & (f < F)[None, None, :]
            v_valid = v_valid & (d < D)[None, None, :]
        low = tl.zeros([KEYS // U, U, HALF], k.dtype.element_ty)
        high = low
        values = tl.zeros([KEYS // U, U, WIDTH], v.dtype.element_ty)
        if together:
            low = tl.load(k_row, mask=k_valid, other=0.0)
            high = tl.load(k_row + F, mask=k_valid, other=0.0)
            values = tl.load(v_row, mask=v_valid, other=0.0)
        if ONE:
            q_low, q_high = _rotated_query(q, row, head, at, scale, near, far, GROUP, D, F, HALF, WIDE, ROWS, DOT)
        cos, sin = c0 * c1 - s0 * s1, s0 * c1 + c0 * s1
        low, high = turn(low.to(tl.float32), high.to(tl.float32), cos, sin)
        low = tl.reshape(low.to(DOT), [KEYS, HALF])
        high = tl.reshape(high.to(DOT), [KEYS, HALF])
        logits = tl.dot(q_low, tl.trans(low))
        logits = tl.dot(q_high, tl.trans(high), logits)
        logits = tl.where(tl.reshape(valid, [KEYS])[None, :], logits, float("-inf"))
        top = tl.maximum(best, tl.max(logits, 1))
        # A tile may be empty: a clipped chunk's end.
        steady = tl.where(top == float("-inf"), 0.0, top)
        weights = tl.exp2(logits - steady[:, None])
        old = tl.exp2(best - steady)
        summed = summed * old + tl.sum(weights, 1)
        acc = tl.dot(weights.to(V_DOT), tl.reshape(values.to(V_DOT), [KEYS, WIDTH]), acc * old[:, None])
        best = top
        if mass is not None:
            cells: tl.constexpr = KEYS // 16
            found = tl.sum(tl.reshape(weights, [ROWS, cells, 16]), 2)
            c = tile * cells + tl.arange(0, cells)
            i = tl.arange(0, ROWS)
            cell = mass + ((row * tl.num_programs(1) + head) * GROUP + i)[:, None] * mass_width + c[None, :]
            inside_list = (i < GROUP)[:, None] & (c * 16 < length)[None, :]
            log = tl.where(found > 0, tl.log2(tl.maximum(found, 1e-38)), float("-inf"))
            tl.store(cell, log + steady[:, None], mask=inside_list)

    i = tl.arange(0, ROWS)
    slot = ((row * tl.num_programs(1) + head) * GROUP + i) * splits + split
    second = tl.num_programs(2) * tl.num_programs(1) * GROUP * splits
    tl.store(sums + slot[:, None] * D + d[None, :], acc, mask=(i < GROUP)[:, None] & (d < D)[None, :])
    tl.store(state + slot, best, mask=i < GROUP)
    tl.store(state + second + slot, summed, mask=i < GROUP)
    # All of the program's stores come before its arrival, and the last to arrive sees everyone's.
    tl.debug_barrier()
    counter = arrived + row * tl.num_programs(1) + head
    before = tl.atomic_add(counter, 1, sem="acq_rel", scope="gpu")
    if before == active - 1:
        tl.store(counter, 0)
        _join(
            row, head, active, length, out, lse, sums, state, splits, v_scale, mass, mass_width,
            GROUP, D, WIDTH, SPLITS, PIECE, PACKED,
        )  # fmt: skip


def plan_attend_decode(
    q: Tensor,
    rows: Rows,
    bank: Bank,
    kept: Kept | None,
    chunk: int,
    sink: int,
    style: AttentionRope,
    rope: RopeTables,
    out: Tensor,
    lse: Tensor,
    scratch: Scratch,
    *,
    capacity: int,
    mass: Tensor | None = None,
    cut: Cut | None = None,
) -> Launch:
    """See `attend_decode`."""
    count, _, heads, dim = q.shape
    group = heads // bank.heads
    cut = cut or Cut.of(capacity, count * bank.heads, dim)
    width = 2 * triton.next_power_of_2(dim // 2)
    packed, splits = triton.next_power_of_2(group), triton.next_power_of_2(cut.splits)
    return Launch(
        _attend,
        (cut.splits, bank.heads, count),
        {
            "q": q,
            "sequence": rows.sequence,
            "first": rows.first,
            "limits": rows.limits,
            "divisors": rows.divisors,
            "k": bank.k,
            "v": bank.v,
            "k_table": bank.k_table,
            "v_table": bank.v_table,
            "k_scale": bank.k_scale,
            "v_scale": bank.v_scale,
            "pages": bank.k_table.shape[2],
            "starts": kept.starts if kept else None,
            "count": kept.count if kept else None,
            "near": rope.near,
            "far": rope.far,
            "out": out,
            "lse": lse,
            "sums": scratch.sums,
            "state": scratch.state,
            "arrived": scratch.arrived,
            "splits": cut.splits,
            "mass": mass,
            "mass_width": mass.shape[2] if mass is not None else 0,
            "logit_scale": dim**-0.5 * math.log2(math.e),
        },
        {
            "GROUP": group,
            "D": dim,
            "WIDTH": width,
            "CHUNK": chunk,
            "SINK": sink,
            "CHUNKS": kept.starts.shape[2] if kept else 0,
            "LISTS": kept.starts.shape[1] if kept else 1,
            "SHARED": bank.k_table is bank.v_table,
            "STYLE": style,
            "WIDE": style != "streaming" or capacity > NEAR,
            "CLIPPED": kept is not None and (chunk > PAGE or sink % chunk > 0),
            "U": math.gcd(PAGE, chunk, sink) if kept else math.gcd(PAGE, sink),
            "KEYS": cut.keys,
            "ONE": cut.splits * cut.keys >= capacity,
            "SPLITS": splits,
            "PIECE": min(splits, max(1, _JOINED * cut.warps // (packed * width))),
            "PACKED": packed,
            "DOT": dot_type(q.dtype),
            # e4m3 becomes float16 in one instruction for two, bfloat16 through a slow second one.
            "V_DOT": dot_type(torch.float16 if bank.v.dtype == torch.float8_e4m3fn else q.dtype),
        },
        warps=cut.warps,
        stages=1 if cut.splits * cut.keys >= capacity else 2,
    )


def attend_decode(
    q: Tensor,
    rows: Rows,
    bank: Bank,
    kept: Kept | None,
    chunk: int,
    sink: int,
    style: AttentionRope,
    rope: RopeTables,
    out: Tensor,
    lse: Tensor,
    scratch: Scratch,
    *,
    capacity: int,
    mass: Tensor | None = None,
    cut: Cut | None = None,
) -> None:
    """Attend from q `[R, 1, H, D]` to each row's sink, kept chunks of `chunk` tokens, and stream.

    No row's list is longer than `capacity`: min(sink, limit), count * chunk, and the tokens from the limit to the
    query's, which lie in the bank. kept None: sink and stream alone, which with limits of 0 is dense attention.

    Writes out `[R, 1, H, D]`, lse `[R, H]` float32 (natural log of the summed exponentials of the logits) and, if
    wanted, mass `[R, H, ceil(capacity / 16)]` float32: the share of each query head's attention that went to places
    16c..16c+15 of the list, zero behind its end. A last chunk that the limit cuts short takes up places as if whole.
    """
    plan_attend_decode(
        q, rows, bank, kept, chunk, sink, style, rope, out, lse, scratch, capacity=capacity, mass=mass, cut=cut
    ).run()
