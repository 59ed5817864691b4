"""Small banks of keys and values on the GPU for sparse decode steps, where the pool lies in host memory.

Of each layer, row and head they hold the sink, the stream, and what the stages chose between them. A row's head has
slots of its own in a bank of keys and in one of values: page p of the sink lies in slot p, a page of the stream in slot
p % ring behind them, a chosen one wherever kernels.lru put it, as the tables say. A page that is in no bank has its
ring slot in the table, so that new tokens need no upkeep: they are written where the table says. What is chosen is
fetched although the ring may still hold it, because it will not for long; pages of the stream are never chosen. A row
that holds no sequence has no slots.

The pool holds every token but the newest. A first stage without an index reads its keys there, and the index's codes
are made from there: the ring may have lost what left the stream, and in the banks nothing says so.

L layers, B rows, G key/value heads, A pages for what is chosen, P pages of a table.
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from unabridged.engine.attention.kernels.layout import PAGE, Kept
from unabridged.engine.attention.stages import LayerCache
from unabridged.engine.gpu.bank_pages import BankPages
from unabridged.engine.gpu.kernels.lru import Lru, fetch, update
from unabridged.engine.gpu.kernels.pages import Paged, copy_pages, store_newest
from unabridged.engine.gpu.kernels.tally import tally
from unabridged.engine.gpu.pool import GpuPool
from unabridged.engine.gpu.resident import PROGRAMS, BankMemory, Traffic
from unabridged.engine.gpu.tables import Tables


class Banks:
    """See the module. As `Resident`, and as attention.device.Offload."""

    def __init__(self, pool: GpuPool, tables: Tables, memory: BankMemory) -> None:
        """`tables`: where the rows' tokens lie in the pool."""
        rows, _, _ = tables.slots.shape
        self._pages = pages = memory.room.pages(rows)
        self._pool, self._slots, self._every = pool, tables.slots, pool.caches(tables)
        self._k, self._v = memory.halves(rows, dense=False)
        layers = len(self._every)
        self._counts = torch.zeros(2, 2, layers, *tables.slots.shape[:2], dtype=torch.int64, device=pool.device)
        # Pages fetched up to the last step, and steps that fetched any.
        self._before, self._fetching = torch.zeros(2, rows, dtype=torch.int64, device=pool.device).unbind(0)
        self._halves = [
            _Half.of(pages, own, listed, tables.slots, counts)
            for own, listed, counts in zip((pages.keys, pages.values), pages.listed, self._counts, strict=True)
        ]
        keys, values = self._halves
        self.caches = [
            replace(
                cache,
                bank=replace(cache.bank, k=self._k[i], v=self._v[i], k_table=keys.table[i], v_table=values.table[i]),
            )
            for i, cache in enumerate(self._every)
        ]
        self._whole = pool.paged(tables)
        self._own = Paged(self._k, self._v, keys.table, values.table)

    def admit(self, row: int, length: int) -> None:
        """See Resident. What masks name is fetched when the attention takes them."""
        for half in self._halves:
            half.begin(row)
        self._counts[:, :, :, row] = self._before[row] = self._fetching[row] = 0
        stored, sink = -(-length // PAGE), self._pages.sink
        recent = max(sink, stored - self._pages.ring)
        for first, end in ((0, min(sink, stored)), (recent, stored)):
            layers = range(len(self._every))
            copy_pages(self._whole, self._own, row, row, first, end - first, layers, programs=PROGRAMS)

    def clear(self, row: int) -> None:
        """See Resident."""
        for half in self._halves:
            half.table[:, row] = -1

    def stored(self, first: Tensor) -> None:
        """See Resident."""
        store_newest(self._own, self._whole, first)
        tally(self._counts, self._before, self._fetching)

    def traffic(self, row: int) -> Traffic | None:
        """See Resident."""
        found, fetched = self._counts[:, :, :, row].sum(-1).cpu().unbind(1)
        return Traffic(found, fetched, PAGE * self._k.shape[3] * self._k.dtype.itemsize, int(self._fetching[row]))

    def all(self, layer: int) -> LayerCache:
        """See Offload."""
        return self._every[layer]

    def keys(self, layer: int, kept: Kept, chunk: int, limits: Tensor) -> None:
        """See Offload."""
        self._bring(self._halves[0].layers[layer], kept, chunk, limits, self._pool.k[layer], self._k[layer])

    def values(self, layer: int, kept: Kept, chunk: int, limits: Tensor) -> None:
        """See Offload."""
        self._bring(self._halves[1].layers[layer], kept, chunk, limits, self._pool.v[layer], self._v[layer])

    def _bring(self, lru: Lru, kept: Kept, chunk: int, limits: Tensor, source: Tensor, target: Tensor) -> None:
        update(kept, chunk, limits, lru)
        fetch(lru, source, self._slots, target)


@dataclass(frozen=True)
class _Half:
    """Which pages of keys, or of values, are where: `table` `[L, B, G, P]` int32, `home` `[B, G, P]` the slots of sink
    and ring alone; of the chosen, `owner` and `stamp` `[L, B, G, A]`, `clock` `[L, B, G]`; `layers`, all that layer by
    layer."""

    table: Tensor
    home: Tensor
    owner: Tensor
    stamp: Tensor
    clock: Tensor
    layers: list[Lru]

    @classmethod
    def of(cls, pages: BankPages, chosen: int, listed: int, slots: Tensor, counts: Tensor) -> "_Half":
        """With room for `chosen` pages, lists of `listed`; slots `[B, G, P]`: the pool's table; counts `[2, L, B, G]`:
        found and fetched."""
        rows, heads, most = slots.shape
        layers, device = counts.shape[1], slots.device
        page = torch.arange(most, dtype=torch.int32, device=device)
        place = torch.where(page < pages.sink, page, pages.sink + page % pages.ring)
        part = torch.arange(rows * heads, dtype=torch.int32, device=device).view(rows, heads, 1)
        home = part * (pages.sink + pages.ring + chosen) + place
        table = torch.full((layers, *slots.shape), -1, dtype=torch.int32, device=device)
        owner, stamp = torch.zeros(2, layers, rows, heads, chosen, dtype=torch.int32, device=device).unbind(0)
        clock, missing = torch.zeros(2, layers, rows, heads, dtype=torch.int32, device=device).unbind(0)
        # Layers bring what they miss one after the other.
        found = torch.zeros(2, rows, heads, listed, dtype=torch.int32, device=device)
        lrus = [
            Lru(
                table=table[i],
                owner=owner[i],
                stamp=stamp[i],
                clock=clock[i],
                pages=found[0],
                slots=found[1],
                missing=missing[i],
                hits=counts[0, i],
                misses=counts[1, i],
                sink=pages.sink,
                ring=pages.ring,
            )
            for i in range(layers)
        ]
        return cls(table, home, owner, stamp, clock, lrus)

    def begin(self, row: int) -> None:
        """Only sink and ring of the row are there."""
        self.table[:, row] = self.home[row]
        self.owner[:, row] = -1
        self.stamp[:, row] = self.clock[:, row] = 0
