"""SelectRep's kernels: one for a single query, one for several. See score_rep.

A middle key is scored for both branches when it is loaded: a tournament reads log2(chunk) + 1 keys, not twice as many.
One query (decoding) multiplies and adds, and is turned by its distance to a key instead of both by their positions.
Several queries use matrix products, chunks by queries, over turned keys.
"""

import triton
import triton.language as tl

from unabridged.engine.attention.kernels.rope import angles


@triton.jit
def _tokens(starts, span, limit, c, C, CHUNK: tl.constexpr, UNIT: tl.constexpr, LISTED: tl.constexpr):
    """First tokens of chunks `c` and how many tokens they have; both 0 for chunks that do not exist."""
    exists = c < C
    if LISTED:
        entry = tl.load(starts + tl.where(exists, c // (UNIT // CHUNK), 0))
        exists = exists & (entry >= 0)
        start = entry + c % (UNIT // CHUNK) * CHUNK
    else:
        start = span + c * CHUNK
    size = tl.where(exists, tl.minimum(tl.maximum(limit - start, 0), CHUNK), 0)
    return tl.where(size > 0, start, 0), size


@triton.jit
def _total(starts, count, span, limit, lists, K, CHUNK: tl.constexpr, UNIT: tl.constexpr, LISTED: tl.constexpr):
    """How many chunks a row's longest list has."""
    if LISTED:
        total = 0
        for j in range(lists):
            n = tl.load(count + j)
            last = tl.load(starts + j * K + tl.maximum(n - 1, 0))
            parts = (tl.minimum(limit - last, UNIT) + CHUNK - 1) // CHUNK
            total = tl.maximum(total, tl.where(n > 0, (n - 1) * (UNIT // CHUNK) + parts, 0))
    else:
        total = (tl.maximum(limit - span, 0) + CHUNK - 1) // CHUNK
    return total


@triton.jit
def _query_position(position, limit, total, stream_tokens, divisor, STYLE: tl.constexpr):
    if STYLE == "relative":
        at = position * 0 + stream_tokens + 1
    elif STYLE == "infllm":
        at = position * 0 + stream_tokens
    elif STYLE == "chunk-indexed":
        at = tl.minimum(position, total + stream_tokens)
    elif STYLE == "dynamic-extend":
        at = limit // divisor + position - limit
    else:
        at = position
    return at


@triton.jit
def _key_rows(k, pages, position, D: tl.constexpr):
    """Where the keys at `position` lie. A page of a chunk that does not exist may be missing: any row will do."""
    slot = tl.maximum(tl.load(pages + position // 16), 0).to(tl.int64)
    return k + (slot * 16 + position % 16) * D


@triton.jit
def _next(first, last, middle, best, left, right):
    """A round's result: the half that goes on, and the left branch's score of its first token."""
    wins = (first < last) & (right > best)
    stays = (first < last) & (right <= best)
    return tl.where(wins, middle, first), tl.where(stays, middle - 1, last), tl.where(wins, left, best)


@triton.jit
def _turned(near, far, q, across, distance, d, F: tl.constexpr, WIDE: tl.constexpr):
    """q `[.., D]` turned by `distance`; `across`: its other half beside each component, the first half's negated."""
    cos, sin = angles(near, far, distance, d % F, F, WIDE)
    return q * cos + across * sin


@triton.jit
def _score_one(
    k, pages, token, d, q_left, q_right, q, across, at, divisor, near, far,
    D: tl.constexpr, STYLE: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """One query's scores of the keys at `token`: as left and as right branch."""
    keys = tl.load(_key_rows(k, pages, token, D)[:, :, None] + d, d < D, other=0.0).to(tl.float32)
    if STYLE == "dynamic-extend":
        left = tl.sum(keys * _turned(near, far, q, across, (at - token // divisor)[:, :, None], d, D // 2, WIDE), 2)
    elif STYLE == "true":
        left = tl.sum(keys * _turned(near, far, q, across, (at - token)[:, :, None], d, D // 2, WIDE), 2)
    else:
        left = tl.sum(keys * q_left, 2)
    right = tl.sum(keys * q_right, 2) if STYLE == "relative" else left
    return left, right


@triton.jit
def one_query(
    q, k, table, k_scale, sequence, first, limits, divisors, starts, count, near, far, scores,
    span, stream_tokens, blocks, heads, pages, lists, K, C,
    GROUP: tl.constexpr, PADDED: tl.constexpr, D: tl.constexpr, BD: tl.constexpr, CHUNK: tl.constexpr,
    UNIT: tl.constexpr, ROUNDS: tl.constexpr, STYLE: tl.constexpr, LISTED: tl.constexpr, WIDE: tl.constexpr,
    DEPTH: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """Program: a row, a KV head, DEPTH * WIDTH tournaments. WIDTH runs over query heads (major) and chunks, so that a
    thread's tournaments, which lie along DEPTH, share one query in its registers."""
    ACROSS: tl.constexpr = WIDTH // PADDED
    row, tile, head = tl.program_id(0) % blocks, tl.program_id(0) // blocks, tl.program_id(1)
    limit = tl.load(limits + row)
    own = starts + (row * lists + tl.where(lists > 1, head, 0)) * K
    deep = (tile * DEPTH + tl.arange(0, DEPTH)[:, None]) * ACROSS
    out = deep + tl.arange(0, ACROSS)[None, :]
    best = tl.full([DEPTH, ACROSS], -float("inf"), tl.float32)
    # Chunks that exist come first: a tile without its first has none.
    _, some = _tokens(own, span, limit, tile * DEPTH * ACROSS, C, CHUNK, UNIT, LISTED)
    if some > 0:
        wide = tl.arange(0, WIDTH)
        number = deep + (wide % ACROSS)[None, :]
        begin, size = _tokens(own, span, limit, number, C, CHUNK, UNIT, LISTED)
        divisor = tl.load(divisors + row)
        total = 0
        if STYLE == "chunk-indexed":
            total = _total(starts + row * lists * K, count + row * lists, span, limit, lists, K, CHUNK, UNIT, LISTED)
        at = _query_position(tl.load(first + row), limit, total, stream_tokens, divisor, STYLE)
        d = tl.arange(0, BD)[None, None, :]
        member = tl.minimum(wide // ACROSS, GROUP - 1)[None, :, None]
        query = q + ((row.to(tl.int64) * heads + head) * GROUP + member) * D
        straight = tl.load(query + d, d < D, other=0.0).to(tl.float32)
        across = tl.load(query + (d + D // 2) % D, d < D, other=0.0).to(tl.float32) * tl.where(d < D // 2, -1.0, 1.0)
        if STYLE == "chunk-indexed":
            q_left = _turned(near, far, straight, across, tl.maximum(at - number, 0)[:, :, None], d, D // 2, WIDE)
            q_right = q_left
        elif STYLE == "relative" or STYLE == "infllm":
            distance = at + tl.zeros([1, 1, 1], tl.int32)
            q_left = _turned(near, far, straight, across, distance, d, D // 2, WIDE)
            q_right = _turned(near, far, straight, across, distance - 1, d, D // 2, WIDE)
        else:
            q_left = straight
            q_right = straight
        pages_of = table + (tl.load(sequence + row).to(tl.int64) * heads + head) * pages
        low = tl.zeros([DEPTH, WIDTH], tl.int32)
        high = size - 1
        winner, _ = _score_one(
            k, pages_of, begin, d, q_left, q_right, straight, across, at, divisor, near, far, D, STYLE, WIDE
        )
        for _ in range(ROUNDS):
            middle = (low + high + 1) // 2
            left, right = _score_one(
                k, pages_of, begin + middle, d, q_left, q_right, straight, across, at, divisor, near, far,
                D, STYLE, WIDE,
            )  # fmt: skip
            low, high, winner = _next(low, high, middle, winner, left, right)
        winner = tl.where(size > 0, winner * (tl.load(k_scale + head) * (D**-0.5)), -float("inf"))
        best = tl.max(tl.reshape(winner, [DEPTH, PADDED, ACROSS]), 1)
    tl.store(scores + (row.to(tl.int64) * heads + head) * C + out, best, out < C)


@triton.jit
def _score_many(
    k, pages, token, number, d, turned, divisor, near, far,
    D: tl.constexpr, STYLE: tl.constexpr, WIDE: tl.constexpr, DOT: tl.constexpr,
):  # fmt: skip
    """The best of several queries' scores (`turned` `[D, T]`) of the keys at `token`: as left and as right branch."""
    at = _key_rows(k, pages, token, D)[:, None]
    keys = tl.load(at + d, d < D, other=0.0)
    if STYLE == "infllm":
        left = tl.max(tl.dot(keys.to(DOT), turned, input_precision="ieee"), 1)
        right = left
    else:
        across = tl.load(at + (d + D // 2) % D, d < D, other=0.0)
        sign = tl.where(d < D // 2, -1.0, 1.0)
        if STYLE == "relative":
            left = tl.max(tl.dot(keys.to(DOT), turned, input_precision="ieee"), 1)
            # By one position. Volatile, lest the compiler keep the angles in registers.
            cos = tl.load(near + D + d % (D // 2), volatile=True)
            sin = tl.load(near + D + D // 2 + d % (D // 2), volatile=True)
            keys = keys.to(tl.float32) * cos + across.to(tl.float32) * (sin * sign)
            right = tl.max(tl.dot(keys.to(DOT), turned, input_precision="ieee"), 1)
        else:
            if STYLE == "chunk-indexed":
                # A chunk's number is below its tokens'. Said so that the compiler does not keep angles in registers.
                position = tl.minimum(number, token)
            elif STYLE == "dynamic-extend":
                position = token // divisor
            else:
                position = token
            keys = _turned(
                near, far, keys.to(tl.float32), across.to(tl.float32) * sign, position[:, None], d, D // 2, WIDE
            )
            left = tl.max(tl.dot(keys.to(DOT), turned, input_precision="ieee"), 1)
            right = left
    return left, right


@triton.jit
def many_queries(
    q, k, table, k_scale, sequence, first, limits, divisors, starts, count, near, far, scores,
    span, stream_tokens, blocks, heads, pages, lists, K, C,
    T: tl.constexpr, BT: tl.constexpr, GROUP: tl.constexpr, D: tl.constexpr, BD: tl.constexpr, CHUNK: tl.constexpr,
    UNIT: tl.constexpr, ROUNDS: tl.constexpr, STYLE: tl.constexpr, LISTED: tl.constexpr, WIDE: tl.constexpr,
    TILE: tl.constexpr, DOT: tl.constexpr,
):  # fmt: skip
    """Program: a row, a KV head, TILE chunks; its query heads one after the other."""
    row, tile, head = tl.program_id(0) % blocks, tl.program_id(0) // blocks, tl.program_id(1)
    limit = tl.load(limits + row)
    own = starts + (row * lists + tl.where(lists > 1, head, 0)) * K
    number = tile * TILE + tl.arange(0, TILE)
    best = tl.full([TILE], -float("inf"), tl.float32)
    # Chunks that exist come first: a tile without its first has none.
    _, some = _tokens(own, span, limit, tile * TILE, C, CHUNK, UNIT, LISTED)
    if some > 0:
        begin, size = _tokens(own, span, limit, number, C, CHUNK, UNIT, LISTED)
        divisor = tl.load(divisors + row)
        total = 0
        if STYLE == "chunk-indexed":
            total = _total(starts + row * lists * K, count + row * lists, span, limit, lists, K, CHUNK, UNIT, LISTED)
        # Queries beyond T repeat the last: the maximum stays what it is.
        t = tl.minimum(tl.arange(0, BT), T - 1)
        position = tl.load(first + row)
        d = tl.arange(0, BD)[None, :]
        pages_of = table + (tl.load(sequence + row).to(tl.int64) * heads + head) * pages
        for member in range(GROUP):
            query = q + (((row.to(tl.int64) * T + t) * heads + head) * GROUP + member)[:, None] * D
            straight = tl.load(query + d, d < D, other=0.0).to(tl.float32)
            across = tl.load(query + (d + D // 2) % D, d < D, other=0.0).to(tl.float32)
            across *= tl.where(d < D // 2, -1.0, 1.0)
            if STYLE == "relative" or STYLE == "infllm":
                at = _query_position(position, limit, total, stream_tokens, divisor, STYLE)
            else:
                # No block begins below 0. Said so that the compiler does not keep angles in registers.
                own_position = tl.maximum(position, member - GROUP) + t
                at = _query_position(own_position, limit, total, stream_tokens, divisor, STYLE)[:, None]
            turned = tl.trans(_turned(near, far, straight, across, at, d, D // 2, WIDE).to(DOT))
            low = tl.zeros([TILE], tl.int32)
            high = size - 1
            winner, _ = _score_many(k, pages_of, begin, number, d, turned, divisor, near, far, D, STYLE, WIDE, DOT)
            for _ in range(ROUNDS):
                middle = (low + high + 1) // 2
                left, right = _score_many(
                    k, pages_of, begin + middle, number, d, turned, divisor, near, far, D, STYLE, WIDE, DOT
                )
                low, high, winner = _next(low, high, middle, winner, left, right)
            best = tl.maximum(best, winner)
        best = tl.where(size > 0, best * (tl.load(k_scale + head) * (D**-0.5)), -float("inf"))
    tl.store(scores + (row.to(tl.int64) * heads + head) * C + number, best, number < C)
