"""Prompts and documents into the pool: forward passes over pieces of one or several sequences at a time.

Each sequence has a row of a table of its own, so that documents behind one prefix share its pages. Queries inside the
window attend to everything, later ones to what their stages selected. Nothing is recorded; the host knows every length.

Where the pool lies in the host, a pass has its contexts brought to the GPU (`staging`), unless its few blocks of
queries read less of a long context than that: a question's do, and read the pool in place.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from unabridged.engine.attention.config import AttentionConfig
from unabridged.engine.attention.device import Taken
from unabridged.engine.attention.kernels.index import encode
from unabridged.engine.attention.kernels.rope import RopeTables
from unabridged.engine.attention.prefill import PrefillAttention
from unabridged.engine.attention.stages import LayerCache
from unabridged.engine.gpu.pool import GpuPool
from unabridged.engine.gpu.staging import Span, Staging
from unabridged.engine.gpu.steps import unindexed
from unabridged.engine.gpu.tables import Tables
from unabridged.engine.kv.blocks import Run
from unabridged.models.llama import Llama
from unabridged.models.rope import inv_freq


@dataclass(frozen=True)
class Part:
    """The next tokens of the sequence in `row`, of which `start` are stored already."""

    row: int
    start: int
    ids: Sequence[int]

    @property
    def span(self) -> Span:
        """Where its tokens go."""
        return Span(self.row, self.start, self.start + len(self.ids))


class Prefill:
    """See the module. ValueError where a part does not fit its row."""

    def __init__(
        self,
        model: Llama,
        config: AttentionConfig,
        pool: GpuPool,
        rows: int,
        room: int,
        average: dict[str, int] | None = None,
        staging: Staging | None = None,
    ) -> None:
        """`rows`: sequences at a time. `room`: tokens of a sequence at most; what selecting needs of memory grows with
        it where it exceeds the window. `average`: see PrefillAttention. `staging`: for as many rows; without it a pool
        in the host is read in place."""
        self._model, self._pool, self._staging = model, pool, staging
        self._tables = Tables(rows, model.config.kv_heads, room, pool.device)
        rope = RopeTables.of(inv_freq(model.config), self._tables.room + config.block_q, pool.device)
        # Whoever never selects needs no columns of the index.
        self._config = config if room > config.dense_below else unindexed(config)
        self._caches = pool.caches(self._tables)
        self._staged = staging.caches(self._tables) if staging is not None else []
        self._attention = PrefillAttention(self._config, model.config.heads, self._caches, rope, average)
        self._encodes = all(stages.indexed for stages in self._attention.stages)

    def put(self, row: int, runs: Sequence[Run]) -> None:
        """A sequence takes a row: `runs` hold what is stored and what is to come (Tables.extend)."""
        self._tables.put(row, runs)

    def extend(self, row: int, runs: Sequence[Run]) -> None:
        """More slots for a row."""
        self._tables.extend(row, runs)

    @torch.inference_mode()
    def read(self, parts: Sequence[Part]) -> Tensor:
        """One forward pass over the next tokens of these sequences. Hidden rows of each part's last token, `[n,
        hidden]`, before the final norm."""
        spans = [part.span for part in parts]
        for span in spans:
            slots = self._tables.reserved(span.row)
            if span.end > slots:
                raise ValueError(f"row {span.row} has {slots:,} slots for {span.end:,} tokens")
        staging = self._staging
        if staging is None or self.in_place(spans):
            return self._pass(parts, self._caches, None)
        try:
            staging.begin(self._tables, spans)
            return self._pass(parts, self._staged, staging)
        finally:
            staging.end()

    def in_place(self, spans: Sequence[Span]) -> bool:
        """Whether a pass over these reads a pool in the host less than staging does, which reads all that is stored of
        them. A single one that staging has no room for is read in place, too."""
        staging = self._staging
        if staging is None or (len(spans) == 1 and not staging.fits(spans)):
            return True
        return sum(map(self._touched, spans)) < sum(2 * span.start for span in spans)

    def _touched(self, span: Span) -> int:
        """How many keys and values of a layer the blocks of a pass read, each as often as it does."""
        config = self._config
        dense = min(span.end, config.dense_below) if span.start < config.dense_below else 0
        blocks = -(-(span.end - max(span.start, config.dense_below)) // config.block_q)
        if blocks <= 0:
            return 2 * dense
        stages = config.layer(len(config.layers)).stages
        scored = [stage.keep for stage in stages[:-1]]
        if stages[0].scorer != "index":
            scored.append(span.end)
        return 2 * dense + blocks * (sum(scored) + 2 * (stages[-1].keep + config.sink + config.stream))

    def _pass(self, parts: Sequence[Part], caches: Sequence[LayerCache], staging: Staging | None) -> Tensor:
        sizes = [len(part.ids) for part in parts]
        ids = torch.tensor([token for part in parts for token in part.ids])
        first, last = self._ends(parts)

        def attend(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            if staging is not None:
                staging.enter(layer)
            q, cache = q.contiguous(), caches[layer]
            out = torch.empty_like(q)
            pieces = zip(q.split(sizes), k.split(sizes), v.split(sizes), out.split(sizes), strict=True)
            for part, (own_q, own_k, own_v, own_out) in zip(parts, pieces, strict=True):
                self._attention.attend(layer, own_q, own_k, own_v, own_out, part.row, part.start, cache)
            if not self._encodes and cache.index is not None:
                encode(cache.bank, cache.index, first, last, max(sizes))
            if staging is not None:
                staging.leave(layer)
            return out

        hidden = self._model.forward(ids.to(self._model.device), attend)
        ends = torch.tensor(sizes).cumsum(0) - 1
        return hidden[ends.to(hidden.device)]

    def _ends(self, parts: Sequence[Part]) -> Tensor:
        """Where in each row of the tables the new tokens begin and end, `[2, R]` int32: nowhere in others."""
        ends = torch.zeros(2, len(self._tables.pages), dtype=torch.int32)
        for part in parts:
            ends[:, part.row] = torch.tensor([part.span.start, part.span.end])
        return ends.to(self._pool.device, non_blocking=True)

    def taken(self) -> list[Taken]:
        """Masks for decoding the last part of the last pass (DecodeBatch.admit); none inside the window."""
        return self._attention.taken()

    def coverage(self) -> float:
        """Estimated share of attention mass that the last part's last queries kept, the mean over layers. Waits for
        the device."""
        return float(self._attention.coverage().mean())
