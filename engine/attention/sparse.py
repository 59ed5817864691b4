"""Sparse attention over one context past the window: blocks of queries when prefilling, one query when decoding.

Decoding keeps each layer's attended keys, rotated, in one buffer: a step that renews no mask appends one key and
attends. H query heads, G key/value heads, D head dimension, T new tokens.
"""

import torch
from torch import Tensor

from unabridged.engine.attention.config import AttentionConfig
from unabridged.engine.attention.coverage import coverage
from unabridged.engine.attention.decode import DecodeBuffer
from unabridged.engine.attention.keys import PooledKeys
from unabridged.engine.attention.masks import MaskCache
from unabridged.engine.attention.positions import Rules
from unabridged.engine.attention.reference import attended_index, limits_of, sparse_attention
from unabridged.engine.attention.rope import Rotary
from unabridged.engine.attention.select import Block, Selection, Selector, select
from unabridged.engine.attention.witness import Seen
from unabridged.engine.kv.tables import Context

# Blocks that attend in one product: enough to use the cores, few enough to stay in their caches.
_BATCH = 4


class _Mean:
    def __init__(self) -> None:
        self._sum, self._count = 0.0, 0

    def add(self, value: float) -> None:
        self._sum += value
        self._count += 1

    def value(self, default: float) -> float:
        return self._sum / self._count if self._count else default


class _LayerState:
    """What a layer keeps from one decode step to the next."""

    def __init__(self, masks: MaskCache, cap: float | None) -> None:
        self.masks = masks
        self.limit = 0
        self.buffer = DecodeBuffer(cap)


class SparseAttention:
    """See the module. The keys it reads are already in the context's pool."""

    def __init__(self, context: Context, config: AttentionConfig, rotary: Rotary, cap: float | None = None) -> None:
        """`cap`: see plain.capped."""
        self._context, self._config, self._rotary, self._cap = context, config, rotary, cap
        self._states: dict[int, _LayerState] = {}
        self._attended, self._coverage = _Mean(), _Mean()

    @property
    def attended(self) -> int:
        """Mean number of keys a query attended to."""
        return round(self._attended.value(0.0))

    @property
    def coverage(self) -> float:
        """Estimated share of attention mass that the selections kept."""
        return self._coverage.value(1.0)

    def attend(self, layer: int, q: Tensor, start: int) -> Tensor:
        """Attend with q `[H, T, D]` of positions start..start+T-1, whose keys and values are in the pool."""
        self._states.pop(layer, None)
        return self._prefill(layer, q, start)

    def _keep(self, layer: int, limit: Tensor, stages: list[Selection]) -> None:
        """The last block's masks are the first that decoding uses: no step has to renew those of all layers."""
        state = self._new_state(layer)
        state.limit = int(limit)
        state.masks.renew(0, [stage.last() for stage in stages])

    def _rules(self, length: int) -> Rules:
        return Rules(self._config.stream, self._config.block_q, self._config.window, length)

    def _selector(self, layer: int, rules: Rules) -> Selector:
        return Selector(self._rotary, self._config.layer(layer).selection_rope, self._config.join, rules)

    def _prefill(self, layer: int, q: Tensor, start: int) -> Tensor:
        keys, rules = PooledKeys(self._context, layer), self._rules(start + q.shape[1])
        block = self._blocks(q, start)
        stages: list[Selection] = []
        if int(block.limits.max()) > self._config.sink:
            selector = self._selector(layer, rules)
            block, stages = select(selector, block, keys, self._config.layer(layer).stages, self._config.sink)
            self._keep(layer, block.limits[-1], stages)
        ends = block.positions[:, -1] + 1
        out = torch.empty_like(block.q)
        for at in range(0, len(out), _BATCH):
            some = slice(at, at + _BATCH)
            part = Block(block.q[some], block.positions[some], block.limits[some])
            index = attended_index(
                stages[-1].index[some] if stages else None, part.limits, self._config.sink, ends[some]
            )
            attended = sparse_attention(part, index, keys, self._rotary, self._config.rope, rules, self._cap)
            out[some] = attended.out
        self._attended.add(float((index[-1] >= 0).sum()) / index.shape[1])
        if stages and all(len(stage.kept) == len(out) for stage in stages):
            self._cover(stages, attended.lse[-1].unflatten(0, (keys.heads, -1)).amax((1, 2)))
        first = start % self._config.block_q
        return out.transpose(0, 1).flatten(1, 2)[:, first : first + q.shape[1]]

    def _blocks(self, q: Tensor, start: int) -> Block:
        """q `[H, T, D]` cut at multiples of block_q; incomplete blocks repeat a query of theirs, which selects nothing
        new and whose output is dropped."""
        size, end = self._config.block_q, start + q.shape[1]
        first = start // size * size
        positions = torch.arange(first, -(-end // size) * size).clamp(start, end - 1)
        blocks = q[:, positions - start].unflatten(1, (-1, size)).transpose(0, 1)
        positions = positions.view(-1, size)
        return Block(blocks, positions, limits_of(positions[:, 0], size, self._config.stream))

    def decode(self, layer: int, q: Tensor, k: Tensor, v: Tensor, position: int) -> tuple[Tensor, Seen]:
        """Attend with one query q `[H, D]` at `position`, whose k, v `[G, D]` are in the pool too.

        Returns `[H, D]` and what it looked at.
        """
        state = self._states.get(layer) or self._new_state(layer)
        due = state.masks.due()
        if due is None and not state.buffer.length:
            due = len(state.masks.outputs)
        stages: list[Selection] = []
        if due is not None:
            stages = self._renew(layer, state, q[:, None], position, due)
        else:
            state.buffer.append(self._rotary, k[:, None], v[:, None], position)
        state.masks.advance()
        out, probabilities, lse = state.buffer.attend(self._rotary, q, position, want_lse=due == 0)
        self._attended.add(state.buffer.length)
        if due == 0 and lse is not None:
            self._cover(stages, lse)
        return out, Seen(probabilities, state.buffer.positions)

    def _new_state(self, layer: int) -> _LayerState:
        intervals = self._config.intervals(len(self._config.layer(layer).stages))
        state = self._states[layer] = _LayerState(MaskCache(intervals, layer % intervals[0]), self._cap)
        return state

    def _renew(self, layer: int, state: _LayerState, q: Tensor, position: int, due: int) -> list[Selection]:
        """Run the stages from number `due` on and gather what the layer attends to until the next time."""
        at = torch.tensor([[position]])
        if due == 0:
            state.limit = int(limits_of(at[0], self._config.block_q, self._config.stream))
        rules, keys = self._rules(position + 1), PooledKeys(self._context, layer)
        block = Block(q[None], at, torch.tensor([state.limit]))
        stages: list[Selection] = []
        if state.limit > self._config.sink:
            selector, given = self._selector(layer, rules), state.masks.before(due)
            settings = self._config.layer(layer).stages
            block, stages = select(selector, block, keys, settings, self._config.sink, due, given)
            state.masks.renew(due, stages)
        kept = state.masks.outputs
        index = attended_index(kept[-1].index if kept else None, block.limits, self._config.sink, at[0] + 1)
        state.buffer.fill(self._rotary, keys, index, block, self._config.rope, rules)
        return stages

    def _cover(self, stages: list[Selection], lse: Tensor) -> None:
        self._coverage.add(coverage(stages, lse, self._cap) if stages else 1.0)
