"""Attention that drifts at a stated speed: what stages keep is replaced by choices that change by a share each renewal.

A stage's candidates are cut into as many equal strata as it keeps chunks, and it keeps one chunk of each. A renewal
replaces each with the stated probability by another one of its stratum, drawn anew. So a share of 1 leaves no chunk
that was there before, and a chunk may come back after several renewals. Scoring and ranking run as ever; what they
found is overwritten. A later stage chooses among the chunks of the one before: what that one replaced is replaced.

What was chosen last is kept beside each list, and made with it: zeros that were made while a step is recorded would be
made anew by each replay, and such a list never drifts.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from unittest.mock import patch

import torch
import triton
from benchmarks import kernels
from torch import Tensor

from unabridged.engine.attention.config import AttentionConfig
from unabridged.engine.attention.kernels.layout import Kept, Span
from unabridged.engine.attention.stages import Stages, Workspace


@dataclass(frozen=True)
class _Choice:
    """Of one layer's stage: which chunk of each stratum, `[R * J, K]`, and renewals so far, `[R * J]`; both int32."""

    picks: Tensor
    clock: Tensor
    seed: int

    @classmethod
    def of(cls, kept: Kept, seed: int) -> "_Choice":
        rows, lists, width = kept.starts.shape
        zeros = torch.zeros(rows * lists, width + 1, dtype=torch.int32, device=kept.starts.device)
        return cls(zeros[:, 1:].contiguous(), zeros[:, 0].contiguous(), seed)


class Drift:
    """Choices of all layers of a batch that is made and recorded inside `recording`, over contexts of at least `length`
    tokens."""

    def __init__(self, config: AttentionConfig, length: int, device: torch.device | str) -> None:
        # The tokens before every limit.
        self._first, self._tokens = config.sink, length - config.sink - config.stream - 2 * config.block_q
        self._share = torch.zeros((), device=device)
        self._choices: dict[int, _Choice] = {}

    def set(self, share: float) -> None:
        """What each renewal replaces from now on, 0 to 1."""
        self._share.fill_(share)

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Stages that run inside, or are recorded there, drift, where their lists were made inside."""
        keep, room = Stages.keep, Stages.room

        def drifting(
            stages: Stages, number: int, scores: Tensor, candidates: Span | Kept, kept: Kept, room: Workspace
        ) -> None:
            keep(stages, number, scores, candidates, kept, room)
            self.choose(stages, number, candidates, kept)

        def made(stages: Stages, rows: int, lists: int, device: torch.device) -> list[Kept]:
            own = room(stages, rows, lists, device)
            for kept in own:
                self._choices[kept.starts.data_ptr()] = _Choice.of(kept, 1 + 64 * len(self._choices))
            return own

        with patch.object(Stages, "keep", drifting), patch.object(Stages, "room", made):
            yield

    def choose(self, stages: Stages, number: int, candidates: Span | Kept, kept: Kept) -> None:
        """Overwrite what stage `number` of a layer has kept. KeyError: `kept` was not made inside `recording`."""
        choice, stage = self._choices[kept.starts.data_ptr()], stages.settings[number]
        ratio, chunks, before, parents = 1, self._tokens // stage.chunk, kept.starts, 0
        if isinstance(candidates, Kept):
            ratio = stages.settings[number - 1].chunk // stage.chunk
            before, parents = candidates.starts, candidates.starts.shape[2]
            chunks = parents * ratio
        rows, lists, width = kept.starts.shape
        assert chunks >= width, f"{chunks} chunks to keep {width} of"
        kernels.drift[(rows * lists,)](
            kept.starts,
            kept.count,
            before,
            choice.picks,
            choice.clock,
            self._share,
            chunks,
            self._first,
            parents,
            choice.seed,
            K=width,
            LENGTH=stage.chunk,
            RATIO=ratio,
            BEFORE=isinstance(candidates, Kept),
            SIZE=triton.next_power_of_2(width),
        )
