"""What decode steps read and write on the GPU where the pool lies in host memory, and the memory for it.

    Resident     what all of it does: take in a row, let go of it, pass on what a step stored
    Whole        rows as they are, for steps that attend to everything (banks.py has what sparse steps want)
    BankMemory   the memory of all batches of a configuration
    Traffic      what came over the bus

Every step leaves its rows' newest token in the pool, so nothing has to be saved when a row leaves.

L layers, B rows, G key/value heads, D head dimension.
"""

from dataclasses import dataclass, replace
from typing import Protocol

import torch
from torch import Tensor

from unabridged.engine.attention.kernels.layout import PAGE
from unabridged.engine.attention.stages import LayerCache
from unabridged.engine.gpu.bank_pages import BankRoom
from unabridged.engine.gpu.kernels.pages import Paged, copy_pages, store_newest
from unabridged.engine.gpu.pool import GpuPool
from unabridged.engine.gpu.tables import Tables

# Programs of a copy that steps wait for.
PROGRAMS = 132


@dataclass(frozen=True)
class Traffic:
    """Pages of keys and of values that renewals, and the masks that a row came with, found in the banks, and those that
    came over the bus: `[2, L]` int64 each, on the host. `page_bytes`: of one. `steps`: in which any came."""

    found: Tensor
    fetched: Tensor
    page_bytes: int
    steps: int

    def __add__(self, other: "Traffic") -> "Traffic":
        steps = self.steps + other.steps
        return Traffic(self.found + other.found, self.fetched + other.fetched, self.page_bytes, steps)

    @property
    def rates(self) -> tuple[float, float]:
        """Shares of pages of keys and of values that were there; 1 where none was asked for."""
        found, asked = self.found.sum(1), (self.found + self.fetched).sum(1)
        keys, values = (found / asked.clamp(min=1)).where(asked > 0, 1.0).tolist()
        return keys, values

    @property
    def bytes(self) -> int:
        """That came over the bus."""
        return self.page_bytes * int(self.fetched.sum())


class BankMemory:
    """Memory for the banks of the batches of one configuration (BankRoom). What is in it is a row's only while the row
    holds a sequence."""

    def __init__(self, pool: GpuPool, room: BankRoom) -> None:
        """Taken when the first batch needs it."""
        self.room = room
        self._pool = pool
        self._memory: Tensor | None = None

    def halves(self, rows: int, dense: bool) -> tuple[Tensor, Tensor]:
        """Keys and values of the batch, `[L, slots, PAGE, D]` each."""
        layers, heads, dim = self._pool.shape
        if self._memory is None:
            # Zeros: rows without a sequence read slot 0 whatever is there, and numbers must come of it.
            shape = self.room.total, layers * heads * PAGE * dim
            self._memory = torch.zeros(shape, dtype=self._pool.dtype, device=self._pool.device)
        part = self.room.part(rows, dense)
        own = self._memory[part.start : part.stop]
        keys = rows * (self.room.dense if dense else self.room.pages(rows).each[0])
        k, v = (half.view(layers, -1, PAGE, dim) for half in (own[:keys], own[keys:]))
        return k, v


class Resident(Protocol):
    """What the steps of one kind read and write instead of the pool. `caches`: one a layer."""

    caches: list[LayerCache]

    def admit(self, row: int, length: int) -> None:
        """The row's sequence of `length` tokens, which tables and pool have, is decoded."""
        ...

    def clear(self, row: int) -> None:
        """The row holds no sequence."""
        ...

    def stored(self, first: Tensor) -> None:
        """A step has written the tokens at positions `first` `[B]` of all layers: on to the pool."""
        ...

    def traffic(self, row: int) -> Traffic | None:
        """Of the row since it was admitted, if it is counted. Waits for the device."""
        ...


class Whole:
    """See the module. As `Resident`; rows of up to `dense_below` tokens."""

    def __init__(self, pool: GpuPool, tables: Tables, memory: BankMemory) -> None:
        """`tables`: where the rows' tokens lie in the pool."""
        rows, heads, _ = tables.slots.shape
        pages, device = memory.room.dense, pool.device
        k, v = memory.halves(rows, dense=True)
        table = torch.full((rows, heads, pages), -1, dtype=torch.int32, device=device)
        order = torch.arange(rows * heads * pages, dtype=torch.int32, device=device)
        self._table, self._order, self._layers = table, order.view_as(table), range(len(k))
        self._pool = pool.paged(tables)
        self._own = Paged(k, v, table[None], table[None])
        self.caches = [
            replace(cache, bank=replace(cache.bank, k=k[layer], v=v[layer], k_table=table, v_table=table))
            for layer, cache in enumerate(pool.caches(tables))
        ]

    def admit(self, row: int, length: int) -> None:
        """See Resident."""
        self._table[row] = self._order[row]
        copy_pages(self._pool, self._own, row, row, 0, -(-length // PAGE), self._layers, programs=PROGRAMS)

    def clear(self, row: int) -> None:
        """See Resident."""
        self._table[row] = -1

    def stored(self, first: Tensor) -> None:
        """See Resident."""
        store_newest(self._own, self._pool, first)

    def traffic(self, row: int) -> Traffic | None:
        """See Resident. Nothing is chosen."""
        return None
