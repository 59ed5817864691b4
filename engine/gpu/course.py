"""A context on its way on the GPU, and the lane that serves it."""

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from unabridged.engine.attention.config import AttentionConfig
from unabridged.engine.attention.device import Taken
from unabridged.engine.attention.limits import CONTEXTS
from unabridged.engine.events import AttentionReport, BusReport, Sampling
from unabridged.engine.gpu.decoding import Answering, Decoder
from unabridged.engine.gpu.prefill import Prefill
from unabridged.engine.gpu.staging import Span
from unabridged.engine.kv.blocks import Run
from unabridged.engine.sampling import Sampler

if TYPE_CHECKING:
    from unabridged.engine.gpu.runner import GpuRunner

# Slots that an answer has ahead: steps are launched for all before each can say that it needs more.
AHEAD = 8


@dataclass(eq=False)
class Lane:
    """What serves the contexts that attend by one configuration. `rows`: whose slots each row of the prefill's table
    holds, and how many of the runs."""

    prefill: Prefill
    decoder: Decoder
    rows: "list[tuple[GpuCourse | None, int]]" = field(default_factory=lambda: [(None, 0)] * CONTEXTS)
    courses: int = 0


class GpuCourse:
    """See runner.Course."""

    def __init__(self, runner: "GpuRunner", lane: Lane, config: AttentionConfig, runs: list[Run], read: int) -> None:
        self.lane, self.config, self.runs = lane, config, runs
        self.hidden = torch.zeros(0)  # of the token read last, `[1, hidden]`
        self.masks: Sequence[Taken] = ()
        self.coverages: list[float] = []
        self._runner, self._read = runner, read
        self._answer: Answering | None = None
        lane.courses += 1

    @property
    def length(self) -> int:
        """See runner.Course."""
        return self._answer.known if self._answer else self._read

    @property
    def short(self) -> bool:
        """See runner.Course."""
        stored = self._answer.launched if self._answer else self._read
        return sum(run.length for run in self.runs) < stored + AHEAD

    def fits(self, room: int, left: int) -> int:
        """See runner.Course."""
        room = max(room, self._runner.passes.least(self._read, left, self._runner.decoding))
        if left <= room:
            return left
        beyond = (self._read + room) % self.config.block_q
        return room - beyond if beyond < room else room

    def span(self, tokens: int) -> Span:
        """Of so many more tokens, in any row."""
        return Span(0, self._read, self._read + tokens)

    def extend(self, runs: Iterable[Run]) -> None:
        """See runner.Course."""
        if self._answer:
            self.lane.decoder.extend(self._answer, list(runs))
        else:
            self.runs += runs

    def was_read(self, tokens: int, hidden: Tensor) -> None:
        """The runner has appended tokens; `hidden` `[1, hidden]` of the last."""
        self._read += tokens
        self.hidden = hidden

    def first(self, sampling: Sampling, prompt: Sequence[int], span: tuple[int, int] | None) -> int:
        """See runner.Course."""
        logits = self._runner.model.logits(self.hidden)[0].float().cpu()
        token = Sampler(sampling, prompt)(logits)
        seen = range(*span) if span else range(0)
        self._answer = Answering(self.runs, self._read, [*prompt, token], sampling, self.masks, seen)
        self.lane.decoder.join(self._answer)
        return token

    def next(self) -> int:
        """See runner.Course."""
        assert self._answer is not None
        began = time.perf_counter()
        token = self.lane.decoder.next(self._answer)
        self._runner.pace.decoded(time.perf_counter() - began)
        return token

    def looked(self) -> tuple[tuple[int, float], ...]:
        """See runner.Course."""
        if self._answer is None or self._answer.look is None:
            return ()
        look, self._answer.look = self._answer.look, None
        return look.read()

    def report(self) -> AttentionReport:
        """See runner.Course. Waits for the device; the answer goes on, if it does, in another row."""
        if self._answer:
            coverage = self.lane.decoder.coverage(self._answer)
            self.coverages += [] if coverage is None else [coverage]
            self.masks = self.lane.decoder.masks(self._answer)
        length = self.length
        if length < self.config.dense_below:
            return AttentionReport(kind="dense", preset="dense", context=length, attended=length, coverage=1.0)
        return AttentionReport(
            kind="sparse",
            preset=self.config.name,
            context=length,
            attended=attended(self.config, self.masks, length),
            coverage=sum(self.coverages) / len(self.coverages) if self.coverages else 1.0,
            bus=self._bus(),
        )

    def _bus(self) -> BusReport | None:
        if self._answer is None or self._answer.traffic is None:
            return None
        traffic = self._answer.traffic
        found, fetched = traffic.found.sum(1).tolist(), traffic.fetched.sum(1).tolist()
        return BusReport(
            keys_found=found[0],
            keys_fetched=fetched[0],
            values_found=found[1],
            values_fetched=fetched[1],
            bytes=traffic.bytes,
            steps=self._answer.steps,
            fetching=traffic.steps,
        )

    def close(self) -> None:
        """See runner.Course."""
        if self._answer:
            self.lane.decoder.leave(self._answer)
        self.lane.rows = [(None, 0) if course is self else (course, runs) for course, runs in self.lane.rows]
        self.lane.courses -= 1


def attended(config: AttentionConfig, masks: Sequence[Taken], length: int) -> int:
    """Keys that a query at `length` attends to by these masks, the mean over layers and lists. Waits for the device."""
    if not masks:
        return length
    counts: list[float] = torch.stack([one.kept[-1].count.float().mean() for one in masks]).tolist()
    kept = [
        min(config.sink, one.limit) + count * config.layer(layer).stages[-1].chunk + length - one.limit
        for layer, (one, count) in enumerate(zip(masks, counts, strict=True))
    ]
    return min(length, round(sum(kept) / len(kept)))
