"""Decode steps of 32 layers: whole refresh periods, every stage every step, and each part in a graph of its own.

Four layers have data of their own, each used by eight of the 32, which select with queries of their own: what stages
read and keep comes from memory. Sink and stream, 38 % of what a step with old masks reads, are the same for the eight,
and their turn comes again after three others' 20 MB: they may be in the L2 cache.
"""

import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import torch
from benchmarks.attention_data import LAYERS, D, G, H, rope, tokens
from benchmarks.gpu import graph_time, times

from unabridged.engine.attention.config import REFRESH, AttentionConfig
from unabridged.engine.attention.device import DecodeAttention
from unabridged.engine.attention.kernels.bank_write import write
from unabridged.engine.attention.kernels.index import encode
from unabridged.engine.attention.kernels.layout import Kept, Span
from unabridged.engine.attention.refresh import Graphs, Phase, Schedule
from unabridged.engine.attention.stages import LayerCache


@dataclass(frozen=True)
class Part:
    """Seconds of a part of a layer's step, the bytes it must move, its launches."""

    name: str
    seconds: float
    moved: int
    launches: int


@dataclass(frozen=True)
class Period:
    """Steps of a refresh period, seconds of all 32 layers: mean, median, 99th percentile, the longest single one, and
    the longest of the phases' medians."""

    mean: float
    median: float
    p99: float
    most: float
    longest: float


class Decoding:
    """32 layers that decode at position `length`."""

    def __init__(self, config: AttentionConfig, caches: list[LayerCache], length: int) -> None:
        self.config, self.length = config, length
        self.caches = [caches[layer % len(caches)] for layer in range(LAYERS)]
        self.attention = DecodeAttention(config, H, self.caches, rope(length))
        q, k, v = tokens(1, LAYERS)
        self.q, self.k, self.v = q.unsqueeze(1), k.unsqueeze(1), v.unsqueeze(1)
        self.out = torch.empty_like(self.q)
        self.restart()

    def restart(self) -> None:
        """Back to `length` tokens, all masks new."""
        self.attention.first.fill_(self.length - 1)
        self.step(Phase((0,) * LAYERS))

    def step(self, phase: Phase) -> None:
        """What a model's step does, without the model."""
        self.attention.begin(phase)
        for layer in range(LAYERS):
            self.attention.step(layer, self.q[layer], self.k[layer], self.v[layer], self.out[layer], phase)

    def every(self) -> float:
        """Seconds a layer when all stages run in every step."""
        self.restart()
        return graph_time(lambda: self.step(Phase((0,) * LAYERS))) / LAYERS

    def period(self, refresh: str) -> Period:
        """A refresh period, each step a graph, several times over."""
        config = replace(self.config, refresh=REFRESH[refresh])
        # Streams grow longer between rarer renewals: an attention of its own, with room for them.
        self.attention = DecodeAttention(config, H, self.caches, rope(self.length))
        schedule = Schedule.of(config, LAYERS)
        graphs = Graphs()
        self.restart()
        graphs.capture(list(dict.fromkeys(schedule.steps)), self.step)
        self.restart()
        rounds = max(3, 96 // len(schedule.steps))
        steps = [lambda phase=phase: graphs.replay(phase) for phase in schedule.steps] * (rounds + 1)
        found = times(steps, warm=len(schedule.steps))
        by_phase = [statistics.median(found[i :: len(schedule.steps)]) for i in range(len(schedule.steps))]
        ranked = sorted(found)
        return Period(
            statistics.mean(found),
            statistics.median(found),
            ranked[int(0.99 * (len(ranked) - 1))],
            ranked[-1],
            max(by_phase),
        )

    def parts(self) -> Iterator[Part]:
        """Each part of a layer's step, alone, for all layers in one graph."""
        one = self.attention
        self.restart()
        yield self._part("write", lambda i: self._write(i), 0)
        if one.stages[-1].indexed:
            yield self._part("encode 64", self._encoder(), 64 * G * D * self._bytes())
        for number, stage in enumerate(one.stages[-1].settings):
            launches = 2 if stage.scorer == "index" else 1
            yield self._part(f"score {number + 1}", self._scorer(number), self._scored(number), launches)
            chunks = one.stages[-1].width(number, one.span)
            launches = 1 if one.room.ranking[number].high is None else 3
            yield self._part(f"top-k {number + 1}", self._keeper(number), 4 * G * chunks, launches)
        attended = self.config.sink + self.config.stream + one.stages[-1].settings[-1].keep
        yield self._part("attention", self._attend, 2 * attended * G * D * self._bytes())

    def _part(self, name: str, body: Callable[[int], object], moved: int, launches: int = 1) -> Part:
        seconds = graph_time(lambda: [body(layer) for layer in range(LAYERS)]) / LAYERS
        return Part(name, seconds, moved, launches)

    def _write(self, layer: int) -> None:
        one = self.attention
        write(self.k[layer], self.v[layer], self.caches[layer].bank, one.rows[layer].sequence, one.first)

    def _encoder(self) -> Callable[[int], object]:
        """Of the 64 tokens before the limit, as many as a renewal finds."""
        ends = [rows.limits for rows in self.attention.rows]
        starts = [end - 64 for end in ends]

        def run(layer: int) -> None:
            cache = self.caches[layer]
            assert cache.index is not None
            encode(cache.bank, cache.index, starts[layer], ends[layer], 64)

        return run

    def _attend(self, layer: int) -> None:
        self.attention.attend(layer, self.q[layer], self.out[layer], due=1)

    def _candidates(self, layer: int, number: int) -> Span | Kept:
        return self.attention.masks.kept[layer][number - 1] if number else self.attention.span

    def _scorer(self, number: int) -> Callable[[int], object]:
        one = self.attention

        def score(layer: int) -> None:
            of = self._candidates(layer, number)
            one.stages[layer].score(number, self.q[layer], one.rows[layer], self.caches[layer], of, one.room)

        return score

    def _keeper(self, number: int) -> Callable[[int], object]:
        one = self.attention

        def keep(layer: int) -> None:
            scores = one.room.scores_of(1, G, one.stages[layer].width(number, one.span))
            of, kept = self._candidates(layer, number), one.masks.kept[layer][number]
            one.stages[layer].keep(number, scores, of, kept, one.room)

        # Its own layer's scores were overwritten by the next layer's: as many, as random.
        self._scorer(number)(LAYERS - 1)
        return keep

    def _scored(self, number: int) -> int:
        """Bytes that stage `number` reads and writes at least, in a layer."""
        one = self.attention.stages[-1]
        stage, index = one.settings[number], self.caches[0].index
        keys = one.settings[number - 1].keep if number else self.length - self.config.sink - self.config.stream
        written = 4 * G * one.width(number, self.attention.span)
        if stage.scorer == "index":
            assert index is not None
            return keys * G * (index.width + 1) + written
        if stage.scorer == "exact":
            return keys * G * D * self._bytes() + written
        # A tournament reads log2(l) + 1 keys of a chunk, if the heads of a group agree on them.
        return keys // stage.chunk * stage.chunk.bit_length() * G * D * self._bytes() + written

    def _bytes(self) -> int:
        return self.caches[0].bank.k.element_size()
