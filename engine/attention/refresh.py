"""Which decode step renews which stage in which layer, and one CUDA graph for each pattern of that.

A layer renews stage i when its step count is a multiple of the stage's interval, and then every later stage too
(masks.py, without the counting). Layers stand one step apart: of 32 layers at intervals of 16 and 4, every step renews
the first stage in two and the second alone in six more, so that no step takes longer than another.

Torch; no kernel, no host synchronisation but in `Graphs.capture`.
"""

import math
import time
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace

import torch

from unabridged.engine.attention.config import AttentionConfig

# A grid made for the whole window costs short contexts time.
SHORT = (8192,)


@dataclass(frozen=True)
class Phase:
    """A step's pattern: `due[layer]` is the first stage that the layer renews, its number of stages when none is.
    `dense`: the step attends to everything, in contexts of at most `reach` tokens, or that the window holds (0)."""

    due: tuple[int, ...]
    dense: bool = False
    reach: int = 0


@dataclass(frozen=True)
class Schedule:
    """The patterns of a refresh period, in order; one that renews everything, for a first sparse step without masks of
    the prompt; the dense one, and those for shorter contexts, the shortest first."""

    steps: tuple[Phase, ...]
    all: Phase
    dense: Phase
    short: tuple[Phase, ...] = ()

    @classmethod
    def of(cls, config: AttentionConfig, layers: int) -> "Schedule":
        """The patterns of `layers` layers under the config's intervals."""
        stages = [len(config.layer(number).stages) for number in range(layers)]
        intervals = [config.intervals(count) for count in stages]
        period = math.lcm(*(every for own in intervals for every in own))
        steps = (
            Phase(tuple(_first_due(own, step + number % own[0]) for number, own in enumerate(intervals)))
            for step in range(period)
        )
        dense = Phase(tuple(stages), dense=True)
        short = (replace(dense, reach=reach) for reach in SHORT if reach < config.dense_below)
        return cls(tuple(steps), Phase((0,) * layers), dense, tuple(short))

    def whole(self, tokens: int) -> Phase:
        """The dense pattern for contexts of at most `tokens` tokens."""
        return next((phase for phase in self.short if tokens <= phase.reach), self.dense)

    def phase(self, step: int) -> Phase:
        """The pattern of decode step `step`, counted from any step that a sequence was taken up in."""
        return self.steps[step % len(self.steps)]

    @property
    def distinct(self) -> tuple[Phase, ...]:
        """Every pattern once: what is to be captured."""
        return tuple(dict.fromkeys((*self.steps, *self.short, self.all, self.dense)))


def _first_due(intervals: Sequence[int], step: int) -> int:
    return next((stage for stage, every in enumerate(intervals) if step % every == 0), len(intervals))


class Graphs:
    """A whole decode step as CUDA graphs, one a phase; their temporary memory is shared."""

    def __init__(self) -> None:
        self._graphs: dict[Phase, torch.cuda.CUDAGraph] = {}

    def capture(
        self, phases: Sequence[Phase], step: Callable[[Phase], None], kinds: Sequence[Hashable] | None = None
    ) -> float:
        """Record `step` for each phase: the step of the model, which reads and writes tensors that stay where they are.

        As many run before, twice, as it takes for each layer to meet all that it does, so that kernels are compiled
        and workspaces exist: capture before sequences are taken up. `kinds`, one a layer: layers of one kind run the
        same kernels, so that one of them will do. `step` may not synchronise. Seconds that these runs took.
        """
        began = time.perf_counter()
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for phase in _covering(phases, kinds or range(len(phases[0].due))):
                step(phase)
                step(phase)
        torch.cuda.current_stream().wait_stream(side)
        torch.cuda.synchronize()
        seconds = time.perf_counter() - began
        pool = torch.cuda.graph_pool_handle()
        for phase in phases:
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, pool=pool):
                step(phase)
            self._graphs[phase] = graph
        return seconds

    def replay(self, phase: Phase) -> None:
        """Queue a recorded step on the current stream. KeyError: the phase was not captured."""
        self._graphs[phase].replay()


def _covering(phases: Sequence[Phase], kinds: Sequence[Hashable]) -> list[Phase]:
    """Phases in which, together, every kind of layers meets every first stage that it meets at all."""
    seen: set[tuple[Hashable, int, bool, int]] = set()
    out = []
    for phase in phases:
        new = {(kind, due, phase.dense, phase.reach) for kind, due in zip(kinds, phase.due, strict=True)} - seen
        if new:
            seen |= new
            out.append(phase)
    return out
