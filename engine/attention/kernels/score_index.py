"""A first stage over the index: a guess of every key's score, and the best of each chunk. See index.py for the format.

The arithmetic is int8: a small kernel rotates a block's queries (keys are not rotated: styles "relative" and "infllm"
put every query at one position), brings them into the index's basis and rounds their coefficients, one scale for all
columns of a block and head; the large one multiplies them with the planes of every key. Columns are a head's queries
after averaging, all heads of a group: their best is found on integers, one multiplication by the key's scale follows.

What the mean key adds differs from column to column and decides between them. It starts a column's sum, less what it
adds to the column where it is largest: so the key's scale multiplies it too, which selects no worse and costs nothing.
"""

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from unabridged.engine.attention.config import SelectionRope
from unabridged.engine.attention.kernels.index import PLANES, Index, levels, scale_values, unpack_scale
from unabridged.engine.attention.kernels.launch import Launch
from unabridged.engine.attention.kernels.layout import Rows, Span
from unabridged.engine.attention.kernels.numbers import INTERPRETED
from unabridged.engine.attention.kernels.rope import NEAR, RopeTables, angles, turn

_POSITION = {"relative": 1, "infllm": 0}
# Keys of a tile, warps, stages of the pipeline: for a few columns (decoding) and for many.
_FEW = (1024, 4, 3)
_MANY = (128, 4, 3)
# Programs that share the tiles of all blocks and heads, for any card.
_PROGRAMS = 132 * 4


@dataclass(frozen=True)
class Columns:
    """The queries of R blocks as the index sees them: coefficients `[R, G, M, N]` int8, offsets `[R, G, M]` int32 that
    their sums start with (0 and below), steps `[R, G]` float32: what one unit of a sum is worth in a score, and tops
    `[R, G]` float32, added to a score: the largest q . mean. M columns: a power of two, the last repeat the first."""

    coefficients: Tensor
    offsets: Tensor
    steps: Tensor
    tops: Tensor

    @classmethod
    def empty(cls, rows: int, kv_heads: int, columns: int, width: int, device: torch.device | str) -> "Columns":
        """Room for blocks with `columns` distinct columns a head; width: the index's W."""
        padded = max(width // 4, triton.next_power_of_2(columns))
        return cls(
            torch.empty(rows, kv_heads, padded, 4 * width, dtype=torch.int8, device=device),
            torch.empty(rows, kv_heads, padded, dtype=torch.int32, device=device),
            torch.empty(rows, kv_heads, dtype=torch.float32, device=device),
            torch.empty(rows, kv_heads, dtype=torch.float32, device=device),
        )


def score_index(
    q: Tensor,
    rows: Rows,
    index: Index,
    span: Span,
    chunk: int,
    style: SelectionRope,
    stream: int,
    rope: RopeTables,
    scores: Tensor,
    columns: Columns,
    average: int = 1,
) -> None:
    """Fill `scores` `[R, G, C]` float32: each chunk's best guess of q . k, times D^-0.5, over the block's
    queries (`average` neighbours averaged after rotation), the group's heads and the chunk's keys; -inf for chunks at
    or past a limit.

    q `[R, T, H, D]` un-rotated; style "relative" or "infllm" (ValueError otherwise); `columns` is room for
    T / average * H / G columns. A chunk is a power of two of at most 128 keys.
    """
    for launch in plan_score_index(q, rows, index, span, chunk, style, stream, rope, scores, columns, average):
        launch.run()


def plan_score_index(
    q: Tensor,
    rows: Rows,
    index: Index,
    span: Span,
    chunk: int,
    style: SelectionRope,
    stream: int,
    rope: RopeTables,
    scores: Tensor,
    columns: Columns,
    average: int = 1,
) -> tuple[Launch, Launch]:
    """See score_index."""
    if style not in _POSITION:
        raise ValueError(f"the index cannot score with selection RoPE {style}: its keys are not rotated")
    position = stream + _POSITION[style]
    return _plan_columns(q, index, position, rope, columns, average), _plan_scores(
        rows, index, span, chunk, scores, columns
    )


def _plan_columns(q: Tensor, index: Index, position: int, rope: RopeTables, columns: Columns, average: int) -> Launch:
    count, tokens, heads, dim = q.shape
    kv_heads, padded = columns.coefficients.shape[1:3]
    arguments = {
        "q": q,
        "near": rope.near,
        "far": rope.far,
        "position": position,
        "transform": index.basis.query,
        "mean": index.basis.mean,
        "coefficients": columns.coefficients,
        "offsets": columns.offsets,
        "steps": columns.steps,
        "tops": columns.tops,
        "scale": dim**-0.5,
    }
    constants = {
        "T": tokens,
        "G": kv_heads,
        "GROUP": heads // kv_heads,
        "D": dim,
        "FP": triton.next_power_of_2(dim // 2),
        "W": index.width,
        "M": padded,
        "TILE": 16,
        "AVERAGE": average,
        "WIDE": position >= NEAR,
    }
    return Launch(_columns, (count, kv_heads), arguments, constants, warps=8, stages=1)


def _plan_scores(rows: Rows, index: Index, span: Span, chunk: int, scores: Tensor, columns: Columns) -> Launch:
    count, kv_heads, padded, _ = columns.coefficients.shape
    fold = max(1, 32 // index.width)
    if chunk % fold or chunk > _FEW[0]:
        raise ValueError(f"chunks of {chunk} keys: {fold} to {_FEW[0]} are possible")
    few = padded <= 8
    keys, warps, stages = _FEW if few else _MANY
    if padded > 64:
        # Sums of a tile stay in registers: 64 or 128 a thread.
        keys, warps = (keys, padded // 16) if padded <= 256 else (keys // 2, 16)
    keys = max(keys, chunk)
    tiles = triton.cdiv(span.chunks * chunk, keys)
    splits = min(tiles, triton.cdiv(_PROGRAMS, count * kv_heads))
    arguments = {
        "codes": index.codes,
        "key_scales": index.scales,
        "coefficients": columns.coefficients,
        "offsets": columns.offsets,
        "steps": columns.steps,
        "tops": columns.tops,
        "sequence": rows.sequence,
        "limits": rows.limits,
        "start": span.start,
        "chunks": span.chunks,
        "room": index.codes.shape[2],
        "scores": scores,
    }
    constants = {
        "G": kv_heads,
        "W": index.width,
        "M": padded,
        "L": chunk,
        "KEYS": keys,
        "FOLD": fold if few else 0,
        "NEAR": min(chunk, 4 * fold),
        "WHOLE": _has_wgmma(),
        "STAGES": stages,
        "PLAIN": INTERPRETED,
    }
    return Launch(_scores, (splits, kv_heads, count), arguments, constants, warps=warps, stages=stages)


def _has_wgmma() -> bool:
    return torch.cuda.is_available() and torch.cuda.get_device_capability()[0] == 9


@triton.jit
def _columns(
    q, near, far, position, transform, mean, coefficients, offsets, steps, tops, scale,
    T: tl.constexpr, G: tl.constexpr, GROUP: tl.constexpr, D: tl.constexpr, FP: tl.constexpr, W: tl.constexpr,
    M: tl.constexpr, TILE: tl.constexpr, AVERAGE: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    head = tl.program_id(1)
    q += (row * T * G + head) * GROUP * D
    transform += head * D * 4 * W
    mean += head * D
    x, bias = _turned(q, near, far, position, transform, mean, 0, T, G, GROUP, D, FP, W, TILE, AVERAGE, WIDE)
    largest = tl.max(tl.abs(x))
    top = tl.max(bias)
    for at in range(TILE, M, TILE):
        more, bias_of_more = _turned(
            q, near, far, position, transform, mean, at, T, G, GROUP, D, FP, W, TILE, AVERAGE, WIDE
        )
        largest = tl.maximum(largest, tl.max(tl.abs(more)))
        top = tl.maximum(top, tl.max(bias_of_more))
    step = tl.maximum(largest, 1e-30) / 127
    where = row * G + head
    tl.store(steps + where, step * scale)
    tl.store(tops + where, top * scale)
    n = tl.arange(0, 4 * W)
    for at in range(0, M, TILE):
        if M > TILE:
            x, bias = _turned(q, near, far, position, transform, mean, at, T, G, GROUP, D, FP, W, TILE, AVERAGE, WIDE)
        # Half to even is not worth an instruction: nothing depends on which way a half goes.
        rounded = tl.floor(x / step + 0.5).to(tl.int32)
        m = at + tl.arange(0, TILE)
        tl.store(coefficients + (where * M + m[:, None]) * (4 * W) + n, rounded.to(tl.int8), m[:, None] < M)
        # No sum of products reaches 2^21: an offset of -2^24 already hides its column.
        offset = tl.maximum(tl.floor((bias - top) / step + 0.5), -16777216.0)
        tl.store(offsets + where * M + m, offset.to(tl.int32), m < M)


@triton.jit
def _turned(
    q, near, far, position, transform, mean, at,
    T: tl.constexpr, G: tl.constexpr, GROUP: tl.constexpr, D: tl.constexpr, FP: tl.constexpr, W: tl.constexpr,
    TILE: tl.constexpr, AVERAGE: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """Columns at..at+TILE, averaged and rotated: in the basis, per unit of a plane, `[TILE, N]`; with the mean."""
    F: tl.constexpr = D // 2
    m = (at + tl.arange(0, TILE)) % (T // AVERAGE * GROUP)
    rows = q + ((m // GROUP * AVERAGE) * (G * GROUP) + m % GROUP)[:, None] * D
    f = tl.arange(0, FP)
    n = tl.arange(0, 4 * W)
    low = tl.zeros((TILE, FP), tl.float32)
    high = tl.zeros((TILE, FP), tl.float32)
    for token in range(AVERAGE):
        one = rows + token * (G * GROUP * D) + f
        low += tl.load(one, (f < F)[None, :], other=0.0).to(tl.float32)
        high += tl.load(one + F, (f < F)[None, :], other=0.0).to(tl.float32)
    cos, sin = angles(near, far, position, tl.minimum(f, F - 1), F, WIDE)
    low, high = turn(low / AVERAGE, high / AVERAGE, cos[None, :], sin[None, :])
    first = tl.load(transform + f[:, None] * (4 * W) + n, (f < F)[:, None], other=0.0)
    second = tl.load(transform + (F + f[:, None]) * (4 * W) + n, (f < F)[:, None], other=0.0)
    x = tl.dot(low, first, input_precision="tf32x3")
    x = tl.dot(high, second, x, input_precision="tf32x3")
    unit = tl.where(n < W, 1 / 16, tl.where(n < 2 * W, 1 / 64, 1 / 128))
    bias = tl.sum(low * tl.load(mean + f, f < F, other=0.0)[None, :], 1)
    bias += tl.sum(high * tl.load(mean + F + f, f < F, other=0.0)[None, :], 1)
    return x * unit, bias


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
def _few(
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
def _many(
    code, scale, hidden, sums, a, L: tl.constexpr, KEYS: tl.constexpr, W: tl.constexpr, WHOLE: tl.constexpr,
    PLAIN: tl.constexpr,
):  # fmt: skip
    """Best of each chunk, `[KEYS / L]`, for many columns: a row of the product is a key, all planes in one.

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
    x = tl.reshape(x, (KEYS, 4 * W))
    value = tl.max(tl.dot(x, a, sums, out_dtype=tl.int32), 1).to(tl.float32) * unpack_scale(scale)
    if hidden is not None:
        value += hidden
    return tl.max(tl.reshape(value, (KEYS // L, L)), 1)


@triton.jit
def _scores(
    codes, key_scales, coefficients, offsets, steps, tops, sequence, limits, start, chunks, room, scores,
    G: tl.constexpr, W: tl.constexpr, M: tl.constexpr, L: tl.constexpr, KEYS: tl.constexpr, FOLD: tl.constexpr,
    NEAR: tl.constexpr, WHOLE: tl.constexpr, STAGES: tl.constexpr, PLAIN: tl.constexpr,
):  # fmt: skip
    SOME: tl.constexpr = KEYS // L
    row = tl.program_id(2)
    head = tl.program_id(1)
    size = tl.maximum(tl.load(limits + row) - start, 0)
    first = (tl.load(sequence + row) * G + head).to(tl.int64) * room + start
    # A head of a sequence stays below 2^31 bytes, all of them do not.
    codes += first * W
    key_scales += first
    where = row.to(tl.int64) * G + head
    scores += where * chunks
    coefficients += where * (M * 4 * W)
    step = tl.load(steps + where)
    top = tl.load(tops + where)
    some = tl.arange(0, SOME)
    keys = tl.arange(0, KEYS)
    if FOLD > 0:
        k = tl.arange(0, FOLD * W)
        m = tl.arange(0, FOLD * M)
        own = (k // W)[:, None] == (m // M)[None, :]
        column = coefficients + (m % M)[None, :] * (4 * W) + (k % W)[:, None]
        a4 = tl.load(column, own, other=0)
        a2 = tl.load(column + W, own, other=0)
        a1 = tl.load(column + 2 * W, own, other=0)
        a0 = tl.load(column + 3 * W, own, other=0)
        offset = tl.load(offsets + where * M + m % M)
        sums = tl.broadcast_to(offset[None, :], (KEYS // FOLD, FOLD * M))
        byte = tl.arange(0, KEYS // FOLD)[:, None] * (FOLD * W) + k
    else:
        n = tl.arange(0, 4 * W)
        if not WHOLE:
            n = (n // (2 * W) * 2 + n // 4 % 2) * W + n % (2 * W) // 8 * 4 + n % 4
        a4 = tl.load(coefficients + tl.arange(0, M)[None, :] * (4 * W) + n[:, None])
        sums = tl.broadcast_to(tl.load(offsets + where * M + tl.arange(0, M))[None, :], (KEYS, M))
        byte = keys[:, None] * W + tl.arange(0, W)
    whole = tl.minimum(size // KEYS, chunks // SOME)
    for tile in tl.range(tl.program_id(0), whole, tl.num_programs(0), num_stages=STAGES):
        at = tile * KEYS
        code = tl.load(codes + at * W + byte).to(tl.int8, bitcast=True)
        scale = tl.load(key_scales + at + keys)
        if FOLD > 0:
            best = _few(code, scale, None, sums, a4, a2, a1, a0, M, L, KEYS, FOLD, NEAR, W, PLAIN)
        else:
            best = _many(code, scale, None, sums, a4, L, KEYS, W, WHOLE, PLAIN)
        tl.store(scores + tile * SOME + some, best * step + top)
    # The tile that the limit cuts, and those past it.
    tiles = tl.cdiv(chunks, SOME)
    tile = whole + tl.program_id(0)
    if tile == whole and tile < tiles:
        at = tile * KEYS
        there = size - tile * KEYS
        code = tl.load(codes + at * W + byte, byte < there * W, other=0).to(tl.int8, bitcast=True)
        scale = tl.load(key_scales + at + keys, keys < there, other=0)
        hidden = tl.where(keys < there, 0.0, float("-inf"))
        if FOLD > 0:
            best = _few(code, scale, hidden, sums, a4, a2, a1, a0, M, L, KEYS, FOLD, NEAR, W, PLAIN)
        else:
            best = _many(code, scale, hidden, sums, a4, L, KEYS, W, WHOLE, PLAIN)
        tl.store(scores + tile * SOME + some, best * step + top, tile * SOME + some < chunks)
        tile += tl.num_programs(0)
    for past in range(tile, tiles, tl.num_programs(0)):
        tl.store(scores + past * SOME + some, tl.full((SOME,), float("-inf"), tl.float32), past * SOME + some < chunks)


def scores(turned: Tensor, index: Index, rows: Rows, span: Span, chunk: int) -> Tensor:
    """The plain reference: turned `[R, M, H, D]`, rotated and averaged queries; `[R, G, C]` float32."""
    dim, kv_heads = turned.shape[3], index.codes.shape[1]
    units = torch.tensor([unit for _, _, unit in PLANES], device=turned.device).repeat_interleave(index.width)
    out = turned.new_full((len(turned), kv_heads, span.chunks * chunk), -torch.inf, dtype=torch.float32)
    for row, own in enumerate(turned.float().unflatten(2, (kv_heads, -1)).transpose(1, 2).flatten(2, 3)):
        sequence, end = int(rows.sequence[row]), min(int(rows.limits[row]), span.start + span.chunks * chunk)
        if end <= span.start:
            continue
        x = own @ index.basis.query / units
        step = x.abs().amax((1, 2), keepdim=True) / 127
        bias = own @ index.basis.mean[..., None]
        top = bias.amax(1, keepdim=True)
        level = levels(index.codes[sequence, :, span.start : end]) * units
        total = (x / step + 0.5).floor() @ level.transpose(1, 2) + ((bias - top) / step + 0.5).floor()
        guess = total.amax(1) * scale_values(index.scales[sequence, :, span.start : end]) * step[..., 0] + top[..., 0]
        out[row, :, : end - span.start] = guess * dim**-0.5
    best: Tensor = out.view(*out.shape[:2], -1, chunk).amax(-1)
    return best
