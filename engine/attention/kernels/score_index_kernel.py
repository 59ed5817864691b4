"""The kernels of score_index: one for few columns (a token's queries), one for many (blocks of queries).

A program takes tiles of keys by turns, those below every limit without masks and pipelined, then those that a limit
cuts, and writes -inf to the rest. Keys of a tile become int8 planes in registers (index.PLANES), are multiplied with
all columns, and shrink to the best of each chunk. Spans begin at a page; the table of pages is read a tile ahead, since
what waits for it would keep codes waiting. Without a table pages lie in order.
"""

import triton
import triton.language as tl

from unabridged.engine.attention.kernels.index import unpack_scale


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
        page = _pages(table, tile, fold, tile < whole, KEYS, PAGE)
        page_of_key = _pages(table, tile, keys, tile < whole, KEYS, PAGE)
    for tile in tl.range(tl.program_id(0), whole, tl.num_programs(0), num_stages=STAGES):
        if table is None:
            code = tl.load(codes + tile * (KEYS * W) + byte).to(tl.int8, bitcast=True)
            scale = tl.load(key_scales + tile * KEYS + keys)
        else:
            code = tl.load(codes + _places(page, fold, PAGE)[:, None] * W + k).to(tl.int8, bitcast=True)
            scale = tl.load(key_scales + _places(page_of_key, keys, PAGE))
            following = tile + tl.num_programs(0)
            page = _pages(table, following, fold, following < whole, KEYS, PAGE)
            page_of_key = _pages(table, following, keys, following < whole, KEYS, PAGE)
        best = _best_of_few(code, scale, None, sums, a4, a2, a1, a0, M, L, KEYS, FOLD, NEAR, W, PLAIN)
        tl.store(scores + tile * SOME + some, best * step + top)
    tile = whole + tl.program_id(0)
    if tile == whole and tile < tiles:
        there = size - tile * KEYS
        if table is None:
            code = tl.load(codes + tile * (KEYS * W) + byte, byte < there * W, other=0).to(tl.int8, bitcast=True)
            scale = tl.load(key_scales + tile * KEYS + keys, keys < there, other=0)
        else:
            place = _places(_pages(table, tile, fold, fold < there, KEYS, PAGE), fold, PAGE)
            code = tl.load(codes + place[:, None] * W + k).to(tl.int8, bitcast=True)
            page_of_key = _pages(table, tile, keys, keys < there, KEYS, PAGE)
            scale = tl.load(key_scales + _places(page_of_key, keys, PAGE))
        hidden = tl.where(keys < there, 0.0, float("-inf"))
        best = _best_of_few(code, scale, hidden, sums, a4, a2, a1, a0, M, L, KEYS, FOLD, NEAR, W, PLAIN)
        tl.store(scores + tile * SOME + some, best * step + top, tile * SOME + some < chunks)
        tile += tl.num_programs(0)
    for past in range(tile, tiles, tl.num_programs(0)):
        tl.store(scores + past * SOME + some, tl.full((SOME,), float("-inf"), tl.float32), past * SOME + some < chunks)


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
        place = _places(_pages(table, tile, keys, tile < whole, KEYS, PAGE), keys, PAGE)
        scale = tl.load(key_scales + place)
        following = tile + tl.num_programs(0)
        page = _pages(table, following, keys, following < whole, KEYS, PAGE)
    for tile in tl.range(tl.program_id(0), whole, tl.num_programs(0), num_stages=STAGES):
        # Bytes are too narrow for asynchronous copies, so the pipeline leaves scales out.
        following = tile + tl.num_programs(0)
        if table is None:
            code = tl.load(codes + tile * (KEYS * W) + byte).to(tl.int8, bitcast=True)
            scale_of_following = tl.load(key_scales + following * KEYS + keys, following < whole, other=0)
        else:
            code = tl.load(codes + place[:, None] * W + w).to(tl.int8, bitcast=True)
            place = _places(page, keys, PAGE)
            scale_of_following = tl.load(key_scales + place)
            after = following + tl.num_programs(0)
            page = _pages(table, after, keys, after < whole, KEYS, PAGE)
        best = _best_of_many(code, scale, None, offset, a, M, L, KEYS, ROWS, W, WHOLE, PLAIN)
        tl.store(out + tile * SOME, best * step + top)
        scale = scale_of_following
    for tile in tl.range(whole + tl.program_id(0), cut, tl.num_programs(0), num_stages=1):
        at = tile * KEYS
        if table is None:
            code = tl.load(codes + at * W + byte, byte < (most - at) * W, other=0).to(tl.int8, bitcast=True)
            scale = tl.load(key_scales + at + keys, keys < most - at, other=0)
        else:
            place = _places(_pages(table, tile, keys, keys < most - at, KEYS, PAGE), keys, PAGE)
            code = tl.load(codes + place[:, None] * W + w).to(tl.int8, bitcast=True)
            scale = tl.load(key_scales + place)
        hidden = tl.where(keys[:, None] < size[None, :] - at, 0.0, float("-inf"))
        best = _best_of_many(code, scale, hidden, offset, a, M, L, KEYS, ROWS, W, WHOLE, PLAIN)
        tl.store(out + tile * SOME, best * step + top, tile * SOME + some < chunks)
    none = tl.full((SOME, ROWS), float("-inf"), tl.float32)
    for tile in tl.range(cut + tl.program_id(0), tiles, tl.num_programs(0), num_stages=1):
        tl.store(out + tile * SOME, none, tile * SOME + some < chunks)


@triton.jit
def _pages(table, tile, keys, there, KEYS: tl.constexpr, PAGE: tl.constexpr):
    """Pages of a tile's keys; 0 where a key is not there."""
    return tl.load(table + tile * (KEYS // PAGE) + keys // PAGE, there, other=0)


@triton.jit
def _places(page, keys, PAGE: tl.constexpr):
    """Where keys lie in a head's memory; of a page that is not there, in the first."""
    return tl.maximum(page, 0) * PAGE + keys % PAGE


@triton.jit
def _planes(codes, PLAIN: tl.constexpr):
    """int8 codes of any shape as the four int8 planes of index.PLANES."""
    if PLAIN:
        y4, y2, y1, y0 = codes & -16 | 8, (codes << 4) & -64 | 32, (codes << 6) & -128 | 64, (codes << 7) & -128 | 64
    else:
        # Four codes of a word at a time; bits that cross a byte's border fall to the masks. 0xEA: a & b | c.
        y4, y2, y1, y0 = tl.inline_asm_elementwise(
            """{
            .reg .b32 a, b, c;
            shl.b32 a, $4, 4;
            shl.b32 b, $4, 6;
            shl.b32 c, $4, 7;
            lop3.b32 $0, $4, 0xF0F0F0F0, 0x08080808, 0xEA;
            lop3.b32 $1, a, 0xC0C0C0C0, 0x20202020, 0xEA;
            lop3.b32 $2, b, 0x80808080, 0x40404040, 0xEA;
            lop3.b32 $3, c, 0x80808080, 0x40404040, 0xEA;
            }""",
            "=r,=r,=r,=r,r",
            [codes],
            dtype=(tl.int8, tl.int8, tl.int8, tl.int8),
            is_pure=True,
            pack=4,
        )
    return y4, y2, y1, y0


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
    y4, y2, y1, y0 = _planes(code, PLAIN)
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
    y4, y2, y1, y0 = _planes(code, PLAIN)
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
