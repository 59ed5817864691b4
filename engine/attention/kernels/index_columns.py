"""Columns: the queries of blocks as the index scores them, and the plain reference of that scoring.

Queries are rotated to one position (keys are not rotated), brought into the index's basis and rounded to int8 with one
scale for all columns of a block and head. Columns are a head's queries after averaging, all heads of a group.

What the mean key adds differs from column to column and decides between them. It starts a column's sum, less what it
adds to the column where it is largest: so the key's scale multiplies it too, which selects no worse and costs nothing.
"""

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from unabridged.engine.attention.kernels.index import PLANES, Codes, levels, scale_values
from unabridged.engine.attention.kernels.layout import PAGE, Rows, Span
from unabridged.engine.attention.kernels.rope import NEAR, RopeTables, angles, turn
from unabridged.models.kernels.launch import Argument, Launch

# Frequencies that are rotated and multiplied at once: more would not fit into registers.
_PART = 64


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


def plan_columns(q: Tensor, index: Codes, position: int, rope: RopeTables, columns: Columns, average: int) -> Launch:
    """Fill `columns` from q `[R, T, H, D]` un-rotated, as if all stood at `position`; `average` neighbours are averaged
    after rotation."""
    count, tokens, heads, dim = q.shape
    kv_heads, padded = columns.coefficients.shape[1:3]
    arguments: dict[str, Argument] = {
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
        "FP": min(_PART, triton.next_power_of_2(dim // 2)),
        "W": index.width,
        "M": padded,
        "TILE": 16,
        "AVERAGE": average,
        "WIDE": position >= NEAR,
    }
    return Launch(_columns, (count, kv_heads), arguments, constants, warps=8, stages=1)


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
    n = tl.arange(0, 4 * W)
    x = tl.zeros((TILE, 4 * W), tl.float32)
    bias = tl.zeros((TILE,), tl.float32)
    for begin in range(0, F, FP):
        f = begin + tl.arange(0, FP)
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
        x = tl.dot(low, first, x, input_precision="tf32x3")
        x = tl.dot(high, second, x, input_precision="tf32x3")
        bias += tl.sum(low * tl.load(mean + f, f < F, other=0.0)[None, :], 1)
        bias += tl.sum(high * tl.load(mean + F + f, f < F, other=0.0)[None, :], 1)
    unit = tl.where(n < W, 1 / 16, tl.where(n < 2 * W, 1 / 64, 1 / 128))
    return x * unit, bias


def scores(turned: Tensor, index: Codes, rows: Rows, span: Span, chunk: int) -> Tensor:
    """The plain reference: turned `[R, M, H, D]`, rotated and averaged queries; `[R, G, C]` float32."""
    dim, kv_heads = turned.shape[3], index.codes.shape[0]
    units = torch.tensor([unit for _, _, unit in PLANES], device=turned.device).repeat_interleave(index.width)
    out = turned.new_full((len(turned), kv_heads, span.chunks * chunk), -torch.inf, dtype=torch.float32)
    for row, own in enumerate(turned.float().unflatten(2, (kv_heads, -1)).transpose(1, 2).flatten(2, 3)):
        sequence, held = int(rows.sequence[row]), index.pages * PAGE
        end = min(int(rows.limits[row]), span.start + span.chunks * chunk, held)
        if end <= span.start:
            continue
        x = own @ index.basis.query / units
        step = x.abs().amax((1, 2), keepdim=True) / 127
        bias = own @ index.basis.mean[..., None]
        top = bias.amax(1, keepdim=True)
        codes, scales = index.read(sequence, span.start, end)
        level = levels(codes) * units
        total = (x / step + 0.5).floor() @ level.transpose(1, 2) + ((bias - top) / step + 0.5).floor()
        guess = total.amax(1) * scale_values(scales) * step[..., 0] + top[..., 0]
        out[row, :, : end - span.start] = guess * dim**-0.5
    best: Tensor = out.view(*out.shape[:2], -1, chunk).amax(-1)
    return best
