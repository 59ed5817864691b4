"""Bytes that a decode step must read: weights as they are stored, and of each row's context what its preset attends to
and, over a refresh period, scores."""

from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

from torch import Tensor

from unabridged.engine.attention.config import AttentionConfig, LayerAttention
from unabridged.engine.gpu.pool import GpuPool
from unabridged.models.llama import Llama


@dataclass(frozen=True)
class Floor:
    """Bytes of one step: of the linear layers, the head, the keys and values attended, the stages' reads spread over
    the steps between two runs."""

    linears: int
    head: int
    attended: int
    scored: int

    @property
    def total(self) -> int:
        """All of them."""
        return self.linears + self.head + self.attended + self.scored


def floor(model: Llama, config: AttentionConfig, pool: GpuPool, length: int, rows: int) -> Floor:
    """Of a step of `rows` rows that share nothing but weights."""
    layers, heads, dim = pool.shape
    key = heads * dim * pool.dtype.itemsize
    if length < config.dense_below:
        return Floor(stored(model.layers), stored(model.head), rows * layers * 2 * length * key, 0)
    attended = scored = 0.0
    for number in range(layers):
        layer = config.layer(number)
        attended += 2 * key * (config.sink + config.stream + layer.stages[-1].keep)
        scored += _scored(config, layer, length, key, heads * (dim // 8 + 1))
    return Floor(stored(model.layers), stored(model.head), round(rows * attended), round(rows * scored))


def _scored(config: AttentionConfig, layer: LayerAttention, length: int, key: int, codes: int) -> float:
    keys, total = length - config.sink - config.stream, 0.0
    for stage, interval in zip(layer.stages, config.intervals(len(layer.stages)), strict=True):
        if stage.scorer == "index":
            read = keys * codes
        elif stage.scorer == "exact":
            read = keys * key
        else:
            # A tournament reads log2(l) + 1 keys of a chunk, if the heads of a group agree on them.
            read = keys // stage.chunk * stage.chunk.bit_length() * key
        total += read / interval
        keys = min(keys, stage.keep)
    return total


def stored(part: object) -> int:
    """Bytes of all tensors of a part of a model, each once."""
    found = {(x.untyped_storage().data_ptr()): x.untyped_storage().nbytes() for x in _tensors(part, set())}
    return sum(found.values())


def _tensors(part: Any, seen: set[int]) -> Iterator[Tensor]:
    if isinstance(part, Tensor):
        yield part
    elif id(part) not in seen:
        seen.add(id(part))
        for inner in _inside(part):
            yield from _tensors(inner, seen)


def _inside(part: Any) -> list[Any]:
    if isinstance(part, tuple | list):
        return list(part)
    if not type(part).__module__.startswith("unabridged"):
        return []
    if is_dataclass(part):
        return [getattr(part, one.name) for one in fields(part)]
    return list(vars(part).values())
