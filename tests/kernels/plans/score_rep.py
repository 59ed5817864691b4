"""Launches of score_rep: the paper's three stages, decoding and prefilling."""

import torch
from tests.kernels import meta
from tests.kernels.made import FP8, Shape

from unabridged.engine.attention.config import SelectionRope
from unabridged.engine.attention.kernels.layout import Span
from unabridged.engine.attention.kernels.score_rep import plan_score_rep
from unabridged.models.kernels.launch import Launch


def _first(
    tokens: int, shape: Shape = meta.LLAMA_8B, style: SelectionRope = "relative", dtype: torch.dtype = FP8
) -> Launch:
    chunks = meta.CONTEXT // 256
    scores = meta.empty(1, shape.kv_heads, chunks)
    q, bank = meta.queries(1, tokens, shape), meta.bank(shape, dtype)
    return plan_score_rep(q, meta.rows(1), bank, Span(256, chunks), 256, style, 1024, meta.rope(shape), scores)


def _third(tokens: int, shape: Shape = meta.LLAMA_8B, dtype: torch.dtype = FP8) -> Launch:
    scores = meta.empty(1, shape.kv_heads, 1024)
    q, bank, kept = meta.queries(1, tokens, shape), meta.bank(shape, dtype), meta.kept(1, 1, 256)
    return plan_score_rep(q, meta.rows(1), bank, kept, 8, "relative", 1024, meta.rope(shape), scores, unit=32)


def plans() -> dict[str, Launch]:
    """The 8B shape with the late layers' style; a wide head."""
    return {
        "decode": _first(1),
        "prefill": _first(64),
        "prefill, 256 dimensions": _first(64, meta.WIDE),
    }


def slow_plans() -> dict[str, Launch]:
    """Other styles, types and dimensions."""
    return {
        "decode, third stage": _third(1),
        "decode, chunk-indexed": _first(1, style="chunk-indexed"),
        "decode, dynamic extend": _first(1, style="dynamic-extend"),
        "decode, bf16": _first(1, dtype=torch.bfloat16),
        "decode, 256 dimensions": _first(1, meta.WIDE),
        "decode, 256 dimensions turned by positions": _first(1, meta.WIDE, "dynamic-extend"),
        "decode, odd group": _first(1, meta.SMOLLM2),
        "decode, 96 dimensions": _first(1, Shape(24, 8, 96)),
        "prefill, chunk-indexed": _first(64, style="chunk-indexed"),
        "prefill, dynamic extend": _first(64, style="dynamic-extend"),
        "prefill, bf16": _first(64, dtype=torch.bfloat16),
        "prefill, 256 dimensions turned": _first(64, meta.WIDE, "chunk-indexed"),
        "prefill, 96 dimensions": _first(64, Shape(24, 8, 96)),
        "prefill, third stage": _third(64),
        "prefill, third stage, bf16": _third(64, dtype=torch.bfloat16),
        "prefill, 256 dimensions turned by positions": _first(64, meta.WIDE, "dynamic-extend"),
        "prefill, 256 dimensions, bf16": _first(64, meta.WIDE, dtype=torch.bfloat16),
        "prefill, 64 dimensions": _first(64, meta.SMOLLM2),
    }
