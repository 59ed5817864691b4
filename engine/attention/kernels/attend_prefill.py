"""Sparse attention of whole blocks of queries: FlashAttention over a list of keys that each block chose.

`attend_prefill` queues one kernel. A program takes one block and one KV head: its queries times its g heads are the
rows of one tile, so that a gathered and rotated key serves all of them. The attended keys form one list without gaps:
sink, kept chunks, stream, up to the block's last query. A key's place in it is also its position in streaming RoPE. All
but the last tiles of the list are seen by every query and need no mask.

Names as in layout.py; n is a place in the list.
"""

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from unabridged.engine.attention.config import AttentionRope
from unabridged.engine.attention.kernels import numbers
from unabridged.engine.attention.kernels.launch import Argument, Launch
from unabridged.engine.attention.kernels.layout import PAGE, Bank, Kept, Rows
from unabridged.engine.attention.kernels.rope import NEAR, RopeTables, angles, turn


@dataclass(frozen=True)
class Tile:
    """Rows (queries times heads) and keys of a program's tile, warps, stages of the pipeline. once: see _made_once."""

    rows: int
    keys: int
    warps: int
    stages: int
    once: bool = False


def attend_prefill(
    q: Tensor,
    rows: Rows,
    bank: Bank,
    kept: Kept,
    chunk: int,
    sink: int,
    stream: int,
    style: AttentionRope,
    rope: RopeTables,
    out: Tensor,
    lse: Tensor,
) -> None:
    """Attend with q `[R, T, H, D]`; the blocks' own keys are in the bank already.

    kept: chunks of `chunk` tokens, a power of two. stream: no block's first query stands further behind its limit.
    rope: tables for every position of `rows`, queries past a sequence's end included. Writes out `[R, T, H, D]` in q's
    type and lse `[R, T, H]` float32, the natural log of each query's summed exponentials. Both are undefined for
    queries past a sequence's end, which do not disturb the others.
    """
    plan_attend_prefill(q, rows, bank, kept, chunk, sink, stream, style, rope, out, lse).run()


def plan_attend_prefill(
    q: Tensor,
    rows: Rows,
    bank: Bank,
    kept: Kept,
    chunk: int,
    sink: int,
    stream: int,
    style: AttentionRope,
    rope: RopeTables,
    out: Tensor,
    lse: Tensor,
    tile: Tile | None = None,
) -> Launch:
    """The launch of `attend_prefill`. tile: another than the card's."""
    tokens, heads, dim = q.shape[1:]
    longest = sink + kept.starts.shape[2] * chunk + stream + tokens
    far = style in ("true", "dynamic-extend") or (style == "streaming" and longest > NEAR)
    group = heads // bank.heads
    tile = tile or tile_for(tokens * group, dim, far, capability(q.device))
    parts = triton.cdiv(tokens * group, tile.rows)
    arguments: dict[str, Argument] = {
        "q": q,
        "out": out,
        "lse": lse,
        "k": bank.k,
        "v": bank.v,
        "k_table": bank.k_table,
        "v_table": bank.v_table,
        "k_scale": bank.k_scale,
        "v_scale": bank.v_scale,
        "pages": bank.k_table.shape[2],
        "starts": kept.starts,
        "counts": kept.count,
        "capacity": kept.starts.shape[2],
        "sequence": rows.sequence,
        "first": rows.first,
        "limits": rows.limits,
        "divisors": rows.divisors,
        "near": rope.near,
        "far": rope.far,
    }
    constants = {
        "T": tokens,
        "H": heads,
        "G": bank.heads,
        "D": dim,
        "LISTS": kept.starts.shape[1],
        "CHUNK": chunk,
        "SINK": sink,
        "STYLE": style,
        "WIDE": far,
        "ONE_TABLE": bank.k_table is bank.v_table,
        "PAGE": PAGE,
        "PARTS": parts,
        "ROWS": tile.rows,
        "KEYS": tile.keys,
        "DOT": numbers.dot_type(q.dtype),
        "ONCE": tile.once and not numbers.INTERPRETED,
        "VALUE": numbers.dot_type(_value_type(bank.v.dtype, q.dtype)),
    }
    grid = (q.shape[0] * parts, bank.heads)
    return Launch(_attend, grid, arguments, constants, warps=tile.warps, stages=tile.stages)


def capability(device: torch.device) -> tuple[int, int]:
    """The compute capability of a GPU; that of the smallest supported card for other devices."""
    return torch.cuda.get_device_capability(device) if device.type == "cuda" else (8, 9)


def tile_for(rows: int, dim: int, far: bool, card: tuple[int, int]) -> Tile:
    """The tile for blocks of `rows` rows (queries times heads of a group); far: angles come from two tables."""
    if dim > 128:
        best = Tile(64, 32, 8, 1, once=True)
    elif card[0] != 9:
        # 99 KiB of shared memory, and products that take their operands from registers.
        best = Tile(128, 32, 8, 2, once=True)
    elif far or dim == 96:
        best = Tile(128, 64, 8, 2)
    else:
        # Products of warpgroups: 255 registers just hold so many rows, with one pair of angles.
        best = Tile(256, 64, 8, 1)
    fitting = max(64, triton.next_power_of_2(rows))
    return best if fitting >= best.rows else Tile(fitting, best.keys, 4, best.stages, best.once)


def _value_type(stored: torch.dtype, queries: torch.dtype) -> torch.dtype:
    # Half precision holds every e4m3 value, converts in half an instruction, and rounds probabilities more finely.
    if stored.itemsize == 1:
        return torch.float16
    return queries if stored == torch.float32 else stored


@triton.jit
def _attend(
    q,
    out,
    lse,
    k,
    v,
    k_table,
    v_table,
    k_scale,
    v_scale,
    pages,
    starts,
    counts,
    capacity,
    sequence,
    first,
    limits,
    divisors,
    near,
    far,
    T: tl.constexpr,
    H: tl.constexpr,
    G: tl.constexpr,
    D: tl.constexpr,
    LISTS: tl.constexpr,
    CHUNK: tl.constexpr,
    SINK: tl.constexpr,
    STYLE: tl.constexpr,
    WIDE: tl.constexpr,
    ONE_TABLE: tl.constexpr,
    PAGE: tl.constexpr,
    PARTS: tl.constexpr,
    ROWS: tl.constexpr,
    KEYS: tl.constexpr,
    DOT: tl.constexpr,
    VALUE: tl.constexpr,
    ONCE: tl.constexpr,
):
    GROUP: tl.constexpr = H // G
    F: tl.constexpr = D // 2
    block = tl.program_id(0) // PARTS
    part = tl.program_id(0) % PARTS
    head = tl.program_id(1)
    own = tl.load(sequence + block).to(tl.int64) * G + head
    k_table += own * pages
    v_table += own * pages
    limit = tl.load(limits + block)
    divisor = tl.load(divisors + block)
    begin = tl.load(first + block)

    chosen = block.to(tl.int64) * LISTS + head % LISTS
    starts += chosen * capacity
    count = tl.load(counts + chosen)
    last = tl.load(starts + count - 1, mask=count > 0, other=0)
    beyond = tl.where(count > 0, tl.maximum(last + CHUNK - limit, 0), 0)
    sink_end = tl.minimum(SINK, limit)
    kept_end = sink_end + count * CHUNK - beyond
    newest = kept_end + begin - limit

    row = part * ROWS + tl.arange(0, ROWS)
    token = tl.minimum(row // GROUP, T - 1)
    place = newest + token
    at = (block.to(tl.int64) * T + token) * H + head * GROUP + row % GROUP
    f = tl.arange(0, triton.next_power_of_2(F))
    d = tl.arange(0, triton.next_power_of_2(D))
    rotated = _position(place, begin + token, limit, divisor, STYLE)
    cos, sin = angles(near, far, rotated[:, None], _clamped(f, F)[None, :], F, WIDE)
    low = tl.load(q + at[:, None] * D + f[None, :], mask=f[None, :] < F, other=0.0).to(tl.float32)
    high = tl.load(q + at[:, None] * D + F + f[None, :], mask=f[None, :] < F, other=0.0).to(tl.float32)
    # Keeps the addresses of so many rows from being held beside the values, in more registers than there are.
    tl.debug_barrier()
    low, high = turn(low, high, cos, sin)
    # Logits in base 2, the scale of the keys included.
    scale = tl.load(k_scale + head) * (D**-0.5 * 1.4426950408889634)
    low = (low * scale).to(DOT)
    high = (high * scale).to(DOT)

    best = tl.full((ROWS,), float("-inf"), tl.float32)
    total = tl.zeros((ROWS,), tl.float32)
    acc = tl.zeros((ROWS, triton.next_power_of_2(D)), tl.float32)
    seen_by_all = (newest + 1) // KEYS * KEYS
    for n in tl.range(0, seen_by_all, KEYS):
        n = n + tl.arange(0, KEYS)
        k_low, k_high, values = _keys_and_values(
            n, k, v, k_table, v_table, pages, starts, sink_end, kept_end, limit, divisor, near, far, f, d,
            F, D, CHUNK, STYLE, WIDE, ONE_TABLE, PAGE, DOT, VALUE, ONCE,
        )  # fmt: skip
        scores = tl.dot(low, tl.trans(k_low))
        scores = tl.dot(high, tl.trans(k_high), scores)
        best, total, acc = _online(scores, values, best, total, acc)
    for n in tl.range(seen_by_all, newest + T, KEYS, num_stages=1):
        n = n + tl.arange(0, KEYS)
        k_low, k_high, values = _keys_and_values(
            tl.minimum(n, newest + T - 1), k, v, k_table, v_table, pages, starts, sink_end, kept_end, limit, divisor,
            near, far, f, d, F, D, CHUNK, STYLE, WIDE, ONE_TABLE, PAGE, DOT, VALUE, ONCE,
        )  # fmt: skip
        # What lies behind a sequence's end is anything, and nothing times infinity is not nothing.
        values = tl.where(tl.abs(values) < float("inf"), values, 0.0)
        scores = tl.dot(low, tl.trans(k_low))
        scores = tl.dot(high, tl.trans(k_high), scores)
        scores = tl.where(n[None, :] <= place[:, None], scores, float("-inf"))
        best, total, acc = _online(scores, values, best, total, acc)

    real = row < T * GROUP
    acc *= (tl.load(v_scale + head) / total)[:, None]
    tl.store(out + at[:, None] * D + d[None, :], acc.to(out.dtype.element_ty), mask=real[:, None] & (d[None, :] < D))
    tl.store(lse + at, (best + tl.log2(total)) * 0.6931471805599453, mask=real)


@triton.jit
def _keys_and_values(
    n, k, v, k_table, v_table, pages, starts, sink_end, kept_end, limit, divisor, near, far, f, d,
    F: tl.constexpr, D: tl.constexpr, CHUNK: tl.constexpr, STYLE: tl.constexpr, WIDE: tl.constexpr,
    ONE_TABLE: tl.constexpr, PAGE: tl.constexpr, DOT: tl.constexpr, VALUE: tl.constexpr,
    ONCE: tl.constexpr,
):  # fmt: skip
    """The keys at places `n` of the list, rotated, in two halves `[KEYS, F]`, and their values `[KEYS, D]`."""
    kept = (n >= sink_end) & (n < kept_end)
    rank = n - sink_end
    start = tl.load(starts + rank // CHUNK, mask=kept, other=0)
    position = tl.where(kept, start + rank % CHUNK, tl.where(n < sink_end, n, limit + n - kept_end))
    page = tl.minimum(position // PAGE, pages - 1)
    slot = tl.maximum(tl.load(k_table + page), 0)
    # Only the product with D leaves 32 bits.
    key = (slot * PAGE + position % PAGE).to(tl.int64) * D
    value = key
    if not ONE_TABLE:
        slot = tl.maximum(tl.load(v_table + page), 0)
        value = (slot * PAGE + position % PAGE).to(tl.int64) * D
    if triton.next_power_of_2(D) == D:
        low = tl.load(k + key[:, None] + f[None, :])
        high = tl.load(k + key[:, None] + F + f[None, :])
        values = tl.load(v + value[:, None] + d[None, :])
    else:
        low = tl.load(k + key[:, None] + f[None, :], mask=f[None, :] < F, other=0.0)
        high = tl.load(k + key[:, None] + F + f[None, :], mask=f[None, :] < F, other=0.0)
        values = tl.load(v + value[:, None] + d[None, :], mask=d[None, :] < D, other=0.0)
    rotated = _position(n, position, limit, divisor, STYLE)
    cos, sin = angles(near, far, rotated[:, None], _clamped(f, F)[None, :], F, WIDE)
    low, high = turn(low.to(tl.float32), high.to(tl.float32), cos, sin)
    low, high, values = low.to(DOT), high.to(DOT), values.to(VALUE)
    if ONCE:
        low, high, values = _made_once(low), _made_once(high), _made_once(values)
    return low, high, values


@triton.jit
def _made_once(x):
    """x, in a way that the compiler must not repeat. Where products take their operands from registers it would move
    the conversion and rotation of keys behind their exchange between warps, and every warp would do all of it."""
    return tl.inline_asm_elementwise("mov.b32 $0, $1;", "=r,r", [x], dtype=x.dtype, is_pure=False, pack=2)


@triton.jit
def _clamped(f, F: tl.constexpr):
    """Frequencies below F. A minimum hides from the compiler that they lie side by side."""
    return f if triton.next_power_of_2(F) == F else tl.minimum(f, F - 1)


@triton.jit
def _position(place, position, limit, divisor, STYLE: tl.constexpr):
    """Where a style puts what stands at `position` and, in the list, at `place`."""
    if STYLE == "streaming":
        rotated = place
    elif STYLE == "infllm":
        rotated = tl.maximum(position - limit, 0)
    elif STYLE == "dynamic-extend":
        rotated = tl.where(position < limit, position // divisor, limit // divisor + position - limit)
    else:
        rotated = position
    return rotated


@triton.jit
def _online(scores, values, best, total, acc):
    """One tile of the softmax over a list: running maxima, sums and weighted values."""
    higher = tl.maximum(best, tl.max(scores, 1))
    fade = tl.exp2(best - higher)
    shares = tl.exp2(scores - higher[:, None])
    total = total * fade + tl.sum(shares, 1)
    acc = tl.dot(shares.to(values.dtype), values, acc * fade[:, None])
    return higher, total, acc
