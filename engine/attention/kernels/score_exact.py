"""Exact stage: a chunk's score is that of its best key, `select.Selector`'s "exact" scorer.

    score = max over queries, the group's heads and the chunk's keys of rotated q . rotated k * D^-0.5

Keys are the rows of the product and queries its columns: a decode step has g columns (padded to 8), a block of a prompt
T/average * g. A program scores every `splits`-th tile of keys of one row and key/value head; it rotates and averages
its queries itself. FP8 keys are multiplied as float16, which holds them exactly at one conversion instruction for two
of them (bfloat16 takes four); scales and D^-0.5 follow the maximum.

Keys at or past the limit are replaced by the one before it, which changes no maximum: loads need no mask, and what is
undefined behind a sequence's end is never read.
"""

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from unabridged.engine.attention.config import SelectionRope
from unabridged.engine.attention.kernels.launch import Launch
from unabridged.engine.attention.kernels.layout import PAGE, Bank, Kept, Rows, Span
from unabridged.engine.attention.kernels.numbers import INTERPRETED, dot_type
from unabridged.engine.attention.kernels.rope import NEAR, RopeTables, angles, turn

# Programs that a launch should have at least: what fits on a card at once, twelve to each of 128 multiprocessors. Loads
# of keys wait for those of the table before them; only other programs hide that.
_PROGRAMS = 1536


def score_exact(
    q: Tensor,
    rows: Rows,
    bank: Bank,
    candidates: Span | Kept,
    chunk: int,
    style: SelectionRope,
    stream: int,
    rope: RopeTables,
    scores: Tensor,
    average: int = 1,
) -> None:
    """Write the logits of all candidate chunks to `scores` `[R, G, C]` float32; -inf for those that do not exist.

    q `[R, T, H, D]`. `average`: so many neighbouring queries, rotated, count as their mean. Where lists name longer
    chunks than `chunk`, C is a multiple of their width K and each listed chunk is scored in C / K parts. Raises
    ValueError for shapes that do not fit.
    """
    plan_score_exact(q, rows, bank, candidates, chunk, style, stream, rope, scores, average).run()


def plan_score_exact(
    q: Tensor,
    rows: Rows,
    bank: Bank,
    candidates: Span | Kept,
    chunk: int,
    style: SelectionRope,
    stream: int,
    rope: RopeTables,
    scores: Tensor,
    average: int = 1,
) -> Launch:
    """The launch of `score_exact`."""
    tokens, heads, dim = q.shape[1:]
    if tokens % average or heads % bank.heads:
        raise ValueError(f"{tokens} queries of {heads} heads: means of {average}, {bank.heads} key/value heads")
    group = heads // bank.heads
    columns = tokens // average * group
    chunks = scores.shape[2]
    listed = isinstance(candidates, Kept)
    width = candidates.starts.shape[2] if listed else chunks
    if chunks % width:
        raise ValueError(f"scores of {chunks} chunks for lists of {width}")
    turned = style not in ("relative", "infllm")
    tile = _tile(columns, dim, turned)
    tiles = triton.cdiv(chunks, max(1, tile.block // chunk))
    programs = rows.count * bank.heads
    splits = max(1, min(tiles, triton.cdiv(_PROGRAMS, programs)))
    return Launch(
        _score,
        (programs * splits,),
        {
            "q": q,
            "sequence": rows.sequence,
            "first": rows.first,
            "limits": rows.limits,
            "divisors": rows.divisors,
            "k": bank.k,
            "k_table": bank.k_table,
            "k_scale": bank.k_scale,
            "starts": candidates.starts if listed else rows.limits,
            "count": candidates.count if listed else rows.limits,
            "near": rope.near,
            "far": rope.far,
            "scores": scores,
            "rows": rows.count,
            "splits": splits,
            "chunks": chunks,
            "pages": bank.k_table.shape[2],
            "width": width,
            "span_start": 0 if listed else candidates.start,
        },
        {
            "T": tokens,
            "GROUP": group,
            "G": bank.heads,
            "D": dim,
            "F": min(64, triton.next_power_of_2(dim // 2)),
            "L": chunk,
            "PAGE": PAGE,
            "LISTS": candidates.starts.shape[1] if listed else 0,
            "PARTS": chunks // width,
            "STYLE": style,
            "STREAM": stream,
            "WIDE": rope.far.shape[0] > 1 and (turned or stream + 1 >= NEAR),
            "AVERAGE": average,
            "COLUMNS": columns,
            "N": tile.columns,
            "BLOCK": tile.block,
            "DOT": _dot_type(bank.k.dtype),
        },
        warps=tile.warps,
        stages=tile.stages,
    )


@dataclass(frozen=True)
class _Tile:
    """Keys and query columns of one product, warps, depth of the pipeline."""

    block: int
    columns: int
    warps: int
    stages: int


def _tile(columns: int, dim: int, turned: bool) -> _Tile:
    padded = max(8, triton.next_power_of_2(columns))
    if turned:
        # Angles fill the registers; keeping several tiles' in shared memory would exceed a small card's.
        padded = min(padded, 64 if dim <= 128 else 8)
        return _Tile(64 if padded > 16 else 32, padded, 8 if padded > 16 else 4, 1)
    return _Tile(64, min(padded, 128 if dim <= 128 else 32), 4, 4)


def _dot_type(keys: torch.dtype) -> tl.dtype:
    return tl.float16 if keys == torch.float8_e4m3fn and not INTERPRETED else dot_type(keys)


@triton.jit
def _score(
    q,
    sequence,
    first,
    limits,
    divisors,
    k,
    k_table,
    k_scale,
    starts,
    count,
    near,
    far,
    scores,
    rows,
    splits,
    chunks,
    pages,
    width,
    span_start,
    T: tl.constexpr,
    GROUP: tl.constexpr,
    G: tl.constexpr,
    D: tl.constexpr,
    F: tl.constexpr,
    L: tl.constexpr,
    PAGE: tl.constexpr,
    LISTS: tl.constexpr,
    PARTS: tl.constexpr,
    STYLE: tl.constexpr,
    STREAM: tl.constexpr,
    WIDE: tl.constexpr,
    AVERAGE: tl.constexpr,
    COLUMNS: tl.constexpr,
    N: tl.constexpr,
    BLOCK: tl.constexpr,
    DOT: tl.constexpr,
):
    # Rows first: programs that run together share a head, and neighbouring rows many of its keys.
    row = tl.program_id(0) % rows
    split = tl.program_id(0) // rows % splits
    head = tl.program_id(0) // rows // splits
    limit = tl.load(limits + row)
    divisor = tl.load(divisors + row)
    own = row * LISTS + head % tl.maximum(LISTS, 1)
    if LISTS == 0:
        existing = tl.cdiv(tl.maximum(limit - span_start, 0), L)
        longest = existing
    else:
        existing = _listed(starts, count, own, limit, width, L, PARTS)
        longest = existing
        if STYLE == "chunk-indexed" and LISTS > 1:
            every = row * LISTS + tl.arange(0, triton.next_power_of_2(LISTS)) % LISTS
            longest = tl.max(_listed(starts, count, every, limit, width, L, PARTS), 0)
    existing = tl.minimum(existing, chunks)
    table = k_table + (tl.load(sequence + row).to(tl.int64) * G + head) * pages
    scale = tl.load(k_scale + head) * D**-0.5
    out = scores + (row.to(tl.int64) * G + head) * chunks

    FIXED: tl.constexpr = STYLE == "relative" or STYLE == "infllm"
    TILE: tl.constexpr = BLOCK // L if L <= BLOCK else 1  # chunks of a tile
    STEPS: tl.constexpr = L // BLOCK if L > BLOCK else 1  # tiles of a chunk
    lane = tl.arange(0, BLOCK)
    f = tl.arange(0, F)
    tiles = tl.cdiv(existing, TILE)
    steps = tl.cdiv(tl.maximum(tiles - split, 0), splits) * STEPS
    FILL: tl.constexpr = 256
    for begin in range(tiles * TILE + split * FILL, chunks, splits * FILL):
        rest = begin + tl.arange(0, FILL)
        tl.store(out + rest, tl.full([FILL], float("-inf"), tl.float32), mask=rest < chunks)
    if steps == 0:
        return
    block = q + row.to(tl.int64) * (T * GROUP * G * D) + head * (GROUP * D)
    origin = _origin(tl.load(first + row), limit, divisor, longest, STYLE, STREAM)
    for column in range(0, COLUMNS, N):
        low, high = _queries(
            block, column, origin, longest, near, far, f, T, GROUP, G, D, STYLE, STREAM, WIDE, AVERAGE, COLUMNS, N
        )
        low = tl.trans(low.to(DOT))
        high = tl.trans(high.to(DOT))
        if D // 2 > F:
            low2, high2 = _queries(
                block,
                column,
                origin,
                longest,
                near,
                far,
                f + F,
                T,
                GROUP,
                G,
                D,
                STYLE,
                STREAM,
                WIDE,
                AVERAGE,
                COLUMNS,
                N,
            )
            low2 = tl.trans(low2.to(DOT))
            high2 = tl.trans(high2.to(DOT))
        best = tl.full([TILE], float("-inf"), tl.float32)
        for i in range(0, steps):
            tile = split + i // STEPS * splits
            number = tl.minimum(tile * TILE + lane // L, existing - 1)
            inside = i % STEPS * BLOCK + lane % L
            if LISTS == 0:
                position = span_start + number * L + inside
            else:
                position = tl.load(starts + own.to(tl.int64) * width + number // PARTS) + number % PARTS * L + inside
            position = tl.minimum(tl.maximum(position, 0), limit - 1)
            slot = tl.maximum(tl.load(table + position // PAGE), 0).to(tl.int64)
            keys = k + (slot * PAGE + position % PAGE) * D
            if STYLE == "chunk-indexed":
                turned = number
            elif STYLE == "dynamic-extend":
                turned = position // divisor
            else:
                turned = position
            product = tl.zeros([BLOCK, N], tl.float32)
            product = _multiplied(product, keys, low, high, turned, near, far, f, D, FIXED, WIDE, DOT)
            if D // 2 > F:
                product = _multiplied(product, keys, low2, high2, turned, near, far, f + F, D, FIXED, WIDE, DOT)
            top = tl.max(tl.reshape(product, [TILE, BLOCK // TILE * N]), 1)
            if STEPS > 1:
                top = tl.where(i % STEPS == 0, top, tl.maximum(best, top))
                best = top
            at = tile * TILE + tl.arange(0, TILE)
            written = at < chunks
            top = tl.where(at < existing, top * scale, float("-inf"))
            if COLUMNS > N:
                top = tl.maximum(top, tl.load(out + at, mask=written & (column > 0), other=float("-inf")))
            tl.store(out + at, top, mask=written & (i % STEPS == STEPS - 1))
        if COLUMNS > N:
            # The next columns' maximum continues from the scores that were just stored.
            tl.debug_barrier()


@triton.jit
def _listed(starts, count, lists, limit, width, L: tl.constexpr, PARTS: tl.constexpr):
    """How many chunks of L the lists hold; only the last listed one can be cut by the limit."""
    listed = tl.load(count + lists)
    last = tl.load(starts + lists.to(tl.int64) * width + tl.maximum(listed - 1, 0))
    cut = tl.minimum(tl.maximum(tl.cdiv(limit - last, L), 0), PARTS)
    return tl.where(listed > 0, (listed - 1) * PARTS + cut, 0)


@triton.jit
def _origin(first, limit, divisor, longest, STYLE: tl.constexpr, STREAM: tl.constexpr):
    """The position that the styles give to a block's first query."""
    if STYLE == "relative":
        origin = STREAM + 1
    elif STYLE == "infllm":
        origin = STREAM
    elif STYLE == "dynamic-extend":
        origin = limit // divisor + first - limit
    else:
        origin = first
    return origin


@triton.jit
def _queries(
    block,
    column,
    origin,
    longest,
    near,
    far,
    f,
    T: tl.constexpr,
    GROUP: tl.constexpr,
    G: tl.constexpr,
    D: tl.constexpr,
    STYLE: tl.constexpr,
    STREAM: tl.constexpr,
    WIDE: tl.constexpr,
    AVERAGE: tl.constexpr,
    COLUMNS: tl.constexpr,
    N: tl.constexpr,
):
    """Components f and D/2 + f of means of rotated queries: columns `column`.. of a block, (mean, head), the last one
    repeated."""
    own = tl.minimum(column + tl.arange(0, N), COLUMNS - 1)
    low = tl.zeros([N, f.shape[0]], tl.float32)
    high = tl.zeros([N, f.shape[0]], tl.float32)
    for i in tl.range(0, AVERAGE, num_stages=1):
        t = own // GROUP * AVERAGE + i
        at = block + t * (GROUP * G * D) + own % GROUP * D
        x = _load(at, f, D).to(tl.float32)
        y = _load(at + D // 2, f, D).to(tl.float32)
        if STYLE != "relative" and STYLE != "infllm":
            position = origin + t
            if STYLE == "chunk-indexed":
                position = tl.minimum(position, longest + STREAM)
            x, y = _turned(x, y, position, near, far, f, D, WIDE)
        low += x
        high += y
    if STYLE == "relative" or STYLE == "infllm":
        # All queries stand at one position: their mean is turned.
        cos, sin = angles(near, far, origin, tl.minimum(f, D // 2 - 1), D // 2, WIDE)
        low, high = turn(low, high, cos[None, :], sin[None, :])
    return low * (1.0 / AVERAGE), high * (1.0 / AVERAGE)


@triton.jit
def _multiplied(
    product,
    keys,
    low,
    high,
    positions,
    near,
    far,
    f,
    D: tl.constexpr,
    FIXED: tl.constexpr,
    WIDE: tl.constexpr,
    DOT: tl.constexpr,
):
    """`product` plus that of components f and D/2 + f of keys, rotated unless fixed."""
    x = _load(keys, f, D)
    y = _load(keys + D // 2, f, D)
    if not FIXED:
        x, y = _turned(x, y, positions, near, far, f, D, WIDE)
    product = tl.dot(x.to(DOT), low, product, input_precision="ieee")
    return tl.dot(y.to(DOT), high, product, input_precision="ieee")


@triton.jit
def _turned(low, high, positions, near, far, f, D: tl.constexpr, WIDE: tl.constexpr):
    """Components f and D/2 + f of vectors, rotated."""
    cos, sin = angles(near, far, positions[:, None], tl.minimum(f, D // 2 - 1)[None, :], D // 2, WIDE)
    return turn(low.to(tl.float32), high.to(tl.float32), cos, sin)


@triton.jit
def _load(vectors, f, D: tl.constexpr):
    """Components f of a half of vectors, 0 from D/2 on."""
    if D // 2 & (D // 2 - 1) == 0:
        x = tl.load(vectors[:, None] + f[None, :])
    else:
        x = tl.load(vectors[:, None] + f[None, :], mask=f[None, :] < D // 2, other=0.0)
    return x
