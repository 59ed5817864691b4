"""Exact scoring: the 8B model's decode step and prompt blocks over lists and spans; other heads, styles and types."""

import torch
from tests.kernels import meta
from tests.kernels.made import FP8, Shape

from unabridged.engine.attention.config import SelectionRope
from unabridged.engine.attention.kernels.layout import Span
from unabridged.engine.attention.kernels.score_exact import plan_score_exact
from unabridged.models.kernels.launch import Launch


def _plan(
    shape: Shape,
    tokens: int = 1,
    average: int = 1,
    style: SelectionRope = "relative",
    dtype: torch.dtype = FP8,
    chunk: int = 16,
    span: bool = False,
) -> Launch:
    count = 1 if tokens == 1 else 512
    candidates = Span(256, meta.CONTEXT // chunk) if span else meta.kept(count, shape.kv_heads, 2048)
    scores = meta.empty(count, shape.kv_heads, candidates.chunks if isinstance(candidates, Span) else 2048)
    q, bank = meta.queries(count, tokens, shape), meta.bank(shape, dtype)
    return plan_score_exact(
        q, meta.rows(count), bank, candidates, chunk, style, 1024, meta.rope(shape), scores, average
    )


def plans() -> dict[str, Launch]:
    """What every run compiles."""
    return {
        "8b-decode": _plan(meta.LLAMA_8B),
        "8b-decode-span": _plan(meta.LLAMA_8B, span=True),
        "8b-prefill": _plan(meta.LLAMA_8B, 64, 4),
    }


def slow_plans() -> dict[str, Launch]:
    """The rest."""
    bf16 = torch.bfloat16
    return {
        "8b-decode-bf16": _plan(meta.LLAMA_8B, dtype=bf16),
        "8b-decode-true": _plan(meta.LLAMA_8B, style="true"),
        "8b-decode-extend-bf16": _plan(meta.LLAMA_8B, style="dynamic-extend", dtype=bf16, span=True),
        "8b-prefill-bf16": _plan(meta.LLAMA_8B, 64, 4, dtype=bf16),
        "8b-prefill-each": _plan(meta.LLAMA_8B, 64),
        "8b-prefill-each-bf16": _plan(meta.LLAMA_8B, 64, dtype=bf16),
        "8b-prefill-true": _plan(meta.LLAMA_8B, 64, 4, "true"),
        "8b-prefill-indexed-8": _plan(meta.LLAMA_8B, 64, 1, "chunk-indexed", chunk=8),
        "8b-prefill-indexed-256": _plan(meta.LLAMA_8B, 64, 1, "chunk-indexed", chunk=256, span=True),
        "smollm2-decode": _plan(meta.SMOLLM2, dtype=bf16),
        "smollm2-prefill": _plan(meta.SMOLLM2, 64, 4),
        "96-prefill": _plan(Shape(40, 8, 96), 64, 4),
        "96-decode-true": _plan(Shape(40, 8, 96), style="true"),
        "256-decode": _plan(meta.WIDE),
        "256-prefill": _plan(meta.WIDE, 64, 4),
        "256-prefill-bf16": _plan(meta.WIDE, 64, 1, dtype=bf16),
        "256-decode-true": _plan(meta.WIDE, style="true"),
    }
