"""Bank writes: a decode step's token in FP8 and a prompt's block in bfloat16."""

import torch
from tests.kernels import meta
from tests.kernels.made import FP8, Shape
from torch import dtype

from unabridged.engine.attention.kernels.bank_write import plan_write
from unabridged.models.kernels.launch import Launch


def _plan(shape: Shape, kind: dtype, tokens: int) -> Launch:
    k, v = (meta.empty(1, tokens, shape.kv_heads, shape.dim, dtype=torch.bfloat16) for _ in range(2))
    place = meta.empty(1, dtype=torch.int32)
    return plan_write(k, v, meta.bank(shape, kind), place, place)


def plans() -> dict[str, Launch]:
    """What every run compiles."""
    return {"8b": _plan(meta.LLAMA_8B, FP8, 1), "8b-prompt": _plan(meta.LLAMA_8B, FP8, 32768)}


def slow_plans() -> dict[str, Launch]:
    """The rest."""
    return {
        "8b-prompt-bf16": _plan(meta.LLAMA_8B, torch.bfloat16, 32768),
        "96": _plan(Shape(32, 8, 96), FP8, 64),
        "256": _plan(meta.WIDE, torch.bfloat16, 64),
    }
