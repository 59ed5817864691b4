"""What a forward pass looked at: which parts of the context got attention mass, how many keys, what was left out.

Filled by the attention of one decode step, layer by layer; it knows positions, not documents.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

CHUNK = 16
LARGEST = 32


@dataclass(frozen=True)
class Seen:
    """One query's attention in one layer. `probabilities` `[G, g, N]`; `positions` `[G or 1, N]`, None: 0..N-1."""

    probabilities: Tensor
    positions: Tensor | None = None


class Witness:
    """Attention mass of `start <= position < end` in chunks of 16 tokens, summed over layers, heads and steps."""

    def __init__(self, start: int, end: int) -> None:
        self._start, self._end = start, end
        self._seen: list[Seen] = []

    def see(self, seen: Seen) -> None:
        """Take one layer of one step."""
        self._seen.append(seen)

    def shares(self) -> tuple[tuple[int, float], ...]:
        """The chunks that got most: (position of the first token, share of the mass between start and end), largest
        first, at most 32. Forgets what it saw."""
        seen, self._seen = self._seen, []
        if not seen or self._end <= self._start:
            return ()
        mass = torch.zeros(-(-self._end // CHUNK) * CHUNK)
        for one in seen:
            self._add(mass, one)
        mass[: self._start] = 0.0
        mass[self._end :] = 0.0
        chunks = mass.view(-1, CHUNK).sum(1)
        total = float(chunks.sum())
        if total <= 0.0:
            return ()
        values, indices = chunks.topk(min(LARGEST, len(chunks)))
        pairs = zip(indices.tolist(), (values / total).tolist(), strict=True)
        return tuple((max(i * CHUNK, self._start), share) for i, share in pairs if share > 0.0)

    def _add(self, mass: Tensor, seen: Seen) -> None:
        if seen.positions is None:
            flat = seen.probabilities.sum((0, 1))[: len(mass)]
            mass[: len(flat)] += flat
            return
        per_head = seen.probabilities.sum(1)
        positions = seen.positions.expand_as(per_head)
        inside = (positions >= 0) & (positions < len(mass))
        mass.index_add_(0, positions[inside], per_head[inside])
