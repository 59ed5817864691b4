"""The residual stream of Llama 3.1 8B: a decode step's rows and a prompt's; other widths."""

import torch
from tests.kernels import meta

from unabridged.models.kernels.add_norm import plan_add, plan_add_norm
from unabridged.models.kernels.launch import Launch

HALF, FULL = torch.float16, torch.float32


def _norm(rows: int, hidden: int, count: int, part: torch.dtype = FULL, model: torch.dtype = HALF) -> Launch:
    x, parts = meta.empty(rows, hidden), meta.empty(count, rows, hidden, dtype=part)
    out = meta.empty(rows, hidden, dtype=model)
    return plan_add_norm(x, parts, x, meta.empty(hidden, dtype=model), 1e-5, out)


def _early(rows: int, hidden: int, count: int) -> Launch:
    x, parts = meta.empty(rows, hidden), meta.empty(count, rows, hidden)
    out, weight = (meta.empty(*shape, dtype=HALF) for shape in ((rows, hidden), (hidden,)))
    return plan_add_norm(x, parts, x, weight, 1e-5, out, overlap=True)


def _first(rows: int, hidden: int) -> Launch:
    x = meta.empty(rows, hidden, dtype=HALF)
    return plan_add_norm(x, None, None, meta.empty(hidden, dtype=HALF), 1e-5, x)


def _add(rows: int, hidden: int, count: int, part: torch.dtype) -> Launch:
    x, parts = meta.empty(rows, hidden), meta.empty(count, rows, hidden, dtype=part)
    return plan_add(x, parts, meta.empty(rows, hidden, dtype=HALF))


def plans() -> dict[str, Launch]:
    """What every run compiles."""
    return {"8b": _norm(1, 4096, 8), "8b-16": _norm(8, 4096, 16), "8b-prompt": _norm(32768, 4096, 1, HALF)}


def slow_plans() -> dict[str, Launch]:
    """The rest."""
    return {
        "8b-early@90": _early(1, 4096, 8),
        "8b-first": _first(1, 4096),
        "8b-value": _add(1, 4096, 4, FULL),
        "8b-prompt-value": _add(32768, 4096, 1, HALF),
        "576": _norm(3, 576, 4, FULL, torch.bfloat16),
        "8192": _norm(1, 8192, 16),
        "8192-prompt": _norm(32768, 8192, 1, HALF),
    }
