"""Launches of tally."""

import torch
from tests.kernels import meta

from unabridged.engine.gpu.kernels.tally import plan_tally
from unabridged.models.kernels.launch import Launch


def plans() -> dict[str, Launch]:
    """The 8B shape, eight rows."""
    counts = meta.empty(2, 2, 32, 8, 8, dtype=torch.int64)
    before, steps = (meta.empty(8, dtype=torch.int64) for _ in range(2))
    return {"tally": plan_tally(counts, before, steps)}


def slow_plans() -> dict[str, Launch]:
    """None."""
    return {}
