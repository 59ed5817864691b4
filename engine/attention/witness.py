"""What a forward pass looked at: which parts of the context got attention mass, how many keys, what was left out.

Filled by the attention of one decode step, layer by layer; it knows positions, not documents.
"""

from collections.abc import Iterator, Sequence
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
        chunks = sum(self._by_chunk(alike) for alike in _by_positions(seen))
        assert isinstance(chunks, Tensor)
        total = float(chunks.sum())
        if total <= 0.0:
            return ()
        values, indices = chunks.topk(min(LARGEST, len(chunks)))
        pairs = zip(indices.tolist(), (values / total).tolist(), strict=True)
        return tuple((max(i * CHUNK, self._start), share) for i, share in pairs if share > 0.0)

    def _by_chunk(self, seen: Sequence[Seen]) -> Tensor:
        """Mass a chunk. All layers at once: they are many and small."""
        chunks = -(-self._end // CHUNK)
        if seen[0].positions is None:
            mass = torch.cat([one.probabilities.flatten(0, 1) for one in seen]).sum(0)[: self._end]
            mass = torch.nn.functional.pad(mass, (0, chunks * CHUNK - len(mass)))
            mass[: self._start] = 0.0
            return mass.view(-1, CHUNK).sum(1)
        per_head = [one.probabilities.sum(1) for one in seen]
        mass = torch.cat([one.flatten() for one in per_head])
        positions = torch.cat([_all(one).expand_as(own).flatten() for one, own in zip(seen, per_head, strict=True)])
        inside = (positions >= self._start) & (positions < self._end)
        chunk = positions.div(CHUNK, rounding_mode="floor").clamp_(0, chunks - 1)
        return torch.zeros(chunks).index_add_(0, chunk, mass.mul_(inside))


def _by_positions(seen: Sequence[Seen]) -> Iterator[Sequence[Seen]]:
    """Those that looked at everything, of one context length each, and those that looked at lists."""
    lists = [one for one in seen if one.positions is not None]
    if lists:
        yield lists
    whole = [one for one in seen if one.positions is None]
    for length in sorted({one.probabilities.shape[-1] for one in whole}):
        yield [one for one in whole if one.probabilities.shape[-1] == length]


def _all(seen: Seen) -> Tensor:
    assert seen.positions is not None
    return seen.positions
