"""Attention over one context, as the model's forward pass takes it: dense inside the window, sparse past it.
Layers with a sliding window of their own are neither: they see their newest tokens at any length.

The context's length decides, query by query: a position below `dense_below` attends to everything before it with true
positions, a later one to sink, stream and what its stages selected. Keys go to the pool un-rotated and rounded to the
pool's type first, so that an answer does not depend on whether a key was just computed or came back from the disk.

H query heads, G key/value heads, D head dimension, T new tokens.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from unabridged.engine.attention.config import AttentionConfig
from unabridged.engine.attention.dense import DenseAttention, DenseDecoding
from unabridged.engine.attention.rope import Rotary
from unabridged.engine.attention.sliding import SlidingAttention
from unabridged.engine.attention.sparse import SparseAttention
from unabridged.engine.attention.witness import Witness
from unabridged.engine.events import AttentionReport
from unabridged.engine.kv.tables import Context
from unabridged.models.config import ModelConfig


@dataclass(frozen=True)
class Shape:
    """What attention must know of a model. `sliding`: for each layer how many tokens a query sees, its own included, 0
    for all; empty when no layer slides. `cap` c: scores x become c tanh(x / c)."""

    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    sliding: tuple[int, ...] = ()
    cap: float | None = None

    @classmethod
    def of(cls, model: ModelConfig) -> "Shape":
        """A model's."""
        return cls(model.layers, model.heads, model.kv_heads, model.head_dim, model.sliding, model.attention_cap)

    @property
    def unlimited(self) -> tuple[int, ...]:
        """The layers that see everything."""
        return tuple(layer for layer in range(self.layers) if not (self.sliding and self.sliding[layer]))


class ContextAttention:
    """The `Attend` of one context. Between `begin` and `end` lies one forward pass."""

    def __init__(self, context: Context, config: AttentionConfig, shape: Shape, rotary: Rotary) -> None:
        self.context = context
        self._config = config
        self._shape = shape
        self._rotary = rotary
        self._dense: DenseAttention | None = None
        self._decoding: DenseDecoding | None = None
        self._sparse: SparseAttention | None = None
        self._sliding = {
            layer: SlidingAttention(context, layer, back, rotary, shape.cap)
            for layer, back in enumerate(shape.sliding)
            if back
        }
        self._start = self._tokens = 0
        self.witness: Witness | None = None

    def fits(self, wanted: int) -> int:
        """How many of `wanted` tokens the next step may take: it ends at a border of the window or of query blocks."""
        start = self.context.length
        if start < self._config.dense_below:
            return min(wanted, self._config.dense_below - start)
        border = (start + wanted) // self._config.block_q * self._config.block_q
        return border - start if border > start else wanted

    def begin(self, tokens: int) -> None:
        """The next forward pass appends `tokens` tokens."""
        self._start, self._tokens = self.context.length, tokens
        if tokens == 1:
            self._rows = self.context.rows(self._start)
        layers = self._shape.unlimited
        if self._start < self._config.dense_below and layers:
            self._begin_dense(layers)
        elif self._sparse is None and layers:
            self._dense = self._decoding = None
            self._sparse = SparseAttention(self.context, self._config, self._rotary, self._shape.cap)

    def _begin_dense(self, layers: tuple[int, ...]) -> None:
        cap = self._shape.cap
        if self._tokens > 1:
            self._decoding = None
            self._dense = self._dense or DenseAttention(self.context, layers, self._rotary, cap)
            return
        if self._decoding is None:
            self._decoding = DenseDecoding(self.context, layers, self._rotary, self._dense, cap)
            self._dense = None
        self._decoding.begin(self._start)

    def end(self) -> None:
        """The forward pass is done: its tokens are part of the context."""
        self.context.length += self._tokens

    def report(self) -> AttentionReport:
        """How the context was attended so far, in the layers that see most of it."""
        length = self.context.length
        if not self._shape.unlimited:
            seen = min(length, max(self._shape.sliding))
            return AttentionReport(kind="dense", preset="sliding", context=length, attended=seen, coverage=1.0)
        if self._sparse is None:
            return AttentionReport(kind="dense", preset="dense", context=length, attended=length, coverage=1.0)
        return AttentionReport(
            kind="sparse",
            preset=self._config.name,
            context=length,
            attended=self._sparse.attended,
            coverage=self._sparse.coverage,
        )

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """See models.attention.Attend."""
        if self._tokens == 1:
            return self._one(layer, q[0], k[0], v[0])[None]
        q, k, v = q.transpose(0, 1), self._stored(k), self._stored(v)
        self.context.write(layer, self._start, k, v)
        if layer in self._sliding:
            return self._sliding[layer].attend(q, self._start).transpose(0, 1)
        if self._dense is not None:
            return self._dense.attend(layer, q, k, v, self._start).transpose(0, 1)
        assert self._sparse is not None
        return self._sparse.attend(layer, q, self._start).transpose(0, 1)

    def _one(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """The step of one token: q `[H, D]`, k and v `[G, D]` to `[H, D]`."""
        k, v = self._rows[0][layer].copy_(k).float(), self._rows[1][layer].copy_(v).float()
        if layer in self._sliding:
            out, seen = self._sliding[layer].decode(q, k, v, self._start)
        elif self._decoding is not None:
            out, seen = self._decoding.attend(layer, q, k, v)
        else:
            assert self._sparse is not None
            out, seen = self._sparse.decode(layer, q, k, v, self._start)
        if self.witness is not None:
            self.witness.see(seen)
        return out

    def _stored(self, x: Tensor) -> Tensor:
        return x.transpose(0, 1).to(self.context.dtype).float().contiguous()


class Packed:
    """Several contexts in one forward pass: each takes its own run of the new tokens."""

    def __init__(self, parts: Sequence[tuple[ContextAttention, int]]) -> None:
        self._parts = parts
        for attention, tokens in parts:
            attention.begin(tokens)

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """See models.attention.Attend."""
        sizes = [tokens for _, tokens in self._parts]
        pieces = zip(q.split(sizes), k.split(sizes), v.split(sizes), strict=True)
        return torch.cat([part(layer, *piece) for (part, _), piece in zip(self._parts, pieces, strict=True)])

    def end(self) -> None:
        """The forward pass is done."""
        for attention, _ in self._parts:
            attention.end()
