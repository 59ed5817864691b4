"""Exact stage: a chunk's score is that of its best key, `select.Selector`'s "exact" scorer.

    score = max over queries, the group's heads and the chunk's keys of rotated q . rotated k * D^-0.5

Keys are the rows of the product and queries its columns: a decode step has g columns (padded to 8), a block of a prompt
T/average * g. A program scores every `splits`-th tile of keys of one row and key/value head; it rotates and averages
its queries itself. FP8 keys are multiplied as float16, which holds them exactly at one conversion instruction for two
of them (bfloat16 takes four); scales and D^-0.5 follow the maximum.

Keys at or past the limit are replaced by the one before it, which changes no maximum: loads need no mask, and what is
undefined behind a sequence's end is never read.
"""

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from unabridged.engine.attention.config import SelectionRope
from unabridged.engine.attention.kernels.layout import PAGE, Bank, Kept, Rows, Span
from unabridged.engine.attention.kernels.numbers import INTERPRETED, dot_type
from unabridged.engine.attention.kernels.rope import NEAR, RopeTables
from unabridged.engine.attention.kernels.score_exact_kernel import score_chunks
from unabridged.models.kernels.launch import Launch, runs

# Programs that a launch should have at least: what fits on a card at once, twelve to each of 128 multiprocessors. Loads
# of keys wait for those of the table before them; only other programs hide that.


def plan_score_exact(
    q: Tensor,
    rows: Rows,
    bank: Bank,
    candidates: Span | Kept,
    chunk: int,
    style: SelectionRope,
    stream: int,
    rope: RopeTables,
    scores: Tensor,
    average: int = 1,
) -> Launch:
    """Write the logits of all candidate chunks to `scores` `[R, G, C]` float32; -inf for those that do not exist.

    q `[R, T, H, D]`. `average`: so many neighbouring queries, rotated, count as their mean. Where lists name longer
    chunks than `chunk`, C is a multiple of their width K and each listed chunk is scored in C / K parts. Raises
    ValueError for shapes that do not fit.
    """
    tokens, heads, dim = q.shape[1:]
    if tokens % average or heads % bank.heads:
        raise ValueError(f"{tokens} queries of {heads} heads: means of {average}, {bank.heads} key/value heads")
    group = heads // bank.heads
    columns = tokens // average * group
    chunks = scores.shape[2]
    kept = candidates if isinstance(candidates, Kept) else None
    width = kept.starts.shape[2] if kept else chunks
    if chunks % width:
        raise ValueError(f"scores of {chunks} chunks for lists of {width}")
    turned = style not in ("relative", "infllm")
    tile = _tile(columns, dim, turned, kept is not None, bank.k.element_size())
    tiles = triton.cdiv(chunks, max(1, tile.block // chunk))
    programs = rows.count * bank.heads
    splits = max(1, min(tiles, triton.cdiv(tile.programs, programs)))
    return Launch(
        score_chunks,
        (programs * splits,),
        {
            "q": q,
            "sequence": rows.sequence,
            "first": rows.first,
            "limits": rows.limits,
            "divisors": rows.divisors,
            "k": bank.k,
            "k_table": bank.k_table,
            "k_scale": bank.k_scale,
            "starts": kept.starts if kept else rows.limits,
            "count": kept.count if kept else rows.limits,
            "near": rope.near,
            "far": rope.far,
            "scores": scores,
            "rows": rows.count,
            "splits": splits,
            "chunks": chunks,
            "pages": bank.k_table.shape[2],
            "width": width,
            "span_start": candidates.start if isinstance(candidates, Span) else 0,
        },
        {
            "T": tokens,
            "GROUP": group,
            "G": bank.heads,
            "D": dim,
            "F": min(64 if turned else 128, triton.next_power_of_2(dim // 2)),
            "L": chunk,
            "PAGE": PAGE,
            "LISTS": kept.starts.shape[1] if kept else 0,
            "PARTS": chunks // width,
            "STYLE": style,
            "STREAM": stream,
            "WIDE": rope.far.shape[0] > 1 and (turned or stream + 1 >= NEAR),
            "AVERAGE": average,
            "COLUMNS": columns,
            "N": tile.columns,
            "BLOCK": tile.block,
            "DOT": _dot_type(bank.k.dtype),
        },
        warps=tile.warps,
        stages=tile.stages,
    )


score_exact = runs(plan_score_exact)


@dataclass(frozen=True)
class _Tile:
    """Keys and query columns of one product, warps, depth of the pipeline; programs that keep a large card busy."""

    block: int
    columns: int
    warps: int
    stages: int
    programs: int = 2048


def _tile(columns: int, dim: int, turned: bool, listed: bool, key_bytes: int) -> _Tile:
    """Measured on an H200, but for rotated keys (docs/log.md)."""
    padded = max(8, triton.next_power_of_2(columns))
    if turned:
        # Angles fill the registers; keeping several tiles' in shared memory would exceed a small card's.
        padded = min(padded, 64 if dim <= 128 else 8)
        return _Tile(64 if padded > 16 else 32, padded, 8 if padded > 16 else 4, 1)
    padded = min(padded, 128 if dim <= 128 else 32)
    if dim > 128:
        return _Tile(64, padded, 4, 4)
    if padded > 16:
        return _Tile(128 if key_bytes == 1 else 64, padded, 4, 3, 8192)
    return _Tile(32, padded, 2, 3) if listed else _Tile(128, padded, 4, 5)


def _dot_type(keys: torch.dtype) -> tl.dtype:
    return tl.float16 if keys == torch.float8_e4m3fn and not INTERPRETED else dot_type(keys)
