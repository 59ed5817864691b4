"""The kernel of score_index for many columns, blocks of queries: a key is a row of the product.

See score_index_codes.py for what both kernels do.
"""

import triton
import triton.language as tl

from unabridged.engine.attention.kernels.index import unpack_scale
from unabridged.engine.attention.kernels.score_index_codes import page_numbers, places, planes


@triton.jit
def score_many(
    codes, key_scales, table, coefficients, offsets, steps, tops, sequence, limits, start, chunks, room, pages, count,
    scores,
    G: tl.constexpr, W: tl.constexpr, M: tl.constexpr, L: tl.constexpr, KEYS: tl.constexpr, PAGE: tl.constexpr,
    ROWS: tl.constexpr, WHOLE: tl.constexpr, STAGES: tl.constexpr, PLAIN: tl.constexpr,
):  # fmt: skip
    """A program: some tiles of ROWS neighbouring rows of one sequence, and a head. All of `count` rows are covered: a
    last program does the last row several times."""
    SOME: tl.constexpr = KEYS // L
    begin = tl.program_id(2) * ROWS
    head = tl.program_id(1)
    row = tl.minimum(begin + tl.arange(0, ROWS), count - 1)
    size = tl.maximum(tl.minimum(tl.load(limits + row), pages * PAGE) - start, 0)
    least = tl.min(size)
    most = tl.max(size)
    # A head's codes stay below 2^31 bytes, all of them do not.
    codes += head.to(tl.int64) * room * (PAGE * W)
    key_scales += head.to(tl.int64) * room * PAGE
    if table is None:
        codes += start * W
        key_scales += start
    else:
        table += tl.load(sequence + begin).to(tl.int64) * pages + start // PAGE
    where = row.to(tl.int64) * G + head
    some = tl.arange(0, SOME)[:, None]
    out = scores + where[None, :] * chunks + some
    step = tl.load(steps + where)[None, :]
    top = tl.load(tops + where)[None, :]
    keys = tl.arange(0, KEYS)
    n = tl.arange(0, 4 * W)
    if not WHOLE:
        n = (n // (2 * W) * 2 + n // 4 % 2) * W + n % (2 * W) // 8 * 4 + n % 4
    m = tl.arange(0, ROWS * M)
    column = (tl.minimum(begin + m // M, count - 1).to(tl.int64) * G + head) * M + m % M
    a = tl.load(coefficients + column[None, :] * (4 * W) + n[:, None])
    offset = tl.load(offsets + column)[None, :]
    w = tl.arange(0, W)
    byte = keys[:, None] * W + w
    tiles = tl.cdiv(chunks, SOME)
    whole = tl.minimum(least // KEYS, chunks // SOME)
    cut = tl.minimum(tl.cdiv(most, KEYS), tiles)
    tile = tl.program_id(0)
    if table is None:
        scale = tl.load(key_scales + tile * KEYS + keys, tile < whole, other=0)
    else:
        place = places(page_numbers(table, tile, keys, tile < whole, KEYS, PAGE), keys, PAGE)
        scale = tl.load(key_scales + place)
        following = tile + tl.num_programs(0)
        page = page_numbers(table, following, keys, following < whole, KEYS, PAGE)
    for tile in tl.range(tl.program_id(0), whole, tl.num_programs(0), num_stages=STAGES):
        # Bytes are too narrow for asynchronous copies, so the pipeline leaves scales out.
        following = tile + tl.num_programs(0)
        if table is None:
            code = tl.load(codes + tile * (KEYS * W) + byte).to(tl.int8, bitcast=True)
            scale_of_following = tl.load(key_scales + following * KEYS + keys, following < whole, other=0)
        else:
            code = tl.load(codes + place[:, None] * W + w).to(tl.int8, bitcast=True)
            place = places(page, keys, PAGE)
            scale_of_following = tl.load(key_scales + place)
            after = following + tl.num_programs(0)
            page = page_numbers(table, after, keys, after < whole, KEYS, PAGE)
        best = _best_of_many(code, scale, None, offset, a, M, L, KEYS, ROWS, W, WHOLE, PLAIN)
        tl.store(out + tile * SOME, best * step + top)
        scale = scale_of_following
    for tile in tl.range(whole + tl.program_id(0), cut, tl.num_programs(0), num_stages=1):
        at = tile * KEYS
        if table is None:
            code = tl.load(codes + at * W + byte, byte < (most - at) * W, other=0).to(tl.int8, bitcast=True)
            scale = tl.load(key_scales + at + keys, keys < most - at, other=0)
        else:
            place = places(page_numbers(table, tile, keys, keys < most - at, KEYS, PAGE), keys, PAGE)
            code = tl.load(codes + place[:, None] * W + w).to(tl.int8, bitcast=True)
            scale = tl.load(key_scales + place)
        hidden = tl.where(keys[:, None] < size[None, :] - at, 0.0, float("-inf"))
        best = _best_of_many(code, scale, hidden, offset, a, M, L, KEYS, ROWS, W, WHOLE, PLAIN)
        tl.store(out + tile * SOME, best * step + top, tile * SOME + some < chunks)
    none = tl.full((SOME, ROWS), float("-inf"), tl.float32)
    for tile in tl.range(cut + tl.program_id(0), tiles, tl.num_programs(0), num_stages=1):
        tl.store(out + tile * SOME, none, tile * SOME + some < chunks)


@triton.jit
def _best_of_many(
    code, scale, hidden, offset, a,
    M: tl.constexpr, L: tl.constexpr, KEYS: tl.constexpr, ROWS: tl.constexpr, W: tl.constexpr, WHOLE: tl.constexpr,
    PLAIN: tl.constexpr,
):  # fmt: skip
    """Best of each chunk and row, `[KEYS / L, ROWS]`, for many columns: a row of the product is a key, all planes in
    one.

    WHOLE: plane behind plane, as Hopper's wgmma holds its left operand. Else two planes' words by turns, as Triton lays
    out what went through a join for mma.sync. With the wrong order bytes move one by one: right, and several times
    slower.
    """
    y4, y2, y1, y0 = planes(code, PLAIN)
    pairs = tl.join(tl.join(y4, y1), tl.join(y2, y0))
    if WHOLE:
        x = tl.permute(pairs, (0, 2, 3, 1))
    else:
        x = tl.permute(tl.reshape(pairs, (KEYS, W // 4, 4, 2, 2)), (0, 3, 1, 4, 2))
    sums = tl.broadcast_to(offset, (KEYS, ROWS * M))
    total = tl.dot(tl.reshape(x, (KEYS, 4 * W)), a, sums, out_dtype=tl.int32)
    best = tl.max(tl.reshape(total, (KEYS, ROWS, M)), 2).to(tl.float32) * unpack_scale(scale)[:, None]
    if hidden is not None:
        best += hidden
    return tl.max(tl.reshape(best, (KEYS // L, L, ROWS)), 1)
