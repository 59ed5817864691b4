"""Sparse attention of whole blocks of queries: FlashAttention over a list of keys that each block chose.

`attend_prefill` queues one kernel. A program takes one block and one KV head: its queries times its g heads are the
rows of one tile, so that a gathered and rotated key serves all of them. The attended keys form one list without gaps:
sink, kept chunks, stream, up to the block's last query. A key's place in it is also its position in streaming RoPE. All
but the last tiles of the list are seen by every query and need no mask.

Names as in layout.py; n is a place in the list.
"""

from dataclasses import dataclass, replace

import torch
import triton
from torch import Tensor

from unabridged.engine.attention.config import AttentionRope
from unabridged.engine.attention.kernels import numbers
from unabridged.engine.attention.kernels.attend_prefill_kernel import attend_blocks
from unabridged.engine.attention.kernels.layout import PAGE, Bank, Kept, Rows
from unabridged.engine.attention.kernels.rope import NEAR, RopeTables
from unabridged.models.kernels.launch import Argument, Launch, runs


@dataclass(frozen=True)
class Tile:
    """Rows (queries times heads) and keys of a program's tile, warps, stages of the pipeline.

    once: products take their operands from registers, keys are rotated before (attend_prefill_tiles._made_once).
    registers: at most so many a thread, None for any number. packed: FP8 keys and values are, see attend_prefill_tiles.
    """

    rows: int
    keys: int
    warps: int
    stages: int
    once: bool = False
    registers: int | None = None
    packed: bool = False


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
    """Attend with q `[R, T, H, D]`; the blocks' own keys are in the bank already.

    kept: chunks of `chunk` tokens, a power of two. stream: no block's first query stands further behind its limit.
    rope: tables for every position of `rows`, queries past a sequence's end included. Writes out `[R, T, H, D]` in q's
    type and lse `[R, T, H]` float32, the natural log of each query's summed exponentials. Both are undefined for
    queries past a sequence's end, which do not disturb the others.

    tile: another than the card's.
    """
    tokens, heads, dim = q.shape[1:]
    numbered = stream + tokens
    if style == "streaming":
        numbered += sink + kept.starts.shape[2] * chunk
    far = style in ("true", "dynamic-extend") or numbered > NEAR
    group = heads // bank.heads
    fp8 = bank.k.dtype == bank.v.dtype == torch.float8_e4m3fn and q.element_size() == 2
    tile = tile or tile_for(tokens * group, dim, far, fp8, capability(q.device))
    packed = fp8 and tile.packed and not numbers.INTERPRETED
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
        "near_half": rope.near_half,
        "far_half": rope.far_half,
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
        "DOT": numbers.dot_type(torch.float16 if packed else q.dtype),
        "VALUE": numbers.dot_type(_value_type(bank.v.dtype, q.dtype)),
        "PACKED": packed,
        "ONCE": tile.once and not numbers.INTERPRETED,
    }
    grid = (q.shape[0] * parts, bank.heads)
    return Launch(attend_blocks, grid, arguments, constants, tile.warps, tile.stages, tile.registers)


attend_prefill = runs(plan_attend_prefill)


def capability(device: torch.device) -> tuple[int, int]:
    """The compute capability of a GPU; that of the smallest supported card for other devices."""
    return torch.cuda.get_device_capability(device) if device.type == "cuda" else (8, 9)


def tile_for(rows: int, dim: int, far: bool, fp8: bool, card: tuple[int, int]) -> Tile:
    """The tile for blocks of `rows` rows (queries times heads of a group); far: angles come from two tables."""
    if dim > 128:
        best = Tile(64, 32, 8, 1, once=True)
    elif card[0] != 9:
        # 99 KiB of shared memory, and products that take their operands from registers.
        best = Tile(128, 32, 8, 2, once=True)
    elif fp8 and dim != 96:
        # Two programs on a multiprocessor: one multiplies while the other takes exponentials. Triton 3.6 has no layout
        # for packed keys of 96.
        best = Tile(128, 64, 8, 1, registers=128, packed=True)
    elif far or dim == 96:
        best = Tile(128, 64, 8, 2)
    else:
        # Products of warpgroups: 255 registers just hold so many rows, with one pair of angles.
        best = Tile(256, 64, 8, 2)
    fitting = max(64, triton.next_power_of_2(rows))
    if fitting >= best.rows:
        return best
    return replace(best, rows=fitting, warps=4, registers=None)


def _value_type(stored: torch.dtype, queries: torch.dtype) -> torch.dtype:
    # Half precision holds every e4m3 value, converts in half an instruction, and rounds probabilities more finely.
    if stored.itemsize == 1:
        return torch.float16
    return queries if stored == torch.float32 else stored
