"""Decode steps of one kind, dense or sparse, for all rows of a batch: which phase comes next, and its CUDA graph.

Rows come and go while the schedule runs on. A row that brings no masks, or masks too old to last until the schedule
renews them, makes the next step one that renews everything.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import torch

from unabridged.engine.attention.config import AttentionConfig
from unabridged.engine.attention.device import DecodeAttention, Taken
from unabridged.engine.attention.kernels.rope import RopeTables
from unabridged.engine.attention.refresh import Graphs, Phase, Schedule
from unabridged.engine.attention.stages import LayerCache
from unabridged.engine.gpu.banks import Banks
from unabridged.engine.gpu.resident import Traffic, Whole

# The whole step: the model around the attention.
Body = Callable[[DecodeAttention, Phase], None]


@dataclass(frozen=True)
class Captured:
    """What recording took: graphs, seconds, bytes of the GPU's memory that it has less now (the driver's too), and of
    the seconds those of the steps before, which compile what Triton has not cached."""

    graphs: int
    seconds: float
    bytes: int
    compiling: float = 0.0


class Steps:
    """See the module. Without a CUDA device steps run one launch after the other."""

    def __init__(
        self,
        dense: bool,
        config: AttentionConfig,
        heads: int,
        caches: Sequence[LayerCache],
        rope: RopeTables,
        mass: bool,
        body: Body,
        resident: Banks | Whole | None = None,
    ) -> None:
        """`heads`: query heads. `mass`: keep what `attention.attended` needs. `resident`: what has the caches, where
        the pool lies in host memory: Banks of sparse steps, Whole of dense ones."""
        self.dense, self._body, self._resident = dense, body, resident
        config = unindexed(config) if dense else config
        kind: Literal["sparse", "dense"] = "dense" if dense else "sparse"
        offload = resident if isinstance(resident, Banks) else None
        self.attention = DecodeAttention(config, heads, caches, rope, kind if mass else None, offload)
        self._schedule = Schedule.of(config, len(caches))
        # Kernels are compiled for what is aligned to 16 bytes and for what is not: every fourth layer's rows are.
        self._alike = [(config.layer(number), number % 4) for number in range(len(caches))]
        self._number = 0
        self._renew = False
        self._graphs: Graphs | None = None

    def capture(self) -> Captured:
        """Record every phase, once. No row may hold a sequence: steps run that write where the tables say."""
        device = self.attention.first.device
        if self._graphs is not None or device.type != "cuda":
            return Captured(0, 0.0, 0)
        torch.cuda.empty_cache()
        began, (before, _) = time.perf_counter(), torch.cuda.mem_get_info(device)
        schedule = self._schedule
        phases = (
            (*schedule.short, schedule.dense) if self.dense else tuple(dict.fromkeys((*schedule.steps, schedule.all)))
        )
        graphs = Graphs()
        compiling = graphs.capture(phases, self._step, self._alike)
        self._graphs = graphs
        after, _ = torch.cuda.mem_get_info(device)
        return Captured(len(phases), time.perf_counter() - began, before - after, compiling)

    def admit(self, row: int, length: int, taken: Sequence[Taken]) -> None:
        """A row goes on from `length` tokens, with masks (one a layer) or without."""
        if self._resident is not None:
            self._resident.admit(row, length)
        self.attention.take(row, length, taken)
        if not self.dense:
            self._renew |= not taken or any(self._outlived(layer, length, one) for layer, one in enumerate(taken))

    def taken(self, row: int) -> list[Taken]:
        """A row's masks; none of a dense row. Waits for the device."""
        return [] if self.dense else self.attention.taken(row)

    def traffic(self, row: int) -> Traffic | None:
        """What renewals found and fetched for a row since it was admitted; None where nothing is fetched. Waits for the
        device."""
        return None if self._resident is None else self._resident.traffic(row)

    def release(self, row: int) -> None:
        """A row no longer holds a sequence."""
        if self._resident is not None:
            self._resident.clear(row)
        self.attention.take(row, 0)

    def restart(self) -> None:
        """The schedule begins anew for the first row of an empty batch: alone it decodes the same whenever it does."""
        self._number, self._renew = 0, False

    def idle(self, rows: Sequence[int]) -> None:
        """Bring rows that hold no sequence, and count on, back to the beginning."""
        for row in rows:
            self.attention.first[row] = -1

    def run(self, longest: int) -> None:
        """Queue the next step, after which no row has more than `longest` tokens."""
        phase = self._schedule.whole(longest) if self.dense else self._schedule.phase(self._number)
        if self._renew:
            phase = self._schedule.all
        if self._graphs is None:
            self._step(phase)
        else:
            self._graphs.replay(phase)
        self._number, self._renew = self._number + 1, False

    @torch.inference_mode()
    def _step(self, phase: Phase) -> None:
        self.attention.begin(phase)
        self._body(self.attention, phase)
        if self._resident is not None:
            self._resident.stored(self.attention.first)

    def _outlived(self, layer: int, length: int, taken: Taken) -> bool:
        """Whether the stream would grow longer than a step has room for before the layer's next renewal."""
        wait = 0
        while self._schedule.phase(self._number + wait).due[layer]:
            wait += 1
        return length + wait - taken.limit > self.attention.recent


def unindexed(config: AttentionConfig) -> AttentionConfig:
    """The same settings for caches without an index: what it scored is scored exactly."""
    layers = (
        replace(
            layer, stages=tuple(replace(one, scorer="exact") if one.scorer == "index" else one for one in layer.stages)
        )
        for layer in config.layers
    )
    return replace(config, layers=tuple(layers))
