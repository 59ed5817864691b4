"""The masks of decode steps on the GPU: what each stage of each layer keeps, for every sequence of a batch."""

import itertools
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from unabridged.engine.attention.kernels.layout import Kept
from unabridged.engine.attention.stages import Stages


class Masks:
    """What the stages of all layers keep. A renewal that begins at a later stage leaves `dropped` and the logs of the
    attention's sums as they are, so that those of a layer always are of one query."""

    def __init__(self, stages: Sequence[Stages], sequences: int, lists: int, heads: int, device: torch.device) -> None:
        layers = range(len(stages))
        most = max(len(one) for one in stages)
        self.dropped = torch.full((most, len(stages), sequences, lists), -torch.inf, device=device)
        self.whole_lse = torch.zeros(len(stages), sequences, heads, device=device)
        self._other_lse = torch.empty(sequences, heads, device=device)
        other = torch.empty(sequences, lists, device=device)
        rooms = [one.room(sequences, lists, device) for one in stages]
        self.kept = [
            [replace(kept, dropped=self.dropped[i, layer]) for i, kept in enumerate(rooms[layer])] for layer in layers
        ]
        self._partly = [[replace(kept, dropped=other) for kept in rooms[layer]] for layer in layers]
        self._chunk = stages[0].settings[-1].chunk
        for sequence in range(sequences):
            self.clear(sequence)

    def target(self, layer: int, due: int) -> list[Kept]:
        """Where a renewal from stage `due` on writes."""
        return self._partly[layer] if due else self.kept[layer]

    def lse(self, layer: int, due: int) -> Tensor:
        """Where the attention of a step with that renewal writes."""
        return self._other_lse if due else self.whole_lse[layer]

    def clear(self, sequence: int) -> None:
        """Nothing was pruned yet."""
        self.dropped[:, :, sequence] = -torch.inf
        for kept in itertools.chain.from_iterable(self.kept):
            kept.starts[sequence], kept.count[sequence] = -1, 0

    def put(self, layer: int, sequence: int, given: Sequence[Kept]) -> None:
        """Take over lists of one row."""
        for own, one in zip(self.kept[layer], given, strict=True):
            own.starts[sequence], own.count[sequence] = one.starts[0], one.count[0]

    def of(self, sequence: int) -> list[list[Kept]]:
        """Lists of one row, copied, by layer and stage."""
        row = slice(sequence, sequence + 1)
        return [
            [Kept(one.starts[row].clone(), one.count[row].clone(), one.dropped[row].clone()) for one in kept]
            for kept in self.kept
        ]

    def last(self, sequence: int) -> tuple[Tensor, Tensor, int]:
        """The last stages' starts `[layers, J, K]` (as many as the longest), counts `[layers, J]` and chunk length."""
        lasts = [kept[-1] for kept in self.kept]
        starts = [kept.starts[sequence] for kept in lasts]
        widest = max(one.shape[1] for one in starts)
        padded = [torch.nn.functional.pad(one, (0, widest - one.shape[1]), value=-1) for one in starts]
        return torch.stack(padded), torch.stack([kept.count[sequence] for kept in lasts]), self._chunk
