"""A layer whose queries look back over a fixed number of tokens only: true positions, at any length of the context.

No distance in it exceeds what the model was trained on, so that nothing changes at the end of the trained window and
nothing is selected. H query heads, G key/value heads, D head dimension, T new tokens, N tokens in view.
"""

import torch
from torch import Tensor

from unabridged.engine.attention.plain import attention, capped, causal_mask
from unabridged.engine.attention.rope import Rotary
from unabridged.engine.attention.witness import Seen
from unabridged.engine.kv.tables import Context

# Tokens that a step's buffer takes before the oldest are moved out.
_ROOM = 512


class SlidingAttention:
    """One such layer of one context. What it reads is in the context's pool already."""

    def __init__(self, context: Context, layer: int, back: int, rotary: Rotary, cap: float | None) -> None:
        """`back`: tokens that a query sees, its own included. `cap`: see plain.capped."""
        self._context, self._layer, self._back = context, layer, back
        self._rotary, self._cap = rotary, cap
        # Rotated keys, and values, of positions first..end-1, `[G, D, room]`.
        self._k = self._v = torch.zeros(0, 0, 0)
        self._first = self._end = 0

    def attend(self, q: Tensor, start: int) -> Tensor:
        """Attend with q `[H, T, D]` of positions start..start+T-1, un-rotated: `[H, T, D]`."""
        end = start + q.shape[1]
        first = max(0, start + 1 - self._back)
        k, v = self._context.read(self._layer, first, end)
        q, k = self._rotary.rotate_range(q, start), self._rotary.rotate_range(k, first)
        return attention(q, k, v, causal_mask(q.shape[1], end - first, self._back), self._cap)

    def decode(self, q: Tensor, k: Tensor, v: Tensor, position: int) -> tuple[Tensor, Seen]:
        """Attend with one query q `[H, D]` at `position`, whose k, v `[G, D]` are in the pool too: `[H, D]`, and what
        it looked at."""
        if self._end != position or not position:
            self._fill(position)
        turn = self._rotary.matrix(position)
        at = self._place(position)
        self._k[:, :, at], self._v[:, :, at] = torch.mm(k, turn), v
        self._end = position + 1
        first = max(0, position + 1 - self._back)
        seen = slice(first - self._first, at + 1)
        grouped = torch.mm(q, turn).mul_(q.shape[1] ** -0.5).view(k.shape[0], -1, k.shape[1])
        probabilities = capped(torch.bmm(grouped, self._k[:, :, seen]), self._cap).softmax(-1)
        out = torch.bmm(probabilities, self._v[:, :, seen].transpose(1, 2)).view(q.shape)
        return out, Seen(probabilities, torch.arange(first, position + 1)[None])

    def _fill(self, position: int) -> None:
        """Take what the query at `position` sees before itself from the pool."""
        self._first = max(0, position + 1 - self._back)
        k, v = self._context.read(self._layer, self._first, position)
        k = self._rotary.rotate_range(k, self._first)
        self._k, self._v = (x.new_empty(x.shape[0], x.shape[2], x.shape[1] + _ROOM) for x in (k, v))
        self._k[:, :, : k.shape[1]], self._v[:, :, : k.shape[1]] = k.transpose(1, 2), v.transpose(1, 2)
        self._end = position

    def _place(self, position: int) -> int:
        """The buffer's column for `position`, the newest."""
        if position - self._first == self._k.shape[2]:
            first = max(0, position + 1 - self._back)
            kept = slice(first - self._first, None)
            self._k, self._v = (_moved(x, kept) for x in (self._k, self._v))
            self._first = first
        return position - self._first


def _moved(x: Tensor, kept: slice) -> Tensor:
    columns = x[:, :, kept]
    out = x.new_empty(*x.shape[:2], columns.shape[2] + _ROOM)
    out[:, :, : columns.shape[2]] = columns
    return out
