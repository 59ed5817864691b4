"""A first stage over the index: a guess of every key's score, and the best of each chunk. See index.py for the format.

Styles "relative" and "infllm" only: keys are not rotated there, queries stand at one position. Two launches: columns
(index_columns.py), a small kernel that makes int8 columns of the queries, and scoring (score_index_few.py and
score_index_many.py), which multiplies them with the planes of every key. A column's best is found on integers, one
multiplication by the key's scale follows. Unpacking a key costs as much as multiplying it with tens of columns:
neighbouring blocks share it.
"""

from dataclasses import replace

import torch
import triton
from torch import Tensor

from unabridged.engine.attention.config import SelectionRope
from unabridged.engine.attention.kernels.index import Codes, Index
from unabridged.engine.attention.kernels.index_columns import Columns, plan_columns
from unabridged.engine.attention.kernels.layout import PAGE, Rows, Span
from unabridged.engine.attention.kernels.numbers import INTERPRETED
from unabridged.engine.attention.kernels.rope import RopeTables
from unabridged.engine.attention.kernels.score_index_few import score_few
from unabridged.engine.attention.kernels.score_index_many import score_many
from unabridged.models.kernels.launch import Argument, Launch, runs

_POSITION = {"relative": 1, "infllm": 0}
# Keys of a tile, warps, stages of the pipeline where columns are few (decoding); at most so many bytes of codes.
_FEW = (1024, 4, 3)
_FEW_BYTES = 16384
# Keys of a tile and warps by the columns that a program multiplies it with.
_MANY = {32: (256, 4), 64: (128, 4), 128: (64, 4), 256: (128, 16)}
_STAGES = 3
# Registers that three programs of 4 warps, or two of 8, leave a thread of a multiprocessor.
_REGISTERS = {4: 168, 8: 128}
# Programs that share the tiles of all blocks and heads, for any card.
_PROGRAMS = 132 * 4


def plan_score_index(
    q: Tensor,
    rows: Rows,
    index: Codes,
    span: Span,
    chunk: int,
    style: SelectionRope,
    stream: int,
    rope: RopeTables,
    scores: Tensor,
    columns: Columns,
    average: int = 1,
    together: bool = False,
) -> tuple[Launch, Launch]:
    """Fill `scores` `[R, G, C]` float32: each chunk's best guess of q . k, times D^-0.5, over the block's
    queries (`average` neighbours averaged after rotation), the group's heads and the chunk's keys; -inf for chunks at
    or past a limit.

    q `[R, T, H, D]` un-rotated; style "relative" or "infllm"; `columns` is room for T / average * H / G columns. The
    span begins at a page; a chunk is a multiple of 32 / W keys, 512 at most. ValueError otherwise. `together`: all
    blocks are of one sequence (undefined scores otherwise), and limits of neighbours lie close (else it is slow).
    Positions past a sequence's last page count as past its limit. Codes without a table are of all rows' sequence.
    """
    if style not in _POSITION:
        raise ValueError(f"the index cannot score with selection RoPE {style}: its keys are not rotated")
    if span.start % PAGE:
        raise ValueError(f"the index is read in pages: chunks begin at {span.start}, a multiple of {PAGE} is wanted")
    position = stream + _POSITION[style]
    few = columns.coefficients.shape[2] <= 8
    scoring = (
        _plan_few(rows, index, span, chunk, scores, columns)
        if few
        else _plan_many(rows, index, span, chunk, scores, columns, together)
    )
    return plan_columns(q, index, position, rope, columns, average), scoring


score_index = runs(plan_score_index)


def _plan_few(rows: Rows, index: Codes, span: Span, chunk: int, scores: Tensor, columns: Columns) -> Launch:
    count, kv_heads = columns.coefficients.shape[:2]
    most, warps, stages = _FEW
    keys = min(most, _FEW_BYTES // index.width)
    fold = max(1, 32 // index.width)
    if chunk % fold or chunk > keys:
        raise ValueError(f"chunks of {chunk} keys: {fold} to {keys} are possible")
    constants = {"FOLD": fold, "NEAR": min(chunk, 4 * fold), **_constants(index, chunk, columns, keys, stages)}
    grid = _splits(span, chunk, keys, count * kv_heads), kv_heads, count
    return Launch(score_few, grid, _arguments(rows, index, span, scores, columns), constants, warps, stages)


def _plan_many(
    rows: Rows, index: Codes, span: Span, chunk: int, scores: Tensor, columns: Columns, together: bool
) -> Launch:
    count, kv_heads, padded, _ = columns.coefficients.shape
    wide = index.width > 16
    # Sums, and on some cards the columns, stay in registers.
    most = (64 if wide else 128) // padded
    shared = max(1, min(8, most, triton.next_power_of_2(count))) if together else 1
    keys, warps = _MANY[min(256, max(32, shared * padded))]
    if padded > 256:
        keys //= padded // 256
    elif padded == 128 and wide:
        warps *= 2
    keys = max(keys, chunk)
    constants = {"ROWS": shared, "WHOLE": False, **_constants(index, chunk, columns, keys, _STAGES)}
    groups = triton.cdiv(count, shared)
    grid = _splits(span, chunk, keys, groups * kv_heads), kv_heads, groups
    arguments = {**_arguments(rows, index, span, scores, columns), "count": count}
    launch = Launch(score_many, grid, arguments, constants, warps, _STAGES)
    return on_hopper(launch) if _has_wgmma() else launch


def on_hopper(launch: Launch) -> Launch:
    """A launch for many columns as cards with wgmma run it: of 256, two programs on a multiprocessor, not one."""
    constants, warps = {**launch.constants, "WHOLE": True}, launch.warps
    if constants["M"] == 256 and constants["W"] <= 16 and constants["L"] <= 64:
        constants["KEYS"], warps = 64, 8
    return replace(launch, constants=constants, warps=warps, registers=_REGISTERS.get(warps))


def _arguments(rows: Rows, index: Codes, span: Span, scores: Tensor, columns: Columns) -> dict[str, Argument]:
    return {
        "codes": index.codes,
        "key_scales": index.scales,
        "table": index.table if isinstance(index, Index) else None,
        "coefficients": columns.coefficients,
        "offsets": columns.offsets,
        "steps": columns.steps,
        "tops": columns.tops,
        "sequence": rows.sequence,
        "limits": rows.limits,
        "start": span.start,
        "chunks": span.chunks,
        "room": index.codes.shape[1],
        "pages": index.pages,
        "scores": scores,
    }


def _constants(index: Codes, chunk: int, columns: Columns, keys: int, stages: int) -> dict[str, int]:
    _, kv_heads, padded, _ = columns.coefficients.shape
    return {
        "G": kv_heads,
        "W": index.width,
        "M": padded,
        "L": chunk,
        "KEYS": keys,
        "PAGE": PAGE,
        "STAGES": stages,
        "PLAIN": INTERPRETED,
    }


def _splits(span: Span, chunk: int, keys: int, lists: int) -> int:
    """Programs that share the tiles of each of `lists` lists of scores."""
    return min(-(-span.chunks * chunk // keys), -(-_PROGRAMS // lists))


def _has_wgmma() -> bool:
    return torch.cuda.is_available() and torch.cuda.get_device_capability()[0] == 9
