"""Chunk scores by tournament: the paper's SelectRep, whole in one program.

    first, last = 0, tokens of the chunk - 1;  log2(chunk) times: middle = (first + last + 1) // 2;
    if score(middle, right branch) > score(first, left branch): first = middle, else last = middle - 1
    a query head's score of a chunk is score(first, left branch), score = max over the row's queries of q . k;
    a chunk's score is the maximum over the query heads that share its keys

One kernel serves every stage. Its candidates are a span or the chunks that the stage before kept, `unit` tokens each:
chunk c is part c % (unit / chunk) of list entry c // (unit / chunk).
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from unabridged.engine.attention.config import SelectionRope
from unabridged.engine.attention.kernels.layout import Bank, Kept, Rows, Span
from unabridged.engine.attention.kernels.numbers import INTERPRETED, dot_type
from unabridged.engine.attention.kernels.rope import NEAR, RopeTables
from unabridged.engine.attention.kernels.score_rep_kernel import many_queries, one_query
from unabridged.models.kernels.launch import Argument, Launch, runs


def plan_score_rep(
    q: Tensor,
    rows: Rows,
    bank: Bank,
    candidates: Span | Kept,
    chunk: int,
    style: SelectionRope,
    stream: int,
    rope: RopeTables,
    scores: Tensor,
    unit: int | None = None,
) -> Launch:
    """Score the candidates' chunks of `chunk` tokens, a power of two: fills `scores` `[R, G, C]` float32 for the
    queries q `[R, T, H, D]`.

    unit: tokens of a chunk in a Kept list, a multiple of `chunk` (None: chunk); C is K * unit / chunk, or the span's
    chunks. -inf for chunks without tokens. Positions must have entries in `rope`.
    """
    _, queries, heads, dim = q.shape
    group = heads // bank.heads
    listed = isinstance(candidates, Kept)
    # A kernel wants a pointer even for what it does not read.
    starts, count, span, lists, room = rows.first, rows.first, 0, 1, 1
    if isinstance(candidates, Kept):
        starts, count = candidates.starts, candidates.count
        _, lists, room = starts.shape
    else:
        span = candidates.start
    arguments: dict[str, Argument] = {
        "q": q, "k": bank.k, "table": bank.k_table, "k_scale": bank.k_scale, "sequence": rows.sequence,
        "first": rows.first, "limits": rows.limits, "divisors": rows.divisors, "starts": starts, "count": count,
        "near": rope.near, "far": rope.far, "scores": scores, "span": span,
        "stream_tokens": stream, "blocks": rows.count, "heads": bank.heads, "pages": bank.k_table.shape[2],
        "lists": lists, "K": room, "C": scores.shape[2],
    }  # fmt: skip
    constants = {
        "GROUP": group, "D": dim, "CHUNK": chunk, "UNIT": unit or chunk, "ROUNDS": chunk.bit_length() - 1,
        "STYLE": style, "LISTED": listed, "WIDE": _wide(style, stream, scores.shape[2], rope),
    }  # fmt: skip
    turned = style in ("dynamic-extend", "true")
    # As many chunks as the compiler can keep in registers while it turns their keys.
    if queries == 1:
        padded = triton.next_power_of_2(group)
        # One warp a program, a thread's tournaments deep rather than wide: twice as fast as four warps on an H200,
        # where few registers are left for turning keys to all but neighbouring places.
        depth, warps = (2, 8) if dim > 128 else (8, 1) if not turned and style != "chunk-indexed" else (4, 4)
        width = max(4 * warps, padded)
        tile = width // padded * depth
        constants |= {"PADDED": padded, "BD": triton.next_power_of_2(dim), "WIDTH": width, "DEPTH": depth}
    else:
        tile, warps = 64 >> (dim > 128) >> turned, 4 if dim <= 128 and not turned else 8
        constants |= {"T": queries, "BT": max(16, triton.next_power_of_2(queries)), "TILE": tile}
        constants |= {"BD": triton.next_power_of_2(dim), "DOT": _product_type(bank.k.dtype, q.dtype)}
    # Rows are neighbours in the grid: blocks of one sequence read the same keys at about the same time.
    grid = (rows.count * triton.cdiv(scores.shape[2], tile), bank.heads)
    kernel = one_query if queries == 1 else many_queries
    # Left alone, the compiler spills a little of large tiles so that two programs fit.
    registers = 255 if queries > 1 and tile > 16 else None
    return Launch(kernel, grid, arguments, constants, warps, stages=1, registers=registers)


score_rep = runs(plan_score_rep)


def _product_type(keys: torch.dtype, queries: torch.dtype) -> tl.dtype:
    """FP8 converts to float16 in half the instructions that bfloat16 takes, and both hold it exactly."""
    return tl.float16 if keys == torch.float8_e4m3fn and not INTERPRETED else dot_type(queries)


def _wide(style: SelectionRope, stream: int, chunks: int, rope: RopeTables) -> bool:
    """Whether rotations reach positions that the near table does not have."""
    if style in ("relative", "infllm"):
        return stream + 1 >= NEAR
    return chunks + stream >= NEAR if style == "chunk-indexed" else rope.far.shape[0] > 1
