"""The keys that one layer attends to while it decodes: gathered and rotated at a mask's renewal, then only appended to.

G key/value heads, J index lists (G or 1), D head dimension, N keys.
"""

import torch
from torch import Tensor

from unabridged.engine.attention.config import AttentionRope
from unabridged.engine.attention.keys import Keys
from unabridged.engine.attention.plain import capped
from unabridged.engine.attention.positions import Rules, attention_keys, attention_queries
from unabridged.engine.attention.rope import Rotary
from unabridged.engine.attention.select import Block

# Steps between two renewals that the buffer has room for without moving.
_ROOM = 128


class DecodeBuffer:
    """Rotated keys and values `[G, N, D]` of one layer, and where they stand in the context."""

    def __init__(self, cap: float | None = None) -> None:
        """`cap`: see plain.capped."""
        self.length = 0
        self._cap = cap
        self._k = self._v = torch.zeros(0, 0, 0)
        self._positions = torch.zeros(0, 0, dtype=torch.int64)
        self._hidden: Tensor | None = None
        self._ahead: Tensor = torch.zeros(0)
        self._uniform: int | None = None

    @property
    def positions(self) -> Tensor:
        """Context positions of the keys, `[J, N]`, -1 for none."""
        return self._positions[:, : self.length]

    def fill(self, rotary: Rotary, keys: Keys, index: Tensor, block: Block, style: AttentionRope, rules: Rules) -> None:
        """Take the keys of `index` `[1, J, N]`, the newest included, for the query of `block`."""
        self.length = index.shape[-1]
        k, v = keys.gather_both(index.expand(-1, keys.heads, -1))
        self._reserve(keys.heads, index.shape[1], k.shape[-1])
        places = attention_keys(style, index, block.limits, rules)
        whole = bool((index >= 0).all())
        # Complete lists of streaming number their keys alike: one row of angles serves all heads.
        rows = places[0, :1] if whole and style == "streaming" else places[0]
        self._k[:, : self.length] = rotary.rotate(k[0], rows)
        self._v[:, : self.length] = v[0]
        self._positions[:, : self.length] = index[0]
        self._hidden = None if whole else (index[0] < 0)[:, None]
        query = attention_queries(style, block.positions, index, block.limits, rules)[0]
        # How far the newest token's place lies from its position: constant until the next renewal.
        self._ahead = query - block.positions[0]
        self._uniform = int(self._ahead[0]) if bool((self._ahead == self._ahead[0]).all()) else None

    def append(self, rotary: Rotary, k: Tensor, v: Tensor, position: int) -> None:
        """One more key and value `[G, 1, D]`, un-rotated."""
        if self.length == self._k.shape[1]:
            self._reserve(self._k.shape[0], len(self._positions), self._k.shape[2])
        at = slice(self.length, self.length + 1)
        self._k[:, at] = self._rotated(rotary, k, position)
        self._v[:, at] = v
        self._positions[:, at] = position
        self.length += 1

    def attend(self, rotary: Rotary, q: Tensor, position: int, want_lse: bool) -> tuple[Tensor, Tensor, Tensor | None]:
        """q `[H, D]` un-rotated: output `[H, D]`, probabilities `[G, g, N]`, and with `want_lse` the largest log
        of the summed exponentials of each group `[G]`."""
        dim = q.shape[1]
        grouped = q.view(self._k.shape[0], -1, dim)
        grouped = self._rotated(rotary, grouped, position) * dim**-0.5
        scores = capped(torch.bmm(grouped, self._k[:, : self.length].transpose(1, 2)), self._cap)
        if self._hidden is not None:
            scores[:, :, : self._hidden.shape[-1]].masked_fill_(self._hidden, -torch.inf)
        probabilities = scores.softmax(-1)
        out = torch.bmm(probabilities, self._v[:, : self.length]).view(q.shape)
        return out, probabilities, scores.logsumexp(-1).amax(-1) if want_lse else None

    def _rotated(self, rotary: Rotary, x: Tensor, position: int) -> Tensor:
        """x `[G, n, D]`, all at the place of `position`."""
        if self._uniform is not None:
            return torch.matmul(x, rotary.matrix(position + self._uniform))
        return rotary.rotate(x, (self._ahead + position).expand(len(x), -1))

    def _reserve(self, heads: int, lists: int, dim: int) -> None:
        if self._k.shape[0] == heads and len(self._positions) == lists and self._k.shape[1] > self.length:
            return
        old, room = self._k, self.length + _ROOM
        kept = old.shape[1]
        k, v = torch.zeros(heads, room, dim), torch.zeros(heads, room, dim)
        positions = torch.full((lists, room), -1)
        if 0 < kept <= room and old.shape[0] == heads and len(self._positions) == lists:
            k[:, :kept], v[:, :kept], positions[:, :kept] = old, self._v, self._positions
        self._k, self._v, self._positions = k, v, positions
