"""A step on: positions, limits and divisors as the plain functions compute them, only where they are due."""

import torch

from unabridged.engine.attention.config import choose
from unabridged.engine.attention.kernels.advance import advance
from unabridged.engine.attention.reference import limits_of
from unabridged.engine.attention.rope import extend_scale
from unabridged.engine.events import AttentionChoice


def test_what_is_due_follows_the_positions(device: str) -> None:
    config = choose(AttentionChoice(preset="8k"), 8192)
    positions = [0, 63, 575, 8191, 8192, 100_003, (1 << 24) + 7]
    before = torch.tensor(positions, dtype=torch.int32, device=device) - 1
    first = before.clone()
    due, stages = (torch.tensor(x, dtype=torch.int32, device=device) for x in ([0, 1, 2], [2, 2, 2]))
    limits, left, divisors = (
        torch.full((3, len(positions)), -7 - i, dtype=torch.int32, device=device) for i in range(3)
    )
    advance(first, limits, left, divisors, due, stages, config)
    assert first.tolist() == positions
    expected = limits_of(torch.tensor(positions), config.block_q, config.stream).tolist()
    untouched = [-7] * len(positions)
    assert limits.tolist() == [expected, untouched, untouched]
    assert left[0].tolist() == untouched
    scales = [extend_scale(at + 1, config.window, config.stream + config.block_q) for at in positions]
    assert divisors.tolist() == [scales, scales, [-9] * len(positions)]
