"""A layer's pruning stages on the GPU: score, keep the best, score those, ... `select.select` for kernels.

Decoding and prefilling run the same stages over other rows. Layers run one after another, so all share one `Workspace`.

R query blocks, T queries of a block, H query heads, G key/value heads, D head dimension, C chunks that a stage scores.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields

import torch
from torch import Tensor

from unabridged.engine.attention.config import AttentionConfig
from unabridged.engine.attention.coverage import FILL
from unabridged.engine.attention.kernels.index import Codes, Index
from unabridged.engine.attention.kernels.index_columns import Columns
from unabridged.engine.attention.kernels.layout import PAGE, Bank, Kept, Rows, Span
from unabridged.engine.attention.kernels.rope import RopeTables
from unabridged.engine.attention.kernels.score_exact import score_exact
from unabridged.engine.attention.kernels.score_index import score_index
from unabridged.engine.attention.kernels.score_rep import score_rep
from unabridged.engine.attention.kernels.topk import Scratch, keep_best


@dataclass(frozen=True)
class LayerCache:
    """What a layer remembers: its bank, and the index that a first stage with that scorer reads."""

    bank: Bank
    index: Index | None = None


class Stages:
    """One layer's stages."""

    def __init__(self, config: AttentionConfig, layer: int, rope: RopeTables, average: Sequence[int] = ()) -> None:
        """`average`: for each stage, how many neighbouring queries of a block count as their mean (1 if empty); a
        tournament takes all as they are. Raises ValueError where a stage's query blocks are smaller than the first's,
        where means do not divide them, and where streams, or chunks that an index scores, would begin inside a page.
        """
        settings = config.layer(layer)
        self.settings, self.average = settings.stages, tuple(average) or (1,) * len(settings.stages)
        self._style, self._config, self._rope = settings.selection_rope, config, rope
        if any(stage.block_q != config.block_q for stage in self.settings):
            raise ValueError(f"stages with query blocks of {config.block_q} are wanted, not {self.settings}")
        if any(config.block_q % count for count in self.average):
            raise ValueError(f"means of {self.average} queries in blocks of {config.block_q}")
        if config.stream % PAGE or config.block_q % PAGE:
            raise ValueError(f"stream = {config.stream}, query blocks of {config.block_q}: multiples of {PAGE} wanted")
        if self.indexed and config.sink % PAGE:
            raise ValueError(f"sink = {config.sink} with an index: a multiple of {PAGE} wanted")

    def __len__(self) -> int:
        return len(self.settings)

    @property
    def indexed(self) -> bool:
        """Whether the first stage reads an index of the keys."""
        return self.settings[0].scorer == "index"

    def span(self, longest: int) -> Span:
        """The first stage's candidates where no limit lies past `longest`."""
        start, chunk = self._config.sink, self.settings[0].chunk
        return Span(start, max(1, -(-(longest - start) // chunk)))

    def width(self, number: int, span: Span) -> int:
        """C of stage `number`."""
        return self.settings[number - 1].keep // self.settings[number].chunk if number else span.chunks

    def room(self, rows: int, lists: int, device: torch.device) -> list[Kept]:
        """What each stage keeps, undefined yet."""
        return [Kept.empty(rows, lists, stage.keep // stage.chunk, device) for stage in self.settings]

    def run(
        self,
        q: Tensor,
        rows: Rows,
        cache: LayerCache,
        kept: Sequence[Kept],
        span: Span,
        room: "Workspace",
        first: int,
        end: int | None = None,
    ) -> None:
        """Renew `kept`, what each stage keeps, from stage `first` on (to before `end`), for q `[R, T, H, D]`."""
        for number in range(len(self.settings))[first:end]:
            candidates = kept[number - 1] if number else span
            scores = self.score(number, q, rows, cache, candidates, room)
            self.keep(number, scores, candidates, kept[number], room)

    def score(
        self, number: int, q: Tensor, rows: Rows, cache: LayerCache, candidates: Span | Kept, room: "Workspace"
    ) -> Tensor:
        """Stage `number`'s scores of the candidates' chunks, `[R, G, C]`, in the workspace."""
        stage, config, style, rope = self.settings[number], self._config, self._style, self._rope
        width = candidates.chunks if isinstance(candidates, Span) else self.settings[number - 1].keep // stage.chunk
        scores, average = room.scores_of(rows.count, cache.bank.heads, width), self.average[number]
        if stage.scorer == "index":
            index = cache.index if room.codes is None else room.codes
            assert index is not None
            assert isinstance(candidates, Span)
            columns = room.columns_of(rows.count)
            # Blocks of several queries are a prompt's, and all of one sequence.
            together = q.shape[1] > 1
            score_index(
                q, rows, index, candidates, stage.chunk, style, config.stream, rope, scores, columns, average, together
            )
        elif stage.scorer == "exact":
            score_exact(q, rows, cache.bank, candidates, stage.chunk, style, config.stream, rope, scores, average)
        else:
            unit = self.settings[number - 1].chunk if number else None
            score_rep(q, rows, cache.bank, candidates, stage.chunk, style, config.stream, rope, scores, unit)
        return scores

    def keep(self, number: int, scores: Tensor, candidates: Span | Kept, kept: Kept, room: "Workspace") -> None:
        """Write to `kept` the best chunks of stage `number`."""
        stage, joint = self.settings[number], self._config.join == "joint"
        keep_best(scores, candidates, stage.chunk, kept, joint, stage.trail, room.ranking[number])


@dataclass(frozen=True)
class Workspace:
    """Temporary memory of one layer's stages, for R blocks at most: scores (flat float32), the index's columns, and
    what each stage's top-K needs. `codes`: read instead of the layer's index, where a sequence's were copied."""

    scores: Tensor
    columns: Columns | None
    ranking: tuple[Scratch, ...]
    codes: Codes | None = None

    @classmethod
    def of(
        cls, stages: Sequence[Stages], cache: LayerCache, rows: int, queries: int, lists: int, span: Span
    ) -> "Workspace":
        """For blocks of `queries` queries, all heads counted (T * H), that keep `lists` lists (J) of `span`, in any of
        these layers."""
        heads, device = cache.bank.heads, cache.bank.k_table.device
        most = max(len(one) for one in stages)
        widths = [max(one.width(number, span) for one in stages if number < len(one)) for number in range(most)]
        columns, indexed = None, [one for one in stages if one.indexed]
        if indexed:
            assert cache.index is not None
            queries //= min(one.average[0] for one in indexed)
            columns = Columns.empty(rows, heads, queries // heads, cache.index.width, device)
        scores = torch.empty(rows * heads * max(widths), dtype=torch.float32, device=device)
        return cls(scores, columns, tuple(Scratch.of(rows * lists, width, device) for width in widths))

    def scores_of(self, rows: int, heads: int, chunks: int) -> Tensor:
        """`[rows, heads, chunks]` of the memory."""
        return self.scores[: rows * heads * chunks].view(rows, heads, chunks)

    def columns_of(self, rows: int) -> Columns:
        """The columns of `rows` blocks."""
        assert self.columns is not None
        return Columns(*(getattr(self.columns, one.name)[:rows] for one in fields(Columns)))


def covered(dropped: Tensor, lse: Tensor) -> Tensor:
    """`coverage.coverage` of many rows: dropped `[stages, ..., J]`, lse `[..., H]` of the attention: `[...]`."""
    lists = dropped.shape[-1]
    kept = lse.unflatten(-1, (lists, -1)).amax(-1)
    share: Tensor = (kept - dropped.logsumexp(0) - math.log(FILL)).sigmoid().mean(-1)
    return share
