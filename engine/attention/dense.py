"""Dense causal attention with true positions: what runs inside the trained window, in the layers that see all of it.

`DenseAttention` takes many tokens at once, `DenseDecoding` one at a time: each keeps keys and values in float32 and in
the layout that its products read fastest.

Knows one context at a time. L layers, H query heads, G key/value heads, g = H/G, D head dimension, T new tokens, N
tokens in view.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from unabridged.engine.attention.plain import attention, capped, causal_mask
from unabridged.engine.attention.rope import Rotary
from unabridged.engine.attention.witness import Seen
from unabridged.engine.kv.tables import Context

# Tokens of room that the copies get at a time, so that decoding rarely moves them.
_ROOM = 512


class DenseAttention:
    """A context's keys, rotated once and kept with its values in float32 while it grows."""

    def __init__(self, context: Context, layers: Sequence[int], rotary: Rotary, cap: float | None = None) -> None:
        """Copies what `context` holds of `layers`. Position `context.length` is the first that `attend` appends.
        `cap`: see plain.capped."""
        self._rotary, self._cap = rotary, cap
        room = context.reserved + _ROOM
        self._k: dict[int, Tensor] = {}
        self._v: dict[int, Tensor] = {}
        for layer in layers:
            k, v = _rotated(context, layer, rotary)
            self._k[layer] = _with_room(k, room)
            self._v[layer] = _with_room(v, room)
        self._scores_mask: Tensor | None = None

    def take(self, layer: int) -> tuple[Tensor, Tensor]:
        """Give up the layer's rotated keys and values `[G, room, D]`."""
        return self._k.pop(layer), self._v.pop(layer)

    def attend(self, layer: int, q: Tensor, k: Tensor, v: Tensor, start: int) -> Tensor:
        """Append k, v `[G, T, D]` at `start` and attend with q `[H, T, D]`, all un-rotated: `[H, T, D]`."""
        end = start + k.shape[1]
        if end > self._k[layer].shape[1]:
            self._k[layer] = _with_room(self._k[layer], end + _ROOM)
            self._v[layer] = _with_room(self._v[layer], end + _ROOM)
        self._rotary.rotate_range(k, start, out=self._k[layer][:, start:end])
        self._v[layer][:, start:end] = v
        keys, values = self._k[layer][:, :end], self._v[layer][:, :end]
        mask = self._causal(q.shape[1], end)
        return attention(self._rotary.rotate_range(q, start), keys, values, mask, self._cap)

    def _causal(self, queries: int, keys: int) -> Tensor:
        # The same for all layers of a step.
        if self._scores_mask is None or self._scores_mask.shape != (queries, keys):
            self._scores_mask = causal_mask(queries, keys)
        return self._scores_mask


class DenseDecoding:
    """The same for one token a step: positions lie side by side, and what all layers share is made once a step."""

    def __init__(
        self,
        context: Context,
        layers: Sequence[int],
        rotary: Rotary,
        before: DenseAttention | None,
        cap: float | None = None,
    ) -> None:
        """Takes over the copies of `before`, else copies what `context` holds of `layers`."""
        self._rotary, self._cap = rotary, cap
        self._number = {layer: number for number, layer in enumerate(layers)}
        tokens, room = context.length, _columns(context.length)
        self._k = self._v = torch.zeros(0)
        for layer, number in self._number.items():
            k, v = before.take(layer) if before else _rotated(context, layer, rotary)
            if number == 0:
                self._k, self._v = (x.new_empty(len(layers), x.shape[0], x.shape[2], room) for x in (k, v))
            self._k[number, :, :, :tokens] = k[:, :tokens].transpose(1, 2)
            self._v[number, :, :, :tokens] = v[:, :tokens].transpose(1, 2)

    def begin(self, position: int) -> None:
        """The next step appends the token at `position`."""
        end = position + 1
        if end > self._k.shape[-1]:
            self._k, self._v = (_widened(x, _columns(end)) for x in (self._k, self._v))
        self._new_k, self._new_v = self._k[..., position].unbind(0), self._v[..., position].unbind(0)
        self._keys = self._k[..., :end].unbind(0)
        self._values = self._v[..., :end].transpose(2, 3).unbind(0)
        self._turn = self._rotary.matrix(position)
        self._scaled = self._turn * self._turn.shape[0] ** -0.5

    def attend(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Seen]:
        """Append k, v `[G, D]` and attend with q `[H, D]`, all un-rotated: `[H, D]`, and what it looked at."""
        number = self._number[layer]
        self._new_k[number].copy_(torch.mm(k, self._turn))
        self._new_v[number].copy_(v)
        grouped = torch.mm(q, self._scaled).view(k.shape[0], -1, k.shape[1])
        probabilities = capped(torch.bmm(grouped, self._keys[number]), self._cap).softmax(-1)
        return torch.bmm(probabilities, self._values[number]).view(q.shape), Seen(probabilities)


def _rotated(context: Context, layer: int, rotary: Rotary) -> tuple[Tensor, Tensor]:
    k, v = context.read(layer, 0, context.length)
    return rotary.rotate_range(k, 0), v


def _columns(tokens: int) -> int:
    # Rows whose distance is a multiple of a page compete for the same lines of the cache.
    return -(-(tokens + _ROOM) // 256) * 256 + 16


def _widened(x: Tensor, columns: int) -> Tensor:
    out = x.new_empty(*x.shape[:-1], columns)
    out[..., : x.shape[-1]] = x
    return out


def _with_room(x: Tensor, tokens: int) -> Tensor:
    out = torch.empty(x.shape[0], tokens, x.shape[2])
    out[:, : x.shape[1]] = x
    return out
