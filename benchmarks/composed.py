"""Documents read once on a device, and contexts made of them as tables of pages: nothing is copied.

Every document is read dense behind the same prefix; its pages then stand in any context, since keys are stored
un-rotated. G key/value heads, D head dimension, B contexts.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from benchmarks.haystack import DOCUMENT, PREFIX, Haystack
from torch import Tensor

from unabridged.engine.attention.index_basis import Basis
from unabridged.engine.attention.kernels.bank_write import write
from unabridged.engine.attention.kernels.index import Index, encode
from unabridged.engine.attention.kernels.layout import PAGE, Bank
from unabridged.engine.attention.kernels.oracle import BankKeys
from unabridged.engine.attention.kernels.rope import RopeTables
from unabridged.engine.attention.stages import LayerCache
from unabridged.models.config import ModelConfig
from unabridged.models.llama import Llama

# Tokens behind the documents: a question and its answer.
ROOM = 128


class Reader:
    """A dense causal `Attend` with true positions that can keep un-rotated keys and values."""

    def __init__(self, rope: RopeTables, keep: bool = False) -> None:
        self._angles, self._keep = rope.near, keep
        self.kept: list[tuple[Tensor, Tensor]] = []

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        if self._keep:
            self.kept.append((k, v))
        q, k, v = (x.transpose(0, 1)[None] for x in (self.turn(q, 0), self.turn(k, 0), v))
        out = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        return out[0].transpose(0, 1)

    def turn(self, x: Tensor, start: int) -> Tensor:
        """x `[T, n, D]` at positions from `start` on."""
        cos, sin = self._angles[start : start + len(x)].unbind(1)
        low, high = x.chunk(2, -1)
        cos, sin = cos[:, None], sin[:, None]
        return torch.cat((low * cos - high * sin, high * cos + low * sin), -1)

    def probabilities(self, q: Tensor, k: Tensor, start: int) -> Tensor:
        """q `[T, H, D]` at `start` over k `[G, N, D]` from 0 on: `[H, T, N]`."""
        q = self.turn(q, start).transpose(0, 1)
        k = self.turn(k.transpose(0, 1), 0).transpose(0, 1).repeat_interleave(len(q) // len(k), 0)
        logits = q @ k.mT * q.shape[-1] ** -0.5
        own = start + torch.arange(q.shape[1], device=q.device)
        future = torch.arange(k.shape[1], device=q.device) > own[:, None]
        probabilities: Tensor = logits.masked_fill(future, -torch.inf).softmax(-1)
        return probabilities


@dataclass(frozen=True)
class Contexts:
    """B contexts of `length` tokens with room behind them; `facts`: where each one's needle lies."""

    caches: tuple[LayerCache, ...]
    length: int
    needles: tuple[int, ...]
    facts: tuple[range, ...] = ()

    def needle_chunks(self, sequence: int, start: int, chunk: int) -> Tensor:
        """First positions of the chunks, counted from `start`, that hold a needle's tokens."""
        fact = self.facts[sequence]
        first = start + (fact.start - start) // chunk * chunk
        return torch.arange(first, fact.stop, chunk, dtype=torch.int32, device=self.caches[0].bank.k.device)

    def keys(self, layer: int, end: int) -> Tensor:
        """Keys `[G, end, D]` of the first context."""
        (_, keys), *_ = BankKeys(self.caches[layer].bank, 0).runs(0, end)
        return keys


class Library:
    """The pages of a prefix and of documents, of all layers, and rooms for what is asked behind them."""

    def __init__(
        self,
        config: ModelConfig,
        prefix: Sequence[int],
        documents: int,
        dtype: torch.dtype,
        rooms: int,
        bases: Sequence[Basis],
    ) -> None:
        """`rooms`: contexts at a time."""
        self._prefix, self._config, self._bases, self._dtype = prefix, config, bases, dtype
        self._pages = (PREFIX + documents * DOCUMENT) // PAGE
        self.caches = blank(config, bases, self._pages * PAGE + rooms * ROOM, dtype)
        self._all = self.caches[0].bank.k_table[0]

    def read(self, model: Llama, rope: RopeTables, documents: Sequence[Sequence[int]]) -> None:
        """Read the documents, in order, and encode all."""
        zero = torch.zeros(1, dtype=torch.int32, device="cuda")
        for number, document in enumerate(documents):
            reader = Reader(rope, keep=True)
            model.forward(torch.tensor([*self._prefix, *document], device="cuda"), reader)
            first = torch.full_like(zero, PREFIX + number * DOCUMENT)
            for cache, (k, v) in zip(self.caches, reader.kept, strict=True):
                k, v = (x.to(torch.bfloat16)[None] for x in (k, v))
                if number == 0:
                    write(k[:, :PREFIX].contiguous(), v[:, :PREFIX].contiguous(), cache.bank, zero, zero)
                write(k[:, PREFIX:].contiguous(), v[:, PREFIX:].contiguous(), cache.bank, zero, first)
        length = PREFIX + len(documents) * DOCUMENT
        for cache in self.caches:
            assert cache.index is not None
            encode(cache.bank, cache.index, zero, torch.full_like(zero, length), length)

    def contexts(self, hay: Haystack, needles: Sequence[int], documents: int) -> Contexts:
        """One context of `documents` documents for each needle."""
        orders, facts = [], []
        for needle in needles:
            order = hay.context(needle, documents)
            orders.append([number + (len(hay.fillers) if holder else 0) for holder, number in order])
            at = PREFIX + next(i for i, (holder, _) in enumerate(order) if holder) * DOCUMENT
            fact = hay.holders[needle].fact
            facts.append(range(at + fact.start, at + fact.stop))
        made = self._composed(orders)
        return replace(made, needles=tuple(needles), facts=tuple(facts))

    def empty(self, documents: int) -> Contexts:
        """A context of its own that holds nothing, with room for the prefix and `documents` documents."""
        length = PREFIX + documents * DOCUMENT
        return Contexts(tuple(blank(self._config, self._bases, length + ROOM, self._dtype)), length, ())

    def _composed(self, orders: Sequence[Sequence[int]]) -> Contexts:
        length = DOCUMENT // PAGE
        within = torch.arange(length, device="cuda")
        prefix = torch.arange(PREFIX // PAGE, device="cuda")
        order = torch.stack(
            [
                torch.cat(
                    [prefix, (PREFIX // PAGE + torch.tensor(own, device="cuda")[:, None] * length + within).flatten()]
                )
                for own in orders
            ]
        )
        room = self._pages + torch.arange(len(orders) * (ROOM // PAGE), device="cuda").view(len(orders), -1)
        pages = torch.cat([order, room], 1).int()
        table = self._all[:, pages].transpose(0, 1).contiguous()
        caches = tuple(self._cache(one, table, pages) for one in self.caches)
        return Contexts(caches, order.shape[1] * PAGE, ())

    def _cache(self, cache: LayerCache, table: Tensor, pages: Tensor) -> LayerCache:
        assert cache.index is not None
        bank = replace(cache.bank, k_table=table, v_table=table)
        return LayerCache(bank, replace(cache.index, table=pages))


def blank(config: ModelConfig, bases: Sequence[Basis], tokens: int, dtype: torch.dtype) -> list[LayerCache]:
    """Empty caches of one sequence of `tokens` tokens."""
    heads, slots = config.kv_heads, tokens // PAGE * config.kv_heads
    table = torch.arange(slots, dtype=torch.int32, device="cuda").view(-1, heads).T.contiguous()[None]
    # Keys of small models reach about 100: twice that fits into FP8 with a scale of 0.5.
    scale = torch.full((heads,), 0.5 if dtype == torch.float8_e4m3fn else 1.0, device="cuda")
    caches = []
    for basis in bases:
        k, v = (torch.zeros(slots, PAGE, config.head_dim, dtype=dtype, device="cuda") for _ in range(2))
        index = Index.empty(slots // heads, table[:, 0] // heads, basis.to("cuda"))
        caches.append(LayerCache(Bank(k, v, table, table, scale, scale), index))
    return caches
