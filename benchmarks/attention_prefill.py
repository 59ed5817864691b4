"""A piece of 32K queries at the end of a context: the whole, and each part of it."""

from collections.abc import Iterator
from functools import partial

import torch
from benchmarks.attention_data import D, G, H, rope, tokens
from benchmarks.attention_decode import Part
from benchmarks.gpu import eager_time, graph_time

from unabridged.engine.attention.config import AttentionConfig
from unabridged.engine.attention.kernels.attend_prefill import attend_prefill
from unabridged.engine.attention.kernels.bank_write import write
from unabridged.engine.attention.kernels.index import encode
from unabridged.engine.attention.prefill import PrefillAttention
from unabridged.engine.attention.stages import LayerCache

QUERIES = 32768


class Prefilling:
    """Layers that take the last `QUERIES` tokens of `length`."""

    def __init__(self, config: AttentionConfig, caches: list[LayerCache], length: int, average: dict[str, int]) -> None:
        self.config, self.caches, self.start = config, caches, length - QUERIES
        self.angles = rope(length)
        self.attention = PrefillAttention(config, H, caches, self.angles, average)
        q, k, v = tokens(QUERIES)
        self.q, self.k, self.v = q[0], k[0], v[0]
        self.out = torch.empty_like(self.q)

    def whole(self) -> float:
        """Seconds a layer, everything included: the mean of the first layers, as many as have data. The paper's presets
        treat the first three as early ones."""
        layers = range(len(self.caches))

        def piece() -> None:
            for layer in layers:
                self.attention.attend(layer, self.q, self.k, self.v, self.out, 0, self.start)

        return eager_time(piece) / len(self.caches)

    def useful(self) -> float:
        """Floating-point operations of the sparse attention a layer: 4 D for every query, head and attended key."""
        config, stages = self.config, self.attention.stages[-1]
        # A block's queries see half of their own 64 keys on average.
        attended = config.sink + stages.settings[-1].keep + config.stream + config.block_q // 2
        return 4.0 * QUERIES * attended * D * H

    def parts(self) -> Iterator[Part]:
        """Each part alone. Stages run over one slice of the blocks and count as often as there are slices."""
        cache, stages, room = self.caches[0], self.attention.stages[-1], self.attention.room
        count = min(self.attention.most, QUERIES // self.config.block_q)
        times_over = QUERIES / self.config.block_q / count
        rows = self.attention.rows(count, 0, self.start, self.start + QUERIES, self.q.device)
        q = self.q[: count * self.config.block_q].unflatten(0, (count, -1))
        out, lse = torch.empty_like(q), torch.empty(q.shape[:3], device="cuda")
        ints = [torch.tensor([value], dtype=torch.int32, device="cuda") for value in (0, self.start)]
        k, v = self.k[None], self.v[None]
        yield Part("write", graph_time(lambda: write(k, v, cache.bank, *ints)), 0, 1)
        if stages.indexed and (index := cache.index) is not None:
            end = ints[1] + QUERIES
            yield Part("encode", graph_time(lambda: encode(cache.bank, index, ints[1], end, QUERIES)), 0, 1)
        span = stages.span(self.start + QUERIES - self.config.stream)
        kept = stages.room(count, 1 if self.config.join == "joint" else G, self.q.device)
        for number in range(len(stages)):
            of = kept[number - 1] if number else span
            score = partial(stages.score, number, q, rows, cache, of, room)
            keep = partial(stages.keep, number, score(), of, kept[number], room)
            launches = 2 if stages.settings[number].scorer == "index" else 1
            yield Part(f"score {number + 1}", graph_time(score, 3) * times_over, 0, launches)
            yield Part(f"top-k {number + 1}", graph_time(keep, 3) * times_over, 0, 1)

        def attend() -> None:
            attend_prefill(
                q,
                rows,
                cache.bank,
                kept[-1],
                stages.settings[-1].chunk,
                self.config.sink,
                self.config.stream + self.config.block_q,
                self.config.rope,
                self.angles,
                out,
                lse,
            )

        yield Part("attention", graph_time(attend, 5) * times_over, 0, 1)
