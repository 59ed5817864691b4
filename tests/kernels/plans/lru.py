"""Launches of lru: both banks of a decode step at 1M tokens, the lists that heads share, and the widest."""

import torch
from tests.kernels import meta
from tests.kernels.made import FP8, Shape

from unabridged.engine.attention.limits import CHOSEN
from unabridged.engine.gpu.kernels.lru import Lru, plan_fetch, plan_update
from unabridged.models.kernels.launch import Launch

SINK, RING = 16, 76


def _lru(rows: int, heads: int, slots: int, room: int) -> Lru:
    def numbers(*shape: int, dtype: torch.dtype = torch.int32) -> torch.Tensor:
        return meta.empty(rows, heads, *shape, dtype=dtype)

    table, owner, stamp = numbers(meta.CONTEXT // 16), numbers(slots), numbers(slots)
    pages, slots_of, clock, missing = numbers(room), numbers(room), numbers(), numbers()
    hits, misses = (numbers(dtype=torch.int64) for _ in range(2))
    return Lru(table, owner, stamp, clock, pages, slots_of, missing, hits, misses, SINK, RING)


def _update(chunks: int, chunk: int, slots: int, lists: int = 8) -> Launch:
    room = chunks * max(1, chunk // 16)
    limits = meta.empty(1, dtype=torch.int32)
    return plan_update(meta.kept(1, lists, chunks), chunk, limits, _lru(1, 8, slots, room))


def _fetch(shape: Shape, dtype: torch.dtype, slots: int, room: int) -> Launch:
    pool, lru = meta.bank(shape, dtype), _lru(1, shape.kv_heads, slots, room)
    target = meta.empty(shape.kv_heads * (SINK + RING + slots), 16, shape.dim, dtype=dtype)
    return plan_fetch(lru, pool.k, pool.k_table, target)


def plans() -> dict[str, Launch]:
    """The 8B shape."""
    return {
        "keys": _update(2048, 16, 3584),
        "values": _update(128, 16, 512),
        "fetch": _fetch(meta.LLAMA_8B, FP8, 3584, 2048),
    }


def slow_plans() -> dict[str, Launch]:
    """The paper's chunks, other heads and types, the widest bank."""
    return {
        "256": _update(128, 256, 3584, lists=1),
        "8": _update(512, 8, 1024, lists=1),
        "few": _update(5, 16, 9),
        "widest": _update(CHOSEN, 16, CHOSEN),
        "fetch-64": _fetch(meta.SMOLLM2, torch.float16, 512, 128),
        "fetch-80": _fetch(Shape(32, 8, 80), FP8, 512, 128),
        "fetch-256": _fetch(meta.WIDE, torch.float32, 512, 128),
    }
