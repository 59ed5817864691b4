"""Dense causal attention with true positions: what runs inside the trained window. Knows one context at a time.

L layers, H query heads, G key/value heads, g = H/G, D head dimension, T new tokens, N tokens in view.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from unabridged.engine.attention.rope import Rotary
from unabridged.engine.attention.witness import Seen
from unabridged.engine.kv.tables import Context

# Tokens of room that the copies get at a time, so that decoding rarely moves them.
_ROOM = 512


class DenseAttention:
    """A context's keys, rotated once and kept with its values in float32 while it grows."""

    def __init__(self, context: Context, layers: int, rotary: Rotary) -> None:
        """Copies what `context` holds. Position `context.length` is the first that `attend` appends."""
        self._rotary = rotary
        room = context.reserved + _ROOM
        self._k, self._v = [], []
        for layer in range(layers):
            k, v = context.read(layer, 0, context.length)
            self._k.append(_with_room(rotary.rotate_range(k, 0), room))
            self._v.append(_with_room(v, room))
        self._scores_mask: Tensor | None = None

    def attend(self, layer: int, q: Tensor, k: Tensor, v: Tensor, start: int) -> tuple[Tensor, Seen | None]:
        """Append k, v `[G, T, D]` at `start` and attend with q `[H, T, D]`, all un-rotated.

        Returns `[H, T, D]`, and for T = 1 what it looked at.
        """
        end = start + k.shape[1]
        if end > self._k[layer].shape[1]:
            self._k[layer] = _with_room(self._k[layer], end + _ROOM)
            self._v[layer] = _with_room(self._v[layer], end + _ROOM)
        self._rotary.rotate_range(k, start, out=self._k[layer][:, start:end])
        self._v[layer][:, start:end] = v
        keys, values = self._k[layer][:, :end], self._v[layer][:, :end]
        q = self._rotary.rotate_range(q, start)
        if end - start > 1:
            return self._attend_many(q, keys, values), None
        out, probabilities = attend_one(q, keys, values)
        return out, Seen(probabilities)

    def _attend_many(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        mask = self._causal(q.shape[1], k.shape[1])
        grouped = q.shape[0] != k.shape[0]
        out = F.scaled_dot_product_attention(q[None], k[None], v[None], attn_mask=mask, enable_gqa=grouped)
        return out[0]

    def _causal(self, queries: int, keys: int) -> Tensor:
        # The same for all layers of a step.
        if self._scores_mask is None or self._scores_mask.shape != (queries, keys):
            self._scores_mask = causal_mask(queries, keys)
        return self._scores_mask


def causal_mask(queries: int, keys: int) -> Tensor:
    """`[queries, keys]`: 0 where a query may look, -inf after it; the last query is the newest key."""
    return torch.full((queries, keys), float("-inf")).triu_(keys - queries + 1)


def attend_one(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """One query a head, q `[H, 1, D]` over k, v `[G, N, D]`: `[H, 1, D]` and probabilities `[G, g, N]`."""
    heads, _, dim = q.shape
    scores = torch.bmm(q.view(k.shape[0], -1, dim) * dim**-0.5, k.transpose(1, 2))
    probabilities = scores.softmax(-1)
    return torch.bmm(probabilities, v).view(heads, 1, dim), probabilities


def _with_room(x: Tensor, tokens: int) -> Tensor:
    out = torch.empty(x.shape[0], tokens, x.shape[2])
    out[:, : x.shape[1]] = x
    return out
