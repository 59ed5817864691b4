"""The mask cache: what each pruning stage kept at its last run, and when it must run again.

A stage runs when the step counter is a multiple of its interval, and whenever a stage before it runs: that is how masks
keep their temporal locality without reading the whole context at every step. It counts steps; it selects nothing.
"""

from collections.abc import Sequence

from unabridged.engine.attention.select import Selection


class MaskCache:
    """One layer's stage outputs while it decodes."""

    def __init__(self, intervals: Sequence[int], offset: int = 0) -> None:
        """`offset` shifts the layer's steps, so that not all layers renew the same stage in the same step. Every stage
        runs in the first step."""
        self._intervals = tuple(intervals)
        self._step = self._offset = offset
        self._kept: list[Selection] = []
        self._ran: list[int] = []

    def due(self) -> int | None:
        """The first stage that must run in this step; None when all masks stand."""
        if not self._kept:
            return 0
        return next((i for i, every in enumerate(self._intervals) if self._step % every == 0), None)

    def before(self, stage: int) -> Selection | None:
        """What the stage before `stage` kept."""
        return self._kept[stage - 1] if stage else None

    def renew(self, first: int, kept: Sequence[Selection]) -> None:
        """Take the outputs of stage `first` and all after it."""
        self._kept[first:] = kept
        self._ran[first:] = [self._step] * len(kept)

    def advance(self) -> None:
        """The step is over."""
        self._step += 1

    @property
    def outputs(self) -> tuple[Selection, ...]:
        """What each stage kept."""
        return tuple(self._kept)

    @property
    def ages(self) -> tuple[int, ...]:
        """Steps since each stage ran."""
        return tuple(self._step - ran for ran in self._ran)
