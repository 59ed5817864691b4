"""Which positions the RoPE styles give to queries and keys. Pure index arithmetic.

A block's `limit` is where its stream begins: keys before it are sink or middle, keys from it on are the stream.
B query blocks, T queries of a block, N keys, C chunks.
"""

from torch import Tensor

from unabridged.engine.attention.config import AttentionRope, SelectionRope
from unabridged.engine.attention.rope import extend_scale, grouped


def selection_queries(
    style: SelectionRope, positions: Tensor, limits: Tensor, chunks: Tensor, rules: "Rules"
) -> Tensor:
    """Positions of queries at `positions` `[B, T]` while each block's `chunks` `[B]` chunks are scored: `[B, T]`."""
    if style == "relative":
        return positions.new_full(positions.shape, rules.stream + 1)
    if style == "infllm":
        return positions.new_full(positions.shape, rules.stream)
    if style == "chunk-indexed":
        return positions.minimum(chunks[:, None] + rules.stream)
    if style == "dynamic-extend":
        return _after(positions, limits[:, None], rules)
    return positions


def selection_keys(style: SelectionRope, positions: Tensor, chunk: Tensor, rules: "Rules") -> Tensor | None:
    """Positions of keys at `positions`, members of chunk number `chunk` (same shape). None: all at 0."""
    if style in ("relative", "infllm"):
        return None
    if style == "chunk-indexed":
        return chunk
    kept = positions.clamp(min=0)
    return grouped(kept, rules.scale) if style == "dynamic-extend" else kept


def attention_keys(style: AttentionRope, index: Tensor, limits: Tensor, rules: "Rules") -> Tensor:
    """Positions of the attended keys `index` `[B, G or 1, N]`, ascending with -1 for none: same shape."""
    limit = limits[:, None, None]
    if style == "streaming":
        return ((index >= 0).cumsum(-1) - 1).clamp(min=0)
    if style == "infllm":
        return (index - limit).clamp(min=0)
    kept = index.clamp(min=0)
    if style == "dynamic-extend":
        return grouped(kept, rules.scale).where(kept < limit, _after(kept, limit, rules))
    return kept


def attention_queries(style: AttentionRope, positions: Tensor, index: Tensor, limits: Tensor, rules: "Rules") -> Tensor:
    """Positions of queries at `positions` `[B, T]` that attend to `index` `[B, G or 1, N]`: `[B, G or 1, T]`."""
    limit = limits[:, None, None]
    own = positions[:, None, :]
    if style == "streaming":
        before = ((index >= 0) & (index < limit)).sum(-1, keepdim=True)
        return before + own - limit
    if style == "infllm":
        return own - limit
    return _after(own, limit, rules) if style == "dynamic-extend" else own


def _after(positions: Tensor, limit: Tensor, rules: "Rules") -> Tensor:
    """Dynamic extend from the stream on: exact steps behind the compressed past."""
    return grouped(limit, rules.scale) + positions - limit


class Rules:
    """The numbers that the styles need: stream length and dynamic extend's divisor for a context's length."""

    def __init__(self, stream: int, block_q: int, window: int, length: int) -> None:
        self.stream = stream
        self.scale = extend_scale(length, window, stream + block_q)
