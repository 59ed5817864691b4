"""Prompts and documents into GPU memory: forward passes over pieces of one or several sequences at a time.

Each sequence has a row of a table of its own, so that documents behind one prefix share its pages. Queries inside the
window attend to everything, later ones to what their stages selected. Nothing is recorded; the host knows every length.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from unabridged.engine.attention.config import AttentionConfig
from unabridged.engine.attention.device import Taken
from unabridged.engine.attention.kernels.rope import RopeTables
from unabridged.engine.attention.prefill import PrefillAttention
from unabridged.engine.gpu.pool import GpuPool
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
    ) -> None:
        """`rows`: sequences at a time. `room`: tokens of a sequence at most; what selecting needs of memory grows with
        it where it exceeds the window. `average`: see PrefillAttention."""
        self._model, self._pool = model, pool
        self._tables = Tables(rows, model.config.kv_heads, room, pool.device)
        rope = RopeTables.of(inv_freq(model.config), self._tables.room + config.block_q, pool.device)
        # Whoever never selects needs no columns of the index.
        selects = room > config.dense_below
        config = config if selects else unindexed(config)
        self._attention = PrefillAttention(config, model.config.heads, pool.caches(self._tables), rope, average)
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
        for part in parts:
            end, slots = part.start + len(part.ids), self._tables.reserved(part.row)
            if end > slots:
                raise ValueError(f"row {part.row} has {slots:,} slots for {end:,} tokens")
        sizes = [len(part.ids) for part in parts]
        ids = torch.tensor([token for part in parts for token in part.ids])

        def attend(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            q = q.contiguous()
            out = torch.empty_like(q)
            pieces = zip(q.split(sizes), k.split(sizes), v.split(sizes), out.split(sizes), strict=True)
            for part, (own_q, own_k, own_v, own_out) in zip(parts, pieces, strict=True):
                self._attention.attend(layer, own_q, own_k, own_v, own_out, part.row, part.start)
            return out

        hidden = self._model.forward(ids.to(self._model.device), attend)
        if not self._encodes:
            for part in parts:
                self._pool.encode(self._tables, part.row, part.start, part.start + len(part.ids))
        ends = torch.tensor(sizes).cumsum(0) - 1
        return hidden[ends.to(hidden.device)]

    def taken(self) -> list[Taken]:
        """Masks for decoding the last part of the last pass (DecodeBatch.admit); none inside the window."""
        return self._attention.taken()

    def coverage(self) -> float:
        """Estimated share of attention mass that the last part's last queries kept, the mean over layers. Waits for
        the device."""
        return float(self._attention.coverage().mean())
