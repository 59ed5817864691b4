"""One step on: every sequence's position, and where the streams of the layers that renew begin. One program.

Replaces what `reference.limits_of` and `rope.extend_scale` do on the host, so that a step never asks it.
"""

import triton
import triton.language as tl
from torch import Tensor

from unabridged.engine.attention.config import AttentionConfig
from unabridged.models.kernels.launch import Launch, runs


@triton.jit
def _advance(
    first,
    limits,
    left,
    divisors,
    due,
    stages,
    LAYERS: tl.constexpr,
    SEQUENCES: tl.constexpr,
    BLOCK: tl.constexpr,
    STREAM: tl.constexpr,
    WINDOW: tl.constexpr,
    L: tl.constexpr,
    B: tl.constexpr,
):
    sequence = tl.arange(0, B)
    present = sequence < SEQUENCES
    position = tl.load(first + sequence, mask=present, other=0) + 1
    tl.store(first + sequence, position, mask=present)
    limit = tl.maximum(position // BLOCK * BLOCK - STREAM, 0)
    # Dynamic extend: the smallest divisor that brings what lies before the stream into the window.
    near: tl.constexpr = STREAM + BLOCK
    room: tl.constexpr = max(1, WINDOW - near)
    divisor = tl.maximum((tl.maximum(position + 1 - near, 0) + room - 1) // room, 1)
    layer = tl.arange(0, L)[:, None]
    inside = (layer < LAYERS) & present[None, :]
    renewed = tl.load(due + layer, mask=layer < LAYERS, other=0)
    last = tl.load(stages + layer, mask=layer < LAYERS, other=0)
    at = layer * SEQUENCES + sequence[None, :]
    tl.store(left + at, tl.load(limits + at, mask=inside, other=0), mask=inside & (renewed == 0))
    tl.store(limits + at, tl.broadcast_to(limit[None, :], L, B), mask=inside & (renewed == 0))
    tl.store(divisors + at, tl.broadcast_to(divisor[None, :], L, B), mask=inside & (renewed < last))


def plan_advance(
    first: Tensor,
    limits: Tensor,
    left: Tensor,
    divisors: Tensor,
    due: Tensor,
    stages: Tensor,
    config: AttentionConfig,
) -> Launch:
    """first `[B]` int32, the positions of the newest tokens, grow by one. In layers whose `due` is 0 the limits
    `[layers, B]` follow them, and `left` `[layers, B]` is where they were: the keys from there to the limit have
    left the stream. Where `due` is below `stages` (both `[layers]` int32) the divisors `[layers, B]` follow."""
    layers, sequences = limits.shape
    constants = {
        "LAYERS": layers,
        "SEQUENCES": sequences,
        "BLOCK": config.block_q,
        "STREAM": config.stream,
        "WINDOW": config.window,
        "L": triton.next_power_of_2(layers),
        "B": triton.next_power_of_2(sequences),
    }
    arguments = {"first": first, "limits": limits, "left": left, "divisors": divisors, "due": due, "stages": stages}
    return Launch(_advance, (1,), arguments, constants, warps=1)


advance = runs(plan_advance)
