"""Launches of pages: a layer's past into staging, all layers into banks, a step's newest tokens."""

import torch
from tests.kernels import meta
from tests.kernels.made import FP8, Shape

from unabridged.engine.attention.kernels.layout import PAGE
from unabridged.engine.gpu.kernels.pages import Paged, plan_copy_pages, plan_store_newest
from unabridged.models.kernels.launch import Launch


def _paged(layers: int, shape: Shape, dtype: torch.dtype, tables: int = 1) -> Paged:
    pages = meta.CONTEXT // PAGE
    k, v = (meta.empty(layers, pages * shape.kv_heads, PAGE, shape.dim, dtype=dtype) for _ in range(2))
    table = meta.empty(tables, 2, shape.kv_heads, pages, dtype=torch.int32)
    return Paged(k, v, table, table)


def _copy(shape: Shape, dtype: torch.dtype) -> Launch:
    source, target = _paged(32, shape, dtype), _paged(2, shape, dtype)
    return plan_copy_pages(source, target, 1, 0, 0, 5000, range(7, 8), target_layer=1)[0]


def _newest(shape: Shape, dtype: torch.dtype) -> Launch:
    first = meta.empty(2, dtype=torch.int32)
    return plan_store_newest(_paged(32, shape, dtype, tables=32), _paged(32, shape, dtype), first)


def plans() -> dict[str, Launch]:
    """The 8B shape."""
    return {"copy": _copy(meta.LLAMA_8B, FP8), "newest": _newest(meta.LLAMA_8B, FP8)}


def slow_plans() -> dict[str, Launch]:
    """Other heads and types."""
    return {
        "copy-64": _copy(meta.SMOLLM2, torch.float16),
        "copy-80": _copy(Shape(32, 8, 80), FP8),
        "copy-256": _copy(meta.WIDE, torch.float32),
        "newest-64": _newest(meta.SMOLLM2, torch.float16),
        "newest-256": _newest(meta.WIDE, torch.float32),
    }
