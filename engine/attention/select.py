"""The pruning stages: which of the middle keys a block of queries keeps. Reads keys, changes nothing.

Written to be read beside the paper and to be the oracle of faster kernels: every function takes tensors and says their
shapes. An index list holds token positions, ascending, padded at its end with -1.

B query blocks, H query heads, G key/value heads, g = H/G, J lists a block (G when each key/value head selects for
itself, 1 when all share one), T queries of a block, D head dimension, N list length, l chunk length, C = N/l chunks.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from unabridged.engine.attention.config import Join, SelectionRope, Stage
from unabridged.engine.attention.keys import Keys
from unabridged.engine.attention.positions import Rules, selection_keys, selection_queries
from unabridged.engine.attention.rope import Rotary

# Elements of the largest intermediate of exact scoring, and keys at most: small enough to stay in a core's cache share.
_TILE_ELEMENTS = 1 << 20
_TILE_KEYS = 2048


@dataclass(frozen=True)
class Span:
    """The first stage's candidates: positions from `start` to each block's limit `[B]`, which may be at or below it."""

    start: int
    limits: Tensor

    @property
    def end(self) -> int:
        """The largest limit."""
        return max(self.start, int(self.limits.max()))

    def index(self) -> Tensor:
        """As an index list `[B, 1, N]`."""
        positions = torch.arange(self.start, self.end)
        return positions.where(positions < self.limits[:, None], -1)[:, None]


@dataclass(frozen=True)
class Block:
    """B blocks of queries in one layer: q `[B, H, T, D]` un-rotated, their positions `[B, T]`, stream starts `[B]`."""

    q: Tensor
    positions: Tensor
    limits: Tensor


@dataclass(frozen=True)
class Selection:
    """What a stage kept: `index` `[B, J, N]`, the `scores` `[B, J, C]` (logits) of all its chunks, and which chunks
    were kept, `[B, J, K]` ascending."""

    index: Tensor
    scores: Tensor
    kept: Tensor

    def last(self) -> "Selection":
        """The last block's alone, copied."""
        return Selection(*(x[-1:].clone() for x in (self.index, self.scores, self.kept)))


class Selector:
    """One layer's way of scoring and keeping chunks."""

    def __init__(self, rotary: Rotary, style: SelectionRope, join: Join, rules: Rules) -> None:
        self._rotary, self._style, self._join, self._rules = rotary, style, join, rules

    def prune(self, block: Block, candidates: Span | Tensor, keys: Keys, stage: Stage) -> Selection:
        """Algorithm 2: split the candidates into chunks, score each, keep the best `stage.keep` tokens of them.

        `candidates`: a Span, or an index list `[B, J, N]`.
        """
        if isinstance(candidates, Span) and stage.scorer == "exact":
            index = _padded(candidates.index(), stage.chunk)
            scores = self._exact_span(block, candidates, keys, stage.chunk)
        else:
            index = candidates.index() if isinstance(candidates, Span) else candidates
            index = _padded(index, stage.chunk)
            score = self._exact if stage.scorer == "exact" else self._tournament
            scores = score(block, index, keys, stage.chunk)
        return keep_best(index, self._joined(scores), stage)

    def _joined(self, scores: Tensor) -> Tensor:
        """Head scores `[B, G, C]` as the lists share them, `[B, J, C]`."""
        return scores.amax(1, keepdim=True) if self._join == "joint" else scores

    def scores_alike(self, one: Stage, other: Stage) -> bool:
        """Whether a chunk that both stages see has the same score in both."""
        return one.scorer == other.scorer == "exact" and one.chunk == other.chunk and self._style != "chunk-indexed"

    def queries(self, block: Block, chunks: Tensor) -> Tensor:
        """The block's queries rotated for scoring `chunks` `[B]` chunks, scaled: `[B, H, T, D]`."""
        positions = selection_queries(self._style, block.positions, block.limits, chunks, self._rules)
        scale: float = block.q.shape[-1] ** -0.5
        return self._rotary.rotate(block.q, positions[:, None]) * scale

    def _tournament(self, block: Block, index: Tensor, keys: Keys, chunk: int) -> Tensor:
        """Chunk scores by the representative's, `[B, G, C]`."""
        chunks = index.unflatten(-1, (-1, chunk))
        q = self.queries(block, _count(chunks[..., 0]))
        _, score = self.select_rep(q, chunks, keys)
        return torch.unflatten(score, 1, (keys.heads, -1)).amax(2)

    def select_rep(self, q: Tensor, chunks: Tensor, keys: Keys) -> tuple[Tensor, Tensor]:
        """Algorithm 3: each head's representative of each chunk, by a binary tournament between first tokens.

        q `[B, H, T, D]` rotated; chunks `[B, J, C, l]`. Returns positions and scores `[B, H, C]`; -1 and -inf for a
        chunk without tokens.
        """
        heads = q.shape[1]
        chunks = chunks.repeat_interleave(heads // chunks.shape[1], 1)
        number = torch.arange(chunks.shape[2]).expand(chunks.shape[:3])
        first = torch.zeros_like(number)
        last = (chunks >= 0).sum(-1) - 1
        for _ in range(math.ceil(math.log2(chunks.shape[-1]))):
            middle = (first + last + 1).div(2, rounding_mode="floor")
            left = self._rep_scores(q, _member(chunks, first), number, keys, branch=0)
            right = self._rep_scores(q, _member(chunks, middle), number, keys, branch=1)
            alone, wins = last <= first, right > left
            first, last = (
                torch.where(~alone & wins, middle, first),
                torch.where(~alone & ~wins, middle - 1, last),
            )
        winner = _member(chunks, first)
        # The last word is the left branch's for all, so that chunks are compared at one distance.
        return winner, self._rep_scores(q, winner, number, keys, branch=0)

    def _rep_scores(self, q: Tensor, rep: Tensor, number: Tensor, keys: Keys, branch: int) -> Tensor:
        """max over t of q_t . k_rep for `rep` `[B, H, C]`: `[B, H, C]`."""
        per_head = rep.unflatten(1, (keys.heads, -1)).flatten(2)
        k = keys.gather(per_head).unflatten(2, (-1, rep.shape[2])).flatten(1, 2)
        positions = selection_keys(self._style, rep, number, self._rules)
        if positions is None and branch == 1 and self._style == "relative":
            positions = torch.ones_like(rep)
        if positions is not None:
            k = self._rotary.rotate(k, positions)
        scores: Tensor = k @ q.transpose(-1, -2)
        return scores.amax(-1).where(rep >= 0, -torch.inf)

    def _exact(self, block: Block, index: Tensor, keys: Keys, chunk: int) -> Tensor:
        """Chunk scores by their best key, `[B, G, C]`."""
        index = index.expand(-1, keys.heads, -1)
        q = torch.unflatten(self.queries(block, _count(index[..., ::chunk])), 1, (keys.heads, -1)).flatten(2, 3)
        k = keys.gather(index)
        number = torch.arange(index.shape[-1]).div(chunk, rounding_mode="floor")
        positions = selection_keys(self._style, index, number.expand(index.shape), self._rules)
        if positions is not None:
            k = self._rotary.rotate(k, positions)
        best = (q @ k.transpose(-1, -2)).amax(-2).where(index >= 0, -torch.inf)
        return torch.unflatten(best, -1, (-1, chunk)).amax(-1)

    def _exact_span(self, block: Block, span: Span, keys: Keys, chunk: int) -> Tensor:
        """`_exact` over a whole span: keys are read in place, run by run."""
        blocks = len(block.q)
        chunks = -(-(span.end - span.start) // chunk)
        # [G, B * g * T, D]: one product scores a tile of keys for every query of every block.
        own = (span.limits - span.start).clamp(min=0).add(chunk - 1).div(chunk, rounding_mode="floor")
        q = self.queries(block, own).unflatten(1, (keys.heads, -1)).transpose(0, 1).flatten(1, 3)
        best = torch.full((blocks, keys.heads, chunks * chunk), -torch.inf)
        tile = max(chunk, min(_TILE_KEYS, _TILE_ELEMENTS // q.shape[1]))
        for position, run in keys.runs(span.start, span.end):
            for at in range(0, run.shape[1], tile):
                k = self._rotated_tile(run[:, at : at + tile].float(), position + at, span.start, chunk)
                scores = (q @ k.transpose(1, 2)).unflatten(1, (blocks, -1)).amax(2)
                first = position + at - span.start
                best[:, :, first : first + k.shape[1]] = scores.transpose(0, 1)
        best[:, :, : span.end - span.start].masked_fill_(
            torch.arange(span.start, span.end) >= span.limits[:, None, None], -torch.inf
        )
        return torch.unflatten(best, -1, (-1, chunk)).amax(-1)

    def _rotated_tile(self, k: Tensor, position: int, start: int, chunk: int) -> Tensor:
        own = torch.arange(position, position + k.shape[1])
        number = (own - start).div(chunk, rounding_mode="floor")
        positions = selection_keys(self._style, own, number, self._rules)
        return k if positions is None else self._rotary.rotate(k, positions)


def keep_best(index: Tensor, scores: Tensor, stage: Stage) -> Selection:
    """Top-K over chunks: `index` `[B, J or 1, C * l]` and `scores` `[B, J, C]` to what a stage keeps."""
    chunks = index.unflatten(-1, (-1, stage.chunk))
    wanted = min(stage.keep // stage.chunk, scores.shape[-1])
    if stage.trail:
        # A chunk and the one behind it rank the same: of equals the first is kept, whatever stands around them.
        ranks = _trailed(scores, chunks, stage.trail)
        best = ranks.sort(dim=-1, descending=True, stable=True).indices[..., :wanted]
    else:
        best = scores.topk(wanted, sorted=False).indices
    kept = best.sort(-1).values
    chunks = chunks.expand(-1, scores.shape[1], -1, -1)
    chosen = chunks.gather(2, kept[..., None].expand(*kept.shape, stage.chunk))
    return Selection(chosen.flatten(2), scores, kept)


def _trailed(scores: Tensor, chunks: Tensor, trail: int) -> Tensor:
    """Scores by which to rank: each chunk's own, or the best of the `trail` chunks that stand right before it.

    scores `[B, J, C]`, chunks `[B, J or 1, C, l]`; a chunk of an index list stands behind another when its first token
    follows the other's last.
    """
    best = scores.clone()
    ends, begins = chunks[..., -1], chunks[..., 0]
    for back in range(1, min(trail, scores.shape[-1] - 1) + 1):
        near = begins[..., back:] - ends[..., :-back] == (back - 1) * chunks.shape[-1] + 1
        before = scores[..., :-back].where(near, -torch.inf)
        best[..., back:] = best[..., back:].maximum(before)
    return best.where(begins >= 0, -torch.inf)


def select(
    selector: Selector,
    block: Block,
    keys: Keys,
    stages: Sequence[Stage],
    start: int,
    first: int = 0,
    given: Selection | None = None,
) -> tuple[Block, list[Selection]]:
    """Algorithm 1's middle: run the stages from number `first` on; `given` is what the stage before it kept.

    Returns the blocks as the last stage saw them (a stage with smaller query blocks splits those before it) and what
    each stage that ran kept.
    """
    out: list[Selection] = []
    for number in range(first, len(stages)):
        stage = stages[number]
        if number and block.q.shape[2] > stage.block_q:
            block, given = _split(block, given, stage.block_q)
        if given is None:
            given = selector.prune(block, Span(start, block.limits), keys, stage)
        elif out and stages[number - 1].block_q == stage.block_q and selector.scores_alike(stages[number - 1], stage):
            # The same chunks under the same scorer: their scores are known.
            given = keep_best(given.index, given.scores.gather(2, given.kept), stage)
        else:
            given = selector.prune(block, given.index, keys, stage)
        out.append(given)
    return block, out


def _split(block: Block, given: Selection | None, size: int) -> tuple[Block, Selection | None]:
    """Blocks of `size` queries; each takes over what its larger block was given."""
    parts = block.q.shape[2] // size
    q = block.q.unflatten(2, (parts, size)).transpose(1, 2).flatten(0, 1)
    smaller = Block(q, block.positions.unflatten(1, (parts, size)).flatten(0, 1), block.limits.repeat_interleave(parts))
    if given is None:
        return smaller, None
    index, scores, kept = (x.repeat_interleave(parts, 0) for x in (given.index, given.scores, given.kept))
    return smaller, Selection(index, scores, kept)


def _count(first: Tensor) -> Tensor:
    """Chunks of each block's longest list, given the first token of each chunk `[B, J, C]`: `[B]`."""
    return (first >= 0).sum(-1).amax(1)


def _padded(index: Tensor, chunk: int) -> Tensor:
    missing = -index.shape[-1] % chunk
    return torch.nn.functional.pad(index, (0, missing), value=-1) if missing else index


def _member(chunks: Tensor, place: Tensor) -> Tensor:
    """The token at `place` `[B, H, C]` of each chunk; the first (-1 when empty) for a place outside."""
    return chunks.gather(-1, place.clamp(min=0)[..., None])[..., 0]
