"""The KV pool: un-rotated keys and values of all layers in host memory, in blocks of 64 tokens.

One reservation of address space holds the whole pool; the machine gives memory to a block when it is first written and
takes it back when it is freed. A slot is the place of one token, the same in every layer, so a context is a list of
runs of slots and any set of its keys is one gather. The pool does not know what the tokens are.

L layers, G key/value heads, S slots, D head dimension.
"""

import mmap
from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from unabridged.engine.kv import memory
from unabridged.engine.kv.blocks import BLOCK, Blocks, Run, copy_parts, whole_blocks


class KvPool:
    """Blocks of KV, handed out as runs. `k` and `v` are `[L, G, S, D]`; what was never written is undefined."""

    page = 1
    order = "2LGND"

    def __init__(self, layers: int, kv_heads: int, head_dim: int, limit_bytes: int, dtype: torch.dtype) -> None:
        self.shape, self.dtype = (layers, kv_heads, head_dim), dtype
        self.token_bytes = 2 * layers * kv_heads * head_dim * dtype.itemsize
        self._blocks = Blocks(limit_bytes, self.token_bytes)
        self.slots = self._blocks.slots
        self._memory = _reserve(self.token_bytes * self.slots)
        flat = torch.frombuffer(self._memory, dtype=dtype)
        self.k, self.v = flat.view(2, layers, kv_heads, self.slots, head_dim).unbind(0)

    @property
    def free_tokens(self) -> int:
        """Slots not handed out."""
        return self._blocks.free_tokens

    def check(self, tokens: int) -> None:
        """Raises OutOfMemory where `allocate` would."""
        self._blocks.check(tokens)
        memory.require(whole_blocks(tokens) * self.token_bytes)

    def allocate(self, tokens: int) -> list[Run]:
        """Runs for `tokens` tokens, one run where the free blocks allow it. Raises OutOfMemory and takes nothing."""
        self.check(tokens)
        return self._blocks.allocate(tokens)

    def free(self, runs: Iterable[Run]) -> None:
        """Take runs back and return their memory to the machine."""
        for run in runs:
            self._blocks.free([run])
            self._release(run.start, run.blocks * BLOCK)

    def read(self, runs: Sequence[Run]) -> Tensor:
        """Keys and values of runs, one after the other: `[2, L, G, N, D]`, copied."""
        slots = [slice(run.start, run.start + run.length) for run in runs]
        return torch.stack([torch.cat([half[:, :, one] for one in slots], dim=2) for half in (self.k, self.v)])

    def write(self, runs: Sequence[Run], data: Tensor) -> None:
        """Put what `read` gave into runs of as many tokens."""
        for run, (k, v) in zip(runs, data.split([run.length for run in runs], dim=3), strict=True):
            slots = slice(run.start, run.start + run.length)
            self.k[:, :, slots], self.v[:, :, slots] = k, v

    def take(self, runs: Sequence[Run], into: memoryview) -> None:
        """See blocks.Pool."""
        copy_parts(self.incoming(runs), into)

    def incoming(self, runs: Sequence[Run]) -> list[memoryview]:
        """See blocks.Pool."""
        layers, heads, dim = self.shape
        whole, row = memoryview(self._memory), dim * self.dtype.itemsize
        spans = [
            ((plane * self.slots + run.start) * row, run.length * row)
            for plane in range(2 * layers * heads)
            for run in runs
        ]
        return [whole[start : start + size] for start, size in spans]

    def arrived(self, runs: Sequence[Run], places: Sequence[memoryview]) -> None:
        """See blocks.Pool. Nothing is kept of what lies there."""

    def close(self) -> None:
        """Forget everything. The tensors must not be used afterwards."""
        self.k = self.v = torch.zeros(0)

    def _release(self, start: int, slots: int) -> None:
        if not hasattr(mmap, "MADV_DONTNEED"):
            return
        planes = self.k.shape[0] * self.k.shape[1] * 2
        row = self.k.shape[-1] * self.k.element_size()
        for plane in range(planes):
            first = (plane * self.slots + start) * row
            begin = -(-first // mmap.PAGESIZE) * mmap.PAGESIZE
            end = (first + slots * row) // mmap.PAGESIZE * mmap.PAGESIZE
            if end > begin:
                self._memory.madvise(mmap.MADV_DONTNEED, begin, end - begin)


def _reserve(size: int) -> mmap.mmap:
    # MAP_NORESERVE (0x4000 on Linux; Python 3.11 has no name for it): address space now, memory at the first write.
    flags = getattr(mmap, "MAP_PRIVATE", 0) | getattr(mmap, "MAP_ANONYMOUS", 0) | 0x4000
    return mmap.mmap(-1, size, flags=flags)
