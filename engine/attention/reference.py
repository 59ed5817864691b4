"""Sparse attention over index lists, and the two together: select, then attend. The oracle of faster kernels.

A query attends to the sink, to what its block's stages kept, and to the stream: every key from the block's limit to
itself. B query blocks, H query heads, G key/value heads, g = H/G, J lists a block (G or 1), T queries of a block,
N attended keys, D head dimension.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from unabridged.engine.attention.config import AttentionRope
from unabridged.engine.attention.keys import Keys
from unabridged.engine.attention.plain import capped
from unabridged.engine.attention.positions import Rules, attention_keys, attention_queries
from unabridged.engine.attention.rope import Rotary
from unabridged.engine.attention.select import Block


@dataclass(frozen=True)
class Attended:
    """The output `[B, H, T, D]` and the log of each query's summed exponentials `[B, H, T]`."""

    out: Tensor
    lse: Tensor


def limits_of(positions: Tensor, block_q: int, stream: int) -> Tensor:
    """Where the stream of each query's block begins: `stream` tokens before the block, at least 0."""
    return (positions.div(block_q, rounding_mode="floor") * block_q - stream).clamp(min=0)


def attended_index(selected: Tensor | None, limits: Tensor, sink: int, ends: Tensor) -> Tensor:
    """All keys that blocks attend to, `[B, J, N]` ascending with -1 for none: sink, `selected` `[B, J, n]`, stream.

    `ends` `[B]`: one past the last key that any query of the block may see. Causality within is the attention's.
    """
    lists = 1 if selected is None else selected.shape[1]
    front = torch.arange(sink)
    sinks = front.where(front < limits[:, None], -1)[:, None].expand(-1, lists, -1)
    stream = limits[:, None] + torch.arange(int((ends - limits).max()))
    stream = stream.where(stream < ends[:, None], -1)[:, None].expand(-1, lists, -1)
    return torch.cat([sinks, stream] if selected is None else [sinks, selected, stream], -1)


def sparse_attention(
    block: Block,
    index: Tensor,
    keys: Keys,
    rotary: Rotary,
    style: AttentionRope,
    rules: Rules,
    cap: float | None = None,
) -> Attended:
    """Attend to the keys of `index` `[B, J, N]` at or before each query, with the style's positions. `cap`: see
    plain.capped."""
    k, v = keys.gather_both(index.expand(-1, keys.heads, -1))
    k = rotary.rotate(k, attention_keys(style, index, block.limits, rules))
    at = attention_queries(style, block.positions, index, block.limits, rules)
    group = block.q.shape[1] // keys.heads
    q = rotary.rotate(block.q.unflatten(1, (keys.heads, group)), at[:, :, None]).flatten(2, 3)
    scores = capped((q * q.shape[-1] ** -0.5) @ k.transpose(-1, -2), cap)
    visible = (index[:, :, None] >= 0) & (index[:, :, None] <= block.positions[:, None, :, None])
    scores = scores.unflatten(2, (group, -1))
    scores.masked_fill_(~visible[:, :, None], -torch.inf)
    lse = scores.logsumexp(-1)
    probabilities = scores.sub_(lse[..., None]).exp_().flatten(2, 3)
    out = (probabilities @ v).unflatten(2, (group, -1)).flatten(1, 2)
    return Attended(out, lse.flatten(1, 2))
