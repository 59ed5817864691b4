"""The index: encoding what left the stream and a prompt; scoring for one token and for blocks, of three models."""

import torch
from tests.kernels import made, meta
from tests.kernels.made import Shape

from unabridged.engine.attention.index_basis import Basis, width_of
from unabridged.engine.attention.kernels.index import Index, plan_encode
from unabridged.engine.attention.kernels.index_columns import Columns
from unabridged.engine.attention.kernels.index_gather import plan_gather, room
from unabridged.engine.attention.kernels.layout import PAGE, Span
from unabridged.engine.attention.kernels.score_index import on_hopper, plan_score_index
from unabridged.models.kernels.launch import Launch


def _index(shape: Shape) -> Index:
    width = width_of(shape.dim)
    numbers = meta.empty(shape.kv_heads, shape.dim, 4 * width)
    basis = Basis(meta.empty(shape.kv_heads, shape.dim), numbers, numbers, meta.empty(shape.kv_heads, 4 * width))
    table = meta.empty(1, meta.CONTEXT // PAGE, dtype=torch.int32)
    return Index.empty(meta.CONTEXT // PAGE, table, basis)


def _encode(shape: Shape) -> Launch:
    counter = meta.empty(1, dtype=torch.int32)
    return plan_encode(meta.bank(shape), _index(shape), counter, counter, 96)


def _score(shape: Shape, tokens: int, average: int = 1, paged: bool = False) -> tuple[Launch, Launch]:
    """Prompts read codes in order."""
    index, rows = _index(shape), 1 if tokens == 1 else 512
    distinct = tokens // average * shape.heads // shape.kv_heads
    columns = Columns.empty(rows, shape.kv_heads, distinct, index.width, "meta")
    span = Span(256, (meta.CONTEXT - 256) // 16)
    q, rope = meta.queries(rows, tokens, shape), meta.rope(shape)
    scores = meta.empty(rows, shape.kv_heads, span.chunks)
    codes = index if tokens == 1 or paged else room(index)
    return plan_score_index(
        q, meta.rows(rows), codes, span, 16, "relative", 1024, rope, scores, columns, average, tokens > 1
    )


def plans() -> dict[str, Launch]:
    """What every run compiles."""
    return {
        "encode-8b": _encode(meta.LLAMA_8B),
        "8b": _score(meta.LLAMA_8B, 1)[1],
        "many-8b": _score(meta.LLAMA_8B, 64, 8)[1],
        "gather-8b": plan_gather(_index(meta.LLAMA_8B), 0, meta.CONTEXT, room(_index(meta.LLAMA_8B))),
    }


def slow_plans() -> dict[str, Launch]:
    """Making columns, other numbers of columns, other head sizes."""
    found = {"columns-8b": _score(meta.LLAMA_8B, 1)[0], "blocks-8b": _score(meta.LLAMA_8B, 64, 4)[0]}
    found |= {f"many-8b-{average}": _score(meta.LLAMA_8B, 64, average)[1] for average in (1, 2, 4, 16)}
    found |= {f"many-8b-{average}@90": on_hopper(_score(meta.LLAMA_8B, 64, average)[1]) for average in (1, 2, 4, 8, 16)}
    found["paged-8b"] = _score(meta.LLAMA_8B, 64, 4, paged=True)[1]
    for shape in (meta.SMOLLM2, made.Shape(32, 8, 96), meta.WIDE):
        found[f"encode-{shape.dim}"] = _encode(shape)
        found[f"few-{shape.dim}"] = _score(shape, 1)[1]
        found[f"blocks-{shape.dim}"], found[f"many-{shape.dim}"] = _score(shape, 64, 4)
        found[f"many-{shape.dim}-1"] = _score(shape, 64, 1)[1]
        found |= {f"many-{shape.dim}-{average}@90": on_hopper(_score(shape, 64, average)[1]) for average in (1, 4)}
    return found
