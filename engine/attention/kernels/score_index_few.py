"""The kernel of score_index for few columns, a token's queries: several keys make a row of the product.

See score_index_codes.py for what both kernels do.
"""

import triton
import triton.language as tl

from unabridged.engine.attention.kernels.index import unpack_scale
from unabridged.engine.attention.kernels.score_index_codes import page_numbers, places, planes


@triton.jit
def score_few(
    codes, key_scales, table, coefficients, offsets, steps, tops, sequence, limits, start, chunks, room, pages, scores,
    G: tl.constexpr, W: tl.constexpr, M: tl.constexpr, L: tl.constexpr, KEYS: tl.constexpr, PAGE: tl.constexpr,
    FOLD: tl.constexpr, NEAR: tl.constexpr, STAGES: tl.constexpr, PLAIN: tl.constexpr,
):  # fmt: skip
    """A program: some tiles of one row and head."""
    SOME: tl.constexpr = KEYS // L
    row = tl.program_id(2)
    head = tl.program_id(1)
    size = tl.maximum(tl.minimum(tl.load(limits + row), pages * PAGE) - start, 0)
    # A head's codes stay below 2^31 bytes, all of them do not.
    codes += head.to(tl.int64) * room * (PAGE * W)
    key_scales += head.to(tl.int64) * room * PAGE
    if table is None:
        codes += start * W
        key_scales += start
    else:
        table += tl.load(sequence + row).to(tl.int64) * pages + start // PAGE
    where = row.to(tl.int64) * G + head
    scores += where * chunks
    step = tl.load(steps + where)
    top = tl.load(tops + where)
    some = tl.arange(0, SOME)
    keys = tl.arange(0, KEYS)
    k = tl.arange(0, FOLD * W)
    m = tl.arange(0, FOLD * M)
    own = (k // W)[:, None] == (m // M)[None, :]
    column = coefficients + where * (M * 4 * W) + (m % M)[None, :] * (4 * W) + (k % W)[:, None]
    a4 = tl.load(column, own, other=0)
    a2 = tl.load(column + W, own, other=0)
    a1 = tl.load(column + 2 * W, own, other=0)
    a0 = tl.load(column + 3 * W, own, other=0)
    sums = tl.broadcast_to(tl.load(offsets + where * M + m % M)[None, :], (KEYS // FOLD, FOLD * M))
    fold = tl.arange(0, KEYS // FOLD) * FOLD
    tiles = tl.cdiv(chunks, SOME)
    whole = tl.minimum(size // KEYS, chunks // SOME)
    tile = tl.program_id(0)
    if table is None:
        byte = fold[:, None] * W + k
    else:
        # Numbers of pages move to the threads that copy the codes. Were they looked up there, the loop would take half
        # again as long (docs/log.md).
        page = page_numbers(table, tile, fold, tile < whole, KEYS, PAGE)
        page_of_key = page_numbers(table, tile, keys, tile < whole, KEYS, PAGE)
    for tile in tl.range(tl.program_id(0), whole, tl.num_programs(0), num_stages=STAGES):
        if table is None:
            code = tl.load(codes + tile * (KEYS * W) + byte).to(tl.int8, bitcast=True)
            scale = tl.load(key_scales + tile * KEYS + keys)
        else:
            code = tl.load(codes + places(page, fold, PAGE)[:, None] * W + k).to(tl.int8, bitcast=True)
            scale = tl.load(key_scales + places(page_of_key, keys, PAGE))
            following = tile + tl.num_programs(0)
            page = page_numbers(table, following, fold, following < whole, KEYS, PAGE)
            page_of_key = page_numbers(table, following, keys, following < whole, KEYS, PAGE)
        best = _best_of_few(code, scale, None, sums, a4, a2, a1, a0, M, L, KEYS, FOLD, NEAR, W, PLAIN)
        tl.store(scores + tile * SOME + some, best * step + top)
    tile = whole + tl.program_id(0)
    if tile == whole and tile < tiles:
        there = size - tile * KEYS
        if table is None:
            code = tl.load(codes + tile * (KEYS * W) + byte, byte < there * W, other=0).to(tl.int8, bitcast=True)
            scale = tl.load(key_scales + tile * KEYS + keys, keys < there, other=0)
        else:
            start_of_fold = places(page_numbers(table, tile, fold, fold < there, KEYS, PAGE), fold, PAGE)
            code = tl.load(codes + start_of_fold[:, None] * W + k).to(tl.int8, bitcast=True)
            page_of_key = page_numbers(table, tile, keys, keys < there, KEYS, PAGE)
            scale = tl.load(key_scales + places(page_of_key, keys, PAGE))
        hidden = tl.where(keys < there, 0.0, float("-inf"))
        best = _best_of_few(code, scale, hidden, sums, a4, a2, a1, a0, M, L, KEYS, FOLD, NEAR, W, PLAIN)
        tl.store(scores + tile * SOME + some, best * step + top, tile * SOME + some < chunks)
        tile += tl.num_programs(0)
    for past in range(tile, tiles, tl.num_programs(0)):
        tl.store(scores + past * SOME + some, tl.full((SOME,), float("-inf"), tl.float32), past * SOME + some < chunks)


@triton.jit
def _best_of_few(
    code, scale, hidden, sums, a4, a2, a1, a0,
    M: tl.constexpr, L: tl.constexpr, KEYS: tl.constexpr, FOLD: tl.constexpr, NEAR: tl.constexpr, W: tl.constexpr,
    PLAIN: tl.constexpr,
):  # fmt: skip
    """Best of each chunk, `[KEYS / L]`, for few columns: a row of the product is FOLD keys, one plane of them 32 deep,
    and each has M columns of its own that are zero for the others.

    Rows are ordered so that NEAR keys of a chunk lie beside each other, then those of other chunks: the rest of a
    chunk's maximum is then taken inside a thread, and a warp's reads of shared memory still spread over its banks.
    """
    SOME: tl.constexpr = KEYS // L
    code = tl.reshape(code, (SOME, L // NEAR, NEAR // FOLD, FOLD * W))
    code = tl.reshape(tl.permute(code, (1, 0, 2, 3)), (KEYS // FOLD, FOLD * W))
    y4, y2, y1, y0 = planes(code, PLAIN)
    total = tl.dot(y4, a4, sums, out_dtype=tl.int32)
    total = tl.dot(y2, a2, total, out_dtype=tl.int32)
    total = tl.dot(y1, a1, total, out_dtype=tl.int32)
    total = tl.dot(y0, a0, total, out_dtype=tl.int32)
    value = tl.max(tl.reshape(total, (L // NEAR, SOME, NEAR, M)), 3).to(tl.float32)
    scale = tl.permute(tl.reshape(scale, (SOME, L // NEAR, NEAR)), (1, 0, 2))
    value = value * unpack_scale(scale)
    if hidden is not None:
        value += tl.permute(tl.reshape(hidden, (SOME, L // NEAR, NEAR)), (1, 0, 2))
    return tl.max(tl.max(value, 0), 1)
