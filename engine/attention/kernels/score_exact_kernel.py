"""The kernel of `score_exact`: which keys a program reads, its queries, their product and each chunk's maximum.

Tensors and their shapes are in layout.py. A tile is BLOCK keys: BLOCK / L chunks, or a part of one longer than that.
"""

import triton
import triton.language as tl

from unabridged.engine.attention.kernels.rope import angles, turn


@triton.jit
def score_chunks(
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
    """One program's tiles; arguments are named as in `plan_score_exact`."""
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
