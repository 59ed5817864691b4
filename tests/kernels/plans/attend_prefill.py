"""Prefill attention: the 8B model's blocks in FP8 and bfloat16; other heads, groups, blocks and styles."""

import torch
from tests.kernels import meta
from tests.kernels.made import FP8, Shape
from torch import dtype

from unabridged.engine.attention.config import AttentionRope
from unabridged.engine.attention.kernels.attend_prefill import plan_attend_prefill, tile_for
from unabridged.engine.attention.kernels.dense import plan_gather, plan_rotate
from unabridged.models.kernels.launch import Launch

ADA, HOPPER = (8, 9), (9, 0)
FAR = ("true", "dynamic-extend")


def _plan(
    shape: Shape, style: AttentionRope = "streaming", kind: dtype = FP8, tokens: int = 64, card: tuple[int, int] = ADA
) -> Launch:
    q = meta.queries(512, tokens, shape)
    kept = meta.kept(512, shape.kv_heads, 128)
    rows, bank, rope = meta.rows(512), meta.bank(shape, kind), meta.rope(shape)
    lse = meta.empty(512, tokens, shape.heads)
    own = tile_for(tokens * shape.heads // shape.kv_heads, shape.dim, style in FAR, kind == FP8, card)
    return plan_attend_prefill(q, rows, bank, kept, 16, 256, 1024, style, rope, q, lse, own)


def plans() -> dict[str, Launch]:
    """What every run compiles."""
    return {"8b": _plan(meta.LLAMA_8B), "8b@90": _plan(meta.LLAMA_8B, card=HOPPER)}


def slow_plans() -> dict[str, Launch]:
    """The rest."""
    k = meta.empty(8, 32768, 128, dtype=torch.bfloat16)
    q = meta.queries(1, 32768, meta.LLAMA_8B)[0]
    rope = meta.rope(meta.LLAMA_8B)
    return {
        "8b-bf16": _plan(meta.LLAMA_8B, kind=torch.bfloat16),
        "8b-true": _plan(meta.LLAMA_8B, "true"),
        "8b-extend-bf16": _plan(meta.LLAMA_8B, "dynamic-extend", torch.bfloat16),
        "8b-infllm": _plan(meta.LLAMA_8B, "infllm"),
        "8b-true@90": _plan(meta.LLAMA_8B, "true", card=HOPPER),
        "8b-extend@90": _plan(meta.LLAMA_8B, "dynamic-extend", card=HOPPER),
        "8b-bf16@90": _plan(meta.LLAMA_8B, kind=torch.bfloat16, card=HOPPER),
        "8b-16@90": _plan(meta.LLAMA_8B, tokens=16, card=HOPPER),
        "smollm2@90": _plan(meta.SMOLLM2, card=HOPPER),
        "96@90": _plan(Shape(32, 8, 96), card=HOPPER),
        "256@90": _plan(meta.WIDE, card=HOPPER),
        "8b-16": _plan(meta.LLAMA_8B, tokens=16),
        "smollm2": _plan(meta.SMOLLM2, kind=torch.bfloat16),
        "96": _plan(Shape(32, 8, 96)),
        "256": _plan(meta.WIDE),
        "256-true-bf16": _plan(meta.WIDE, "true", torch.bfloat16),
        "gather": plan_gather(meta.bank(meta.LLAMA_8B), 0, rope, k, k),
        "rotate": plan_rotate(q, 0, rope, q),
    }
