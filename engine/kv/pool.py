"""The KV pool: un-rotated keys and values of all layers in host memory, in blocks of 64 tokens.

One reservation of address space holds the whole pool; the machine gives memory to a block when it is first written and
takes it back when it is freed. A slot is the place of one token, the same in every layer, so a context is a list of
runs of slots and any set of its keys is one gather. The pool does not know what the tokens are.

L layers, G key/value heads, S slots, D head dimension.
"""

import mmap
from collections.abc import Iterable
from dataclasses import dataclass

import torch

from unabridged.engine.errors import OutOfMemory
from unabridged.engine.kv import memory

BLOCK = 64
# Kept free for activations and the rest of the machine when the pool grows.
RESERVE_BYTES = 512 << 20


@dataclass(frozen=True)
class Run:
    """`length` tokens in consecutive slots from `start`. `start` is a multiple of BLOCK."""

    start: int
    length: int

    @property
    def blocks(self) -> int:
        """Blocks that the run occupies."""
        return -(-self.length // BLOCK)


def whole_blocks(tokens: int) -> int:
    """Slots that `tokens` tokens occupy."""
    return -(-tokens // BLOCK) * BLOCK


class KvPool:
    """Blocks of KV, handed out as runs. `k` and `v` are `[L, G, S, D]`; what was never written is undefined."""

    def __init__(self, layers: int, kv_heads: int, head_dim: int, limit_bytes: int, dtype: torch.dtype) -> None:
        self.token_bytes = 2 * layers * kv_heads * head_dim * dtype.itemsize
        blocks = limit_bytes // (self.token_bytes * BLOCK)
        if blocks < 1:
            raise OutOfMemory(
                f"a KV pool of {limit_bytes:,} bytes holds no block of {BLOCK} tokens", "raise the engine's kv_bytes"
            )
        self.slots = blocks * BLOCK
        self._memory = _reserve(self.token_bytes * self.slots)
        flat = torch.frombuffer(self._memory, dtype=dtype)
        self.k, self.v = flat.view(2, layers, kv_heads, self.slots, head_dim).unbind(0)
        self._free: list[tuple[int, int]] = [(0, blocks)]  # (first block, blocks), ascending, never touching

    @property
    def free_tokens(self) -> int:
        """Slots not handed out."""
        return sum(count for _, count in self._free) * BLOCK

    def allocate(self, tokens: int) -> list[Run]:
        """Runs for `tokens` tokens, one run where the free blocks allow it. Raises OutOfMemory and takes nothing."""
        wanted = -(-tokens // BLOCK)
        if wanted * BLOCK > self.free_tokens:
            raise OutOfMemory(
                f"the KV pool has room for {self.free_tokens:,} of {tokens:,} tokens", "raise the engine's kv_bytes"
            )
        self._check_machine(wanted * BLOCK * self.token_bytes)
        runs, left = [], tokens
        for start, count in self._take(wanted):
            length = min(left, count * BLOCK)
            runs.append(Run(start * BLOCK, length))
            left -= length
        return runs

    def free(self, runs: Iterable[Run]) -> None:
        """Take runs back and return their memory to the machine."""
        for run in runs:
            self._give(run.start // BLOCK, run.blocks)
            self._release(run.start, run.blocks * BLOCK)

    def close(self) -> None:
        """Forget everything. The tensors must not be used afterwards."""
        self.k = self.v = torch.zeros(0)

    def _check_machine(self, wanted: int) -> None:
        free = memory.available() - RESERVE_BYTES
        if wanted > free:
            raise OutOfMemory(
                f"{wanted:,} bytes of KV are needed, the machine has {max(0, free):,} free",
                "ask over fewer documents or close other programs",
            )

    def _take(self, wanted: int) -> list[tuple[int, int]]:
        for i, (start, count) in enumerate(self._free):
            if count >= wanted:
                self._free[i : i + 1] = [(start + wanted, count - wanted)] if count > wanted else []
                return [(start, wanted)]
        taken = []
        while wanted:
            start, count = self._free.pop(0)
            part = min(count, wanted)
            taken.append((start, part))
            wanted -= part
            if part < count:
                self._free.insert(0, (start + part, count - part))
        return taken

    def _give(self, start: int, count: int) -> None:
        merged: list[tuple[int, int]] = []
        for first, blocks in sorted([*self._free, (start, count)]):
            if merged and sum(merged[-1]) == first:
                merged[-1] = (merged[-1][0], merged[-1][1] + blocks)
            else:
                merged.append((first, blocks))
        self._free = merged

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
