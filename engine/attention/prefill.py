"""Attention of a prompt's pieces on the GPU, the cache in GPU memory: what `sparse.py` does with blocks of queries.

A piece is up to 32K tokens of one sequence in one layer. It is stored and encoded whole; then its blocks of 64 queries
select and attend, so many at a time that the stages' scores stay within a stated size. Queries below `dense_below`
attend to everything before them, with true positions.

Reading takes the mean of neighbouring queries while it selects; the last queries of a piece, which may ask something,
are taken one by one.

Nothing is synchronised; the host knows every length of a prompt, so nothing is recorded either.

T tokens, R blocks, H query heads, G key/value heads, D head dimension.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from unabridged.engine.attention.config import AttentionConfig
from unabridged.engine.attention.device import Taken
from unabridged.engine.attention.kernels.attend_prefill import attend_prefill
from unabridged.engine.attention.kernels.bank_write import write
from unabridged.engine.attention.kernels.dense import attend_dense
from unabridged.engine.attention.kernels.index import Codes, encode
from unabridged.engine.attention.kernels.index_gather import gather, room
from unabridged.engine.attention.kernels.layout import PAGE, Kept, Rows
from unabridged.engine.attention.kernels.rope import RopeTables
from unabridged.engine.attention.limits import PIECE, SCORES
from unabridged.engine.attention.rope import extend_scale
from unabridged.engine.attention.stages import LayerCache, Stages, Workspace, covered

# Neighbouring queries that the stages of a prompt take as their mean, by scorer, but for this many at a piece's end:
# means of a question's queries find about half of what each alone finds (docs/log.md).
AVERAGE = {"index": 16, "exact": 4, "selectrep": 1}
ASKING = 256


class PrefillAttention:
    """See the module. One instance serves all layers."""

    def __init__(
        self,
        config: AttentionConfig,
        heads: int,
        caches: Sequence[LayerCache],
        rope: RopeTables,
        average: dict[str, int] | None = None,
        scores: int = SCORES,
    ) -> None:
        """`heads`: H. `average`: other counts than AVERAGE, by scorer. `scores`: bytes, for one block at least."""
        self._config, self._caches, self._rope = config, caches, rope
        averages = AVERAGE | (average or {})
        layers = range(len(caches))
        self.stages = [
            Stages(config, layer, rope, [averages[stage.scorer] for stage in config.layer(layer).stages])
            for layer in layers
        ]
        self._asking = [Stages(config, layer, rope) for layer in layers]
        bank, block = caches[0].bank, config.block_q
        span = self.stages[0].span(bank.k_table.shape[2] * PAGE - config.stream)
        widest = max(one.width(number, span) for one in self.stages for number in range(len(one)))
        self.most = max(1, min(PIECE // block, scores // (4 * widest * bank.heads)))
        device = bank.k_table.device
        self._lists = 1 if config.join == "joint" else bank.heads
        self.room = Workspace.of(self.stages, caches[0], self.most, block * heads, self._lists, span)
        self._asked = min(self.most, -(-ASKING // block))
        self._asking_room = Workspace.of(self._asking, caches[0], self._asked, block * heads, self._lists, span)
        # Of one layer and sequence at a time: every block of a piece reads them, and in order they are read faster.
        index = caches[0].index if any(one.indexed for one in self.stages) else None
        self._codes = None if index is None else room(index)
        self._lse = torch.empty(self.most, block, heads, device=device)
        # An answer's last tokens, which no renewal of its layer has encoded: as far as streams grow.
        self._unread = config.stream + block + max(config.intervals(len(one))[0] for one in self.stages)
        self._last: dict[int, Taken] = {}
        self._coverage: dict[int, Tensor] = {}

    def attend(
        self,
        layer: int,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        out: Tensor,
        sequence: int,
        start: int,
        cache: LayerCache | None = None,
    ) -> None:
        """q and out `[T, H, D]`, k and v `[T, G, D]`, un-rotated, of positions start..start+T-1 of a sequence whose
        earlier tokens are stored. Blocks begin at multiples of the block length, as everywhere.

        `cache`: what is read and written instead of the layer's own, with the same sequences in it."""
        cache, length = cache or self._caches[layer], len(q)
        piece, device = _Piece(layer, cache, sequence, start + length), q.device
        write(k[None], v[None], cache.bank, _int(sequence, device), _int(start, device))
        if self.stages[layer].indexed:
            assert cache.index is not None
            begin, end = torch.zeros(2, cache.bank.k_table.shape[0], dtype=torch.int32, device=device).unbind(0)
            begin[sequence], end[sequence] = max(0, start - self._unread), start + length
            encode(cache.bank, cache.index, begin, end, length + self._unread)
            if start + length > self._config.dense_below and self._codes is not None:
                gather(cache.index, sequence, start + length, self._codes)
                piece = replace(piece, codes=replace(self._codes, basis=cache.index.basis))
        self._last.pop(layer, None)
        self._coverage[layer] = torch.ones((), device=device)
        block, at = self._config.block_q, min(length, max(0, self._config.dense_below - start))
        if at:
            attend_dense(q[:at], cache.bank, sequence, start, self._rope, out[:at])
        while at < length:
            behind = (start + at) % block
            whole = 0 if behind else (length - at) // block
            reading = max(0, length - ASKING - at) // block
            most = min(self.most, reading) if reading else self._asked
            count = min(whole, most) * block or min(block - behind, length - at)
            some = slice(at, at + count)
            run = self._whole if whole else self._part
            run(piece, q[some], out[some], start + at, reading > 0)
            at += count

    def _whole(self, piece: "_Piece", q: Tensor, out: Tensor, start: int, reading: bool) -> None:
        block = self._config.block_q
        q, out = (x.unflatten(0, (-1, block)) for x in (q, out))
        self._blocks(piece, q, out, start, block, reading)

    def _part(self, piece: "_Piece", q: Tensor, out: Tensor, start: int, reading: bool) -> None:
        """An incomplete block: its last query is repeated, which selects nothing new where queries stand at one place
        and hardly anything where the repeated ones stand behind it."""
        padded = torch.cat([q, q[-1:].expand(self._config.block_q - len(q), *q.shape[1:])])[None]
        answers = torch.empty_like(padded)
        self._blocks(piece, padded, answers, start, len(q), reading)
        out.copy_(answers[0, : len(q)])

    def _blocks(self, piece: "_Piece", q: Tensor, out: Tensor, start: int, real: int, reading: bool) -> None:
        """Blocks `[R, block, H, D]` that begin at `start`, R at most what the workspace holds; the last has `real`
        queries."""
        config, layer, cache = self._config, piece.layer, piece.cache
        stages, space = (self.stages[layer], self.room) if reading else (self._asking[layer], self._asking_room)
        count, block = q.shape[:2]
        limit = max(0, (start // block + count - 1) * block - config.stream)
        rows = self.rows(count, piece.sequence, start, piece.end, q.device)
        kept = stages.room(count, self._lists, q.device)
        if limit > config.sink:
            stages.run(q, rows, cache, kept, stages.span(limit), replace(space, codes=piece.codes), 0)
        else:
            for one in kept:
                one.starts.fill_(-1)
                one.count.zero_()
                one.dropped.fill_(-torch.inf)
        lse, last = self._lse[:count], stages.settings[-1]
        stream, style = config.stream + block, config.rope
        attend_prefill(q, rows, cache.bank, kept[-1], last.chunk, config.sink, stream, style, self._rope, out, lse)
        if start + (count - 1) * block + real == piece.end:
            self._last[layer] = Taken([_last(one) for one in kept], limit)
            self._coverage[layer] = covered(torch.stack([one.dropped[-1] for one in kept]), lse[-1, :real].amax(0))

    def rows(self, count: int, sequence: int, start: int, end: int, device: torch.device) -> Rows:
        """`count` blocks of a sequence from position `start` on, of a piece after which it has `end` tokens."""
        config = self._config
        first = torch.arange(start, start + count * config.block_q, config.block_q, dtype=torch.int32, device=device)
        limits = (first // config.block_q * config.block_q - config.stream).clamp(min=0)
        divisor = extend_scale(end, config.window, config.stream + config.block_q)
        return Rows(torch.full_like(first, sequence), first, limits, torch.full_like(first, divisor))

    def taken(self) -> list[Taken]:
        """The masks of the last piece's last block in each layer, for DecodeAttention.take; none of one inside the
        window."""
        return [self._last[layer] for layer in sorted(self._last)]

    def coverage(self) -> Tensor:
        """Estimated share of attention mass that the last piece's last block kept in each layer, `[layers]`; see
        coverage.py."""
        return torch.stack([self._coverage[layer] for layer in sorted(self._coverage)])


@dataclass(frozen=True)
class _Piece:
    """A piece of a sequence in a layer; where that lies; tokens that the sequence has after it; its keys' codes, where
    they are read."""

    layer: int
    cache: LayerCache
    sequence: int
    end: int
    codes: Codes | None = None


def _last(kept: Kept) -> Kept:
    return Kept(kept.starts[-1:].clone(), kept.count[-1:].clone(), kept.dropped[-1:].clone())


def _int(value: int, device: torch.device) -> Tensor:
    return torch.full((1,), value, dtype=torch.int32, device=device)
