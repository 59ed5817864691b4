"""A first stage over the index: a guess of every key's score, and the best of each chunk. See index.py for the format.

The arithmetic is int8: a small kernel rotates a block's queries (keys are not rotated: styles "relative" and "infllm"
put every query at one position), brings them into the index's basis and rounds their coefficients, one scale for all
columns of a block and head; the large one multiplies them with the planes of every key. Columns are a head's queries
after averaging, all heads of a group: their best is found on integers, one multiplication by the key's scale follows.
"""

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from unabridged.engine.attention.config import SelectionRope
from unabridged.engine.attention.kernels.index import PLANES, Index, levels
from unabridged.engine.attention.kernels.launch import Launch
from unabridged.engine.attention.kernels.layout import Rows, Span
from unabridged.engine.attention.kernels.numbers import INTERPRETED
from unabridged.engine.attention.kernels.rope import NEAR, RopeTables, angles, turn

_POSITION = {"relative": 1, "infllm": 0}
# A float32 whose last bit is worth one: an integer below 2^22 added to its bits is added to its value.
_ONE = tl.constexpr(0x4B400000)
_ONE_VALUE = tl.constexpr(12582912.0)


@dataclass(frozen=True)
class Columns:
    """The queries of R blocks as the index sees them: coefficients `[R, G, M, N]` int8, offsets `[R, G, M]` int32 (what
    codes' halves add), scales `[R, G]` float32. M columns: a power of two, the last ones repeat the first."""

    coefficients: Tensor
    offsets: Tensor
    scales: Tensor

    @classmethod
    def empty(cls, rows: int, kv_heads: int, columns: int, width: int, device: torch.device | str) -> "Columns":
        """Room for blocks with `columns` distinct columns a head; width: the index's W."""
        shape = rows, kv_heads, max(8, triton.next_power_of_2(columns))
        return cls(
            torch.empty(*shape, 4 * width, dtype=torch.int8, device=device),
            torch.empty(*shape, dtype=torch.int32, device=device),
            torch.empty(shape[:2], dtype=torch.float32, device=device),
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
    """Fill `scores` `[R, G, C]` float32: each chunk's best guess of (q - mean part) . k, times D^-0.5, over the block's
    queries (`average` neighbours averaged after rotation), the group's heads and the chunk's keys; -inf for chunks at
    or past a limit. What the mean adds is the same for all chunks of a query and left out.

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
        "coefficients": columns.coefficients,
        "offsets": columns.offsets,
        "scales": columns.scales,
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
        "TILE": max(16, min(padded, 32)),
        "AVERAGE": average,
        "WIDE": position >= NEAR,
    }
    return Launch(_columns, (count, kv_heads), arguments, constants, warps=4, stages=1)


def _plan_scores(rows: Rows, index: Index, span: Span, chunk: int, scores: Tensor, columns: Columns) -> Launch:
    count, kv_heads, padded = columns.offsets.shape
    keys, warps, stages, programs = 128, 4, 3, 132 * 4
    tiles = triton.cdiv(span.chunks * chunk, keys)
    splits = min(tiles, triton.cdiv(programs, count * kv_heads))
    arguments = {
        "codes": index.codes,
        "key_scales": index.scales,
        "coefficients": columns.coefficients,
        "offsets": columns.offsets,
        "scales": columns.scales,
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
        "STAGES": stages,
        "PLAIN": INTERPRETED,
    }
    return Launch(_scores, (splits, kv_heads, count), arguments, constants, warps=warps, stages=stages)


@triton.jit
def _columns(
    q, near, far, position, transform, coefficients, offsets, scales, scale,
    T: tl.constexpr, G: tl.constexpr, GROUP: tl.constexpr, D: tl.constexpr, FP: tl.constexpr, W: tl.constexpr,
    M: tl.constexpr, TILE: tl.constexpr, AVERAGE: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    head = tl.program_id(1)
    q += (row * T * G + head) * GROUP * D
    largest = 0.0
    for at in range(0, M, TILE):
        x = _turned(
            q, near, far, position, transform + head * D * 4 * W, at, T, G, GROUP, D, FP, W, TILE, AVERAGE, WIDE
        )
        largest = tl.maximum(largest, tl.max(tl.abs(x)))
    step = tl.maximum(largest, 1e-30) / 127
    where = row * G + head
    tl.store(scales + where, step * scale)
    n = tl.arange(0, 4 * W)
    half = tl.where(n < W, 8, tl.where(n < 2 * W, 32, tl.where(n < 3 * W, -16, -8)))
    for at in range(0, M, TILE):
        x = _turned(
            q, near, far, position, transform + head * D * 4 * W, at, T, G, GROUP, D, FP, W, TILE, AVERAGE, WIDE
        )
        # Half to even is not worth an instruction: nothing depends on which way a half goes.
        rounded = tl.floor(x / step + 0.5).to(tl.int32)
        m = at + tl.arange(0, TILE)
        tl.store(coefficients + (where * M + m[:, None]) * (4 * W) + n, rounded.to(tl.int8), m[:, None] < M)
        tl.store(offsets + where * M + m, tl.sum(rounded * half, 1), m < M)


@triton.jit
def _turned(
    q, near, far, position, transform, at,
    T: tl.constexpr, G: tl.constexpr, GROUP: tl.constexpr, D: tl.constexpr, FP: tl.constexpr, W: tl.constexpr,
    TILE: tl.constexpr, AVERAGE: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """Columns at..at+TILE: averaged, rotated, in the basis, per unit of a plane: `[TILE, N]`."""
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
    unit = tl.where(n < W, 1 / 16, tl.where(n < 2 * W, 1 / 64, tl.where(n < 3 * W, -1 / 32, -1 / 16)))
    return x * unit


@triton.jit
def _planes(codes, KEYS: tl.constexpr, W: tl.constexpr, PLAIN: tl.constexpr):
    """Codes `[KEYS, W]` int8 as the int8 planes of index.PLANES, `[KEYS, 4W]`."""
    if PLAIN:
        left = codes << 4
        y4, y2, y1, y0 = codes & -16, left & -64, left & 32, left & 16
    else:
        # Four codes of a word at a time; bits that cross a byte's border fall to the masks.
        y4, y2, y1, y0 = tl.inline_asm_elementwise(
            """{
            .reg .b32 left;
            shl.b32 left, $4, 4;
            and.b32 $0, $4, 0xF0F0F0F0;
            and.b32 $1, left, 0xC0C0C0C0;
            and.b32 $2, left, 0x20202020;
            and.b32 $3, left, 0x10101010;
            }""",
            "=r,=r,=r,=r,r",
            [codes],
            dtype=(tl.int8, tl.int8, tl.int8, tl.int8),
            is_pure=True,
            pack=4,
        )
    pairs = tl.join(tl.join(y4, y1), tl.join(y2, y0))
    return tl.reshape(tl.permute(pairs, (0, 2, 3, 1)), (KEYS, 4 * W))


@triton.jit
def _best(
    codes, key_scales, a, offset, at, limit,
    KEYS: tl.constexpr, W: tl.constexpr, M: tl.constexpr, L: tl.constexpr, PLAIN: tl.constexpr, ALL: tl.constexpr,
):  # fmt: skip
    """Best of each chunk of keys at..at+KEYS before the query's scale: `[KEYS / L]`. ALL: they all lie below limit."""
    keys = at + tl.arange(0, KEYS)
    w = tl.arange(0, W)
    if ALL:
        code = tl.load(codes + keys.to(tl.int64)[:, None] * W + w)
        scale = tl.load(key_scales + keys)
    else:
        code = tl.load(codes + keys.to(tl.int64)[:, None] * W + w, (keys < limit)[:, None], other=0)
        scale = tl.load(key_scales + keys, keys < limit, other=0.0)
    x = _planes(code.to(tl.int8, bitcast=True), KEYS, W, PLAIN)
    total = tl.dot(x, a, tl.broadcast_to(offset[None, :], (KEYS, M)), out_dtype=tl.int32)
    value = tl.max(total, 1).to(tl.float32, bitcast=True) - _ONE_VALUE
    value = value * scale.to(tl.float32)
    if not ALL:
        value = tl.where(keys < limit, value, float("-inf"))
    return tl.max(tl.reshape(value, (KEYS // L, L)), 1)


@triton.jit
def _scores(
    codes, key_scales, coefficients, offsets, scales, sequence, limits, start, chunks, room, scores,
    G: tl.constexpr, W: tl.constexpr, M: tl.constexpr, L: tl.constexpr, KEYS: tl.constexpr, STAGES: tl.constexpr,
    PLAIN: tl.constexpr,
):  # fmt: skip
    SOME: tl.constexpr = KEYS // L
    row = tl.program_id(2)
    head = tl.program_id(1)
    limit = tl.load(limits + row)
    there = (tl.load(sequence + row) * G + head).to(tl.int64) * room
    codes += there * W
    key_scales += there
    where = row.to(tl.int64) * G + head
    scores += where * chunks
    m = tl.arange(0, M)
    n = tl.arange(0, 4 * W)
    a = tl.load(coefficients + (where * M + m[None, :]) * (4 * W) + n[:, None])
    offset = tl.load(offsets + where * M + m) + _ONE
    step = tl.load(scales + where)
    some = tl.arange(0, SOME)
    whole = tl.minimum(tl.maximum(limit - start, 0) // KEYS, chunks // SOME)
    for tile in tl.range(tl.program_id(0), whole, tl.num_programs(0), num_stages=STAGES):
        best = _best(codes, key_scales, a, offset, start + tile * KEYS, limit, KEYS, W, M, L, PLAIN, True)
        tl.store(scores + tile * SOME + some, best * step)
    # The tile that the limit cuts, and those past it.
    tiles = tl.cdiv(chunks, SOME)
    tile = whole + tl.program_id(0)
    if tile == whole and tile < tiles:
        best = _best(codes, key_scales, a, offset, start + tile * KEYS, limit, KEYS, W, M, L, PLAIN, False)
        tl.store(scores + tile * SOME + some, best * step, tile * SOME + some < chunks)
        tile += tl.num_programs(0)
    for past in range(tile, tiles, tl.num_programs(0)):
        tl.store(scores + past * SOME + some, float("-inf"), past * SOME + some < chunks)


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
        rounded = (x / step + 0.5).floor() * step * units
        level = levels(index.codes[sequence, :, span.start : end])
        scale = index.scales[sequence, :, span.start : end].float()
        out[row, :, : end - span.start] = (rounded @ level.transpose(1, 2)).amax(1) * scale * dim**-0.5
    return out.unflatten(-1, (-1, chunk)).amax(-1)
