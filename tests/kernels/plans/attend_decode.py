"""Decode attention: the 8B model's sparse step in FP8 and bfloat16, with masses, and dense; other heads; styles."""

import torch
from tests.kernels import meta
from tests.kernels.made import FP8, Shape
from torch import dtype

from unabridged.engine.attention.config import AttentionRope
from unabridged.engine.attention.kernels.attend_decode import Cut, Scratch, plan_attend_decode
from unabridged.models.kernels.launch import Launch


def _plan(
    shape: Shape, style: AttentionRope, kind: dtype = FP8, chunks: int = 128, capacity: int = 3456, mass: bool = False
) -> Launch:
    q = meta.queries(1, 1, shape)
    cut = Cut.of(capacity, shape.kv_heads, shape.dim)
    return plan_attend_decode(
        q,
        meta.rows(1),
        meta.bank(shape, kind),
        meta.kept(1, shape.kv_heads, chunks) if chunks else None,
        16,
        256,
        style,
        meta.rope(shape),
        meta.queries(1, 1, shape),
        meta.empty(1, shape.heads),
        Scratch.of(q, shape.kv_heads, cut.splits),
        capacity=capacity,
        mass=meta.empty(1, shape.heads, capacity // 16 + 1) if mass else None,
    )


def plans() -> dict[str, Launch]:
    """What every run compiles."""
    return {
        "8b": _plan(meta.LLAMA_8B, "streaming"),
        "8b-dense": _plan(meta.LLAMA_8B, "true", chunks=0, capacity=131072),
    }


def slow_plans() -> dict[str, Launch]:
    """The rest."""
    return {
        "8b-bf16": _plan(meta.LLAMA_8B, "streaming", torch.bfloat16),
        "8b-mass": _plan(meta.LLAMA_8B, "streaming", mass=True),
        "8b-dense-bf16": _plan(meta.LLAMA_8B, "true", torch.bfloat16, chunks=0, capacity=131072),
        "8b-extend": _plan(meta.LLAMA_8B, "dynamic-extend"),
        "8b-infllm": _plan(meta.LLAMA_8B, "infllm"),
        "smollm2": _plan(meta.SMOLLM2, "streaming", torch.bfloat16, 64, 1664),
        "96": _plan(Shape(32, 8, 96), "streaming"),
        "256": _plan(meta.WIDE, "streaming"),
        "256-dense": _plan(meta.WIDE, "true", torch.bfloat16, chunks=0, capacity=131072),
        "256-extend": _plan(meta.WIDE, "dynamic-extend"),
    }
