"""The KV pool of a GPU's engine: un-rotated keys and values of all layers, in pages of 16 tokens.

Page p holds tokens 16p..16p+15 of all heads and layers. In every layer head g has slot p * G + g of the bank for it, so
one table of slots serves all layers. A pool lies in GPU memory, which is taken once, or in host memory, which kernels
reach over the bus and which grows and shrinks with what is stored (host_memory).

With bases of an index the pool keeps codes of its keys too: of every token in it but the newest of rows that decode.
They lie in GPU memory always.

L layers, G key/value heads, D head dimension, N tokens.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from unabridged.engine.attention.index_basis import Basis
from unabridged.engine.attention.kernels.index import Index, encode
from unabridged.engine.attention.kernels.layout import PAGE, Bank
from unabridged.engine.attention.stages import LayerCache
from unabridged.engine.errors import EngineError, OutOfMemory
from unabridged.engine.gpu.host_memory import HostMemory, Place
from unabridged.engine.gpu.kernels.pages import Paged
from unabridged.engine.gpu.tables import Tables
from unabridged.engine.kv.blocks import BLOCK, Blocks, Run, copy_parts, packed_bytes
from unabridged.engine.kv.format import aligned

# FP8 holds numbers to 448 times these. Un-rotated keys of known models reach about 100 and values about 30, and numbers
# below a 64th of a scale lose digits.
K_SCALE, V_SCALE = 0.5, 0.25


class GpuPool:
    """See engine.kv.blocks.Pool. `dtype`: float8_e4m3fn, bfloat16, float16 or float32.

    k, v `[L, slots, PAGE, D]`, k_scale and v_scale `[G]`: see layout.Bank. `offloaded`: they lie in host memory.
    """

    page = PAGE
    order = "2LNGPD"

    def __init__(
        self,
        layers: int,
        kv_heads: int,
        head_dim: int,
        limit_bytes: int,
        dtype: torch.dtype = torch.float8_e4m3fn,
        device: torch.device | str = "cuda",
        bases: Sequence[Basis] = (),
        place: Place = "device",
    ) -> None:
        """Takes at most `limit_bytes`: on the device now, codes included; in host memory as tokens are stored, and
        codes come on top, on the device. `bases`: one a layer, or none for a pool without an index. Raises OutOfMemory
        when the limit is less than a block or more than is free, EngineUnavailable where the driver gives no memory."""
        self.shape, self.dtype, self.device = (layers, kv_heads, head_dim), dtype, torch.device(device)
        self.token_bytes = 2 * layers * kv_heads * head_dim * dtype.itemsize
        self.offloaded = place != "device"
        codes = kv_heads * sum(basis.key.shape[2] // 4 + 1 for basis in bases)
        self._blocks = Blocks(limit_bytes, self.token_bytes + (0 if self.offloaded else codes))
        self.slots = self._blocks.slots
        pages = self.slots // PAGE
        shape = layers, pages * kv_heads, PAGE, head_dim
        nowhere = torch.empty(0, 0, dtype=torch.int32, device=device)
        self._host: HostMemory | None = None
        self._freed = False
        try:
            self._indexes = [Index.empty(pages, nowhere, basis.to(device)) for basis in bases]
            if place == "device":
                # Zeros: rows without a sequence read slot 0 whatever is there, and numbers must come of it.
                self.k, self.v = (torch.zeros(shape, dtype=dtype, device=device) for _ in range(2))
            else:
                self._host = HostMemory((2 * layers, *shape[1:]), dtype, place, self.device)
                self.k, self.v = self._host.tensor.split(layers)
        except torch.OutOfMemoryError as error:
            raise OutOfMemory(
                f"a KV pool of {limit_bytes:,} bytes does not fit into the memory of {self.device}",
                "lower the engine's kv_bytes",
            ) from error
        scales = (K_SCALE, V_SCALE) if dtype == torch.float8_e4m3fn else (1.0, 1.0)
        self.k_scale, self.v_scale = (torch.full((kv_heads,), one, device=device) for one in scales)

    @property
    def free_tokens(self) -> int:
        """Slots not handed out."""
        return self._blocks.free_tokens

    def check(self, tokens: int) -> None:
        """Raises OutOfMemory where `allocate` would. No memory is taken."""
        runs = self._blocks.allocate(tokens)
        self._blocks.free(runs)
        if self._host is not None:
            self._host.check(map(self._span, runs))

    def allocate(self, tokens: int) -> list[Run]:
        """Runs for `tokens` tokens, one run where the free blocks allow it. Raises OutOfMemory and takes nothing. In
        host memory the host may write them at once, from any thread: steps in which a former owner's last tokens were
        still to be stored have ended."""
        runs = self._blocks.allocate(tokens)
        if self._freed:
            self.settle()
        if self._host is not None:
            try:
                for run in runs:
                    self._host.commit(*self._span(run))
            except EngineError:
                self.free(runs)
                raise
        return runs

    def free(self, runs: Iterable[Run]) -> None:
        """Take runs back, and give host memory to the machine where that is possible (host_ranges)."""
        self._freed = True
        for run in runs:
            self._blocks.free([run])
            if self._host is not None:
                self._host.release(*self._span(run))

    @property
    def indexed(self) -> bool:
        """Whether it keeps an index of the keys."""
        return bool(self._indexes)

    def paged(self, tables: Tables) -> Paged:
        """All layers' keys and values, where the rows of `tables` have them."""
        return Paged(self.k, self.v, tables.slots[None], tables.slots[None])

    def caches(self, tables: Tables) -> list[LayerCache]:
        """All layers as the rows of `tables` see them."""
        return [self._cache(layer, tables.slots, tables.pages) for layer in range(self.shape[0])]

    def encode(self, tables: Tables, row: int, start: int, end: int) -> None:
        """Bring positions start..end-1 of a row into the index, if there is one."""
        if not self._indexes or end <= start:
            return
        one = slice(row, row + 1)
        first, last = torch.tensor([[start], [end]], dtype=torch.int32).to(self.device, non_blocking=True).unbind(0)
        for layer in range(self.shape[0]):
            cache = self._cache(layer, tables.slots[one], tables.pages[one])
            assert cache.index is not None
            encode(cache.bank, cache.index, first, last, end - start)

    def _cache(self, layer: int, slots: Tensor, pages: Tensor) -> LayerCache:
        bank = Bank(self.k[layer], self.v[layer], slots, slots, self.k_scale, self.v_scale)
        return LayerCache(bank, replace(self._indexes[layer], table=pages) if self._indexes else None)

    def read(self, runs: Sequence[Run]) -> Tensor:
        """Keys and values of runs, one after the other: `[2, L, G, N, D]` on the host, in the pool's type. Waits for
        what the current stream has queued."""
        self.settle()
        packed = self._pack(runs, torch.empty(packed_bytes(self, runs), dtype=torch.uint8).view(self.dtype))
        parts = packed.transpose(2, 3).flatten(3, 4).split([_filled(run) for run in runs], dim=3)
        return torch.cat([part[:, :, :, : run.length] for part, run in zip(parts, runs, strict=True)], dim=3)

    def write(self, runs: Sequence[Run], data: Tensor) -> None:
        """Put what `read` gave into runs of as many tokens. What a run's last page holds behind them is undefined."""
        bits = data.contiguous().view(torch.uint8).split([run.length for run in runs], dim=3)
        pad = torch.nn.functional.pad
        whole = torch.cat([pad(x, (0, 0, 0, -x.shape[3] % PAGE)) for x in bits], dim=3)
        self._unpack(runs, whole.unflatten(3, (-1, PAGE)).transpose(2, 3).reshape(-1))
        for run in runs if self._indexes else ():
            self._encode(run)

    def take(self, runs: Sequence[Run], into: memoryview) -> None:
        """See blocks.Pool: pages as they lie. Waits for what the current stream has queued."""
        self.settle()
        if self._host is None:
            self._pack(runs, torch.frombuffer(into, dtype=self.dtype))
        else:
            copy_parts(self._places(self._host, runs), into)

    def incoming(self, runs: Sequence[Run]) -> list[memoryview]:
        """See blocks.Pool."""
        if self._host is not None:
            return self._places(self._host, runs)
        # Its pages appear where they are written: by those who read files, not here.
        return [aligned(packed_bytes(self, runs))]

    def arrived(self, runs: Sequence[Run], places: Sequence[memoryview]) -> None:
        """See blocks.Pool. The index is brought up to date."""
        if self._host is None:
            self._unpack(runs, torch.frombuffer(places[0], dtype=torch.uint8, count=packed_bytes(self, runs)))
        for run in runs if self._indexes else ():
            self._encode(run)

    def _places(self, host: HostMemory, runs: Sequence[Run]) -> list[memoryview]:
        planes, heads = host.tensor.view(torch.uint8).numpy(), self.shape[1]
        spans = [(run.start // PAGE * heads, _filled(run) // PAGE * heads) for run in runs]
        return [plane[first : first + count].reshape(-1).data for plane in planes for first, count in spans]

    def _pack(self, runs: Sequence[Run], out: Tensor) -> Tensor:
        """Copy the pages of runs, one after the other, to the host: `[2, L, n, G, PAGE, D]`."""
        layers, heads, dim = self.shape
        pages = [_filled(run) // PAGE for run in runs]
        out = out.view(2, layers, sum(pages), heads, PAGE, dim)
        for half, store in zip(out, (self.k, self.v), strict=True):
            for run, part in zip(runs, half.split(pages, dim=1), strict=True):
                _words(part).copy_(_words(self._pages(store, run)))
        return out

    def _unpack(self, runs: Sequence[Run], data: Tensor) -> None:
        """Put what `_pack` gave, in any shape and as bytes or not, into runs of as many tokens."""
        layers, heads, dim = self.shape
        pages = [_filled(run) // PAGE for run in runs]
        halves = data.view(self.dtype).view(2, layers, -1, heads, PAGE, dim)
        for half, store in zip(halves, (self.k, self.v), strict=True):
            for run, part in zip(runs, half.split(pages, dim=1), strict=True):
                _words(self._pages(store, run)).copy_(_words(part))

    def settle(self) -> None:
        """Wait for what the current stream has queued, where kernels write host memory: the host may read it then."""
        if self.offloaded and self.device.type == "cuda":
            torch.cuda.current_stream(self.device).synchronize()
        self._freed = False

    def _encode(self, run: Run) -> None:
        own = Tables(1, self.shape[1], run.length, self.device)
        own.put(0, [run])
        self.encode(own, 0, 0, run.length)

    def close(self) -> None:
        """Give the memory back. Nothing that reads it may be used afterwards, recorded steps least of all."""
        self.k = self.v = torch.zeros(0)
        self._indexes = []
        if self._host is not None:
            self._host.close()

    def _span(self, run: Run) -> tuple[int, int]:
        """The slots of a run's blocks."""
        each = self.shape[1] * BLOCK // PAGE
        first = run.start // BLOCK * each
        return first, first + run.blocks * each

    def _pages(self, store: Tensor, run: Run) -> Tensor:
        """A run's pages of all layers, `[L, n, G, PAGE, D]`."""
        by_page: Tensor = store.unflatten(1, (-1, self.shape[1]))
        return by_page[:, run.start // PAGE :][:, : -(-run.length // PAGE)]


def _words(x: Tensor) -> Tensor:
    """As numbers of eight bytes: copying those of eight bits takes longer."""
    return x.view(torch.int64 if x.shape[-1] * x.itemsize % 8 == 0 else torch.uint8)


def _filled(run: Run) -> int:
    """Slots of its pages."""
    return -(-run.length // PAGE) * PAGE
