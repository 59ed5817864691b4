"""A step of 32 layers, one sequence and five."""

import torch
from tests.kernels.meta import empty

from unabridged.engine.attention.config import choose
from unabridged.engine.attention.kernels.advance import plan_advance
from unabridged.engine.events import AttentionChoice
from unabridged.models.kernels.launch import Launch


def plans() -> dict[str, Launch]:
    """See compile_plans."""
    return {f"{sequences} sequences": _plan(sequences) for sequences in (1, 5)}


def _plan(sequences: int) -> Launch:
    config = choose(AttentionChoice(preset="3k"), 131072)
    first, due, stages = (empty(n, dtype=torch.int32) for n in (sequences, 32, 32))
    limits, left, divisors = (empty(32, sequences, dtype=torch.int32) for _ in range(3))
    return plan_advance(first, limits, left, divisors, due, stages, config)
