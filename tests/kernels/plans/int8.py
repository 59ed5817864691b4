"""The LM head of Llama 3.1 8B in int8 and as it is, for one token and several; rows of its embedding."""

import torch
from tests.kernels import meta

from unabridged.models.kernels.int8 import plan_lookup, plan_multiply
from unabridged.models.kernels.launch import Launch

VOCABULARY, HIDDEN = 128256, 4096


def _head(tokens: int, dtype: torch.dtype = torch.float16, rows: int = VOCABULARY, columns: int = HIDDEN) -> Launch:
    x, out = (meta.empty(tokens, width, dtype=dtype) for width in (columns, rows))
    return plan_multiply(x, meta.empty(rows, columns, dtype=torch.int8), meta.empty(rows), out)


def _wide(tokens: int, dtype: torch.dtype = torch.float16) -> Launch:
    x, out = (meta.empty(tokens, width, dtype=dtype) for width in (HIDDEN, VOCABULARY))
    return plan_multiply(x, meta.empty(VOCABULARY, HIDDEN, dtype=dtype), None, out)


def _rows(tokens: int) -> Launch:
    ids = meta.empty(tokens, dtype=torch.int64)
    values = meta.empty(VOCABULARY, HIDDEN, dtype=torch.int8)
    return plan_lookup(ids, values, meta.empty(VOCABULARY), meta.empty(tokens, HIDDEN, dtype=torch.float16))


def plans() -> dict[str, Launch]:
    """What every run compiles."""
    return {"8b-head": _head(1), "8b-head-16": _head(16), "8b-wide": _wide(1)}


def slow_plans() -> dict[str, Launch]:
    """The rest."""
    return {
        "8b-head-bf16": _head(8, torch.bfloat16),
        "8b-wide-16": _wide(16),
        "8b-wide-float32": _wide(8, torch.float32),
        "576": _head(3, torch.float16, 49152, 576),
        "8b-rows": _rows(8),
    }
