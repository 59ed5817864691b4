"""Products of a decode step's rows with the int4 weights of Llama 3.1 8B, and of SmolLM2."""

import torch
from tests.kernels import meta
from tests.kernels.made_w4 import meta_w4
from torch import Tensor

from unabridged.models.kernels.gemv import Tiling, plan_gated, plan_parts, plan_whole, splits
from unabridged.models.kernels.launch import Launch


def _x(tokens: int, columns: int) -> Tensor:
    return meta.empty(tokens, columns, dtype=torch.float16)


def _whole(rows: int, columns: int, group: int, tokens: int) -> Launch:
    out = meta.empty(tokens, rows, dtype=torch.float16)
    return plan_whole(_x(tokens, columns), meta_w4(rows, columns, group), None, out)


def _parts(rows: int, columns: int, group: int, tokens: int) -> Launch:
    w = meta_w4(rows, columns, group)
    return plan_parts(_x(tokens, columns), w, None, meta.empty(splits(w), tokens, rows))


def _gated(rows: int, columns: int, group: int, tokens: int, tiling: Tiling | None = None) -> Launch:
    out = meta.empty(tokens, rows // 2, dtype=torch.float16)
    return plan_gated(_x(tokens, columns), meta_w4(rows, columns, group), "silu", out, tiling)


def plans() -> dict[str, Launch]:
    """What every run compiles."""
    return {"8b-gated-1": _gated(28672, 4096, 128, 1), "8b-down-16": _parts(4096, 14336, 128, 16)}


def slow_plans() -> dict[str, Launch]:
    """The rest."""
    return {
        "8b-gated-8": _gated(28672, 4096, 128, 8),
        "8b-gated-early@90": _gated(28672, 4096, 128, 1, Tiling(4, ptx=True, overlap=True)),
        "8b-gated-16": _gated(28672, 4096, 128, 16),
        "8b-down-1": _parts(4096, 14336, 128, 1),
        "8b-down-8": _parts(4096, 14336, 128, 8),
        "8b-output-1": _parts(4096, 4096, 128, 1),
        "8b-qkv-1": _whole(6144, 4096, 128, 1),
        "8b-qkv-16": _whole(6144, 4096, 128, 16),
        "smollm2-qkv-2": _whole(960, 576, 64, 2),
        "smollm2-down-16": _parts(576, 1536, 64, 16),
        "32-gated-4": _gated(1536, 576, 32, 4),
    }
