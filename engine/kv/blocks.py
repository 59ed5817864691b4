"""What every KV pool is: slots in blocks of 64, handed out as runs. The memory behind them is the pool's own.

A slot is the place of one token in all layers; a context is a list of runs. Runs that are handed out never overlap, and
come back in whatever parts are not needed.

L layers, G key/value heads, D head dimension, N tokens.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from unabridged.engine.attention.limits import BLOCK as BLOCK
from unabridged.engine.errors import OutOfMemory


@dataclass(frozen=True)
class Run:
    """`length` tokens in consecutive slots from `start`. `start` is a multiple of BLOCK."""

    start: int
    length: int

    @property
    def blocks(self) -> int:
        """Blocks that the run occupies."""
        return -(-self.length // BLOCK)


def copy_parts(parts: Iterable[memoryview], into: memoryview) -> None:
    """Copy parts, one behind the other."""
    at = 0
    for part in parts:
        into[at : at + len(part)] = part
        at += len(part)


def packed_bytes(pool: "Pool", runs: Iterable[Run]) -> int:
    """The bytes of these runs."""
    return pool.token_bytes * sum(-(-run.length // pool.page) * pool.page for run in runs)


def whole_blocks(tokens: int) -> int:
    """Slots that `tokens` tokens occupy."""
    return -(-tokens // BLOCK) * BLOCK


class Pool(Protocol):
    """What cache and store need of a pool. `token_bytes`: of a token in all layers; `slots`: all that there are;
    `shape`: (L, G, D).

    For files, the KV of runs is bytes in an order that `order` names: those of whole pages of `page` tokens.
    """

    token_bytes: int
    slots: int
    dtype: torch.dtype
    shape: tuple[int, int, int]
    page: int
    order: str

    @property
    def free_tokens(self) -> int:
        """Slots not handed out."""
        ...

    def check(self, tokens: int) -> None:
        """Raises OutOfMemory where `allocate` would."""
        ...

    def allocate(self, tokens: int) -> list[Run]:
        """Runs for `tokens` tokens, one run where the free blocks allow it. Raises OutOfMemory and takes nothing."""
        ...

    def free(self, runs: Iterable[Run]) -> None:
        """Take runs back."""
        ...

    def read(self, runs: Sequence[Run]) -> Tensor:
        """Keys and values of runs, one after the other: `[2, L, G, N, D]` on the host, in the pool's type."""
        ...

    def write(self, runs: Sequence[Run], data: Tensor) -> None:
        """Put what `read` gave into runs of as many tokens."""
        ...

    def take(self, runs: Sequence[Run], into: memoryview) -> None:
        """Copy the bytes of runs."""
        ...

    def incoming(self, runs: Sequence[Run]) -> list[memoryview]:
        """Where bytes of runs are to be written, in order, by any thread. Then `arrived` is due."""
        ...

    def arrived(self, runs: Sequence[Run], places: Sequence[memoryview]) -> None:
        """The places that `incoming` gave are all written: the runs hold it from now on."""
        ...

    def close(self) -> None:
        """Forget everything."""
        ...


class Blocks:
    """A pool's blocks, handed out as runs."""

    def __init__(self, limit_bytes: int, token_bytes: int) -> None:
        """As many blocks of tokens of `token_bytes` as `limit_bytes` hold. Raises OutOfMemory when that is none."""
        blocks = limit_bytes // (token_bytes * BLOCK)
        if blocks < 1:
            raise OutOfMemory(
                f"a KV pool of {limit_bytes:,} bytes holds no block of {BLOCK} tokens", "raise the engine's kv_bytes"
            )
        self.slots = blocks * BLOCK
        self._free: list[tuple[int, int]] = [(0, blocks)]  # (first block, blocks), ascending, never touching

    @property
    def free_tokens(self) -> int:
        """Slots not handed out."""
        return sum(count for _, count in self._free) * BLOCK

    def check(self, tokens: int) -> None:
        """Raises OutOfMemory when there are not slots for `tokens` tokens."""
        if whole_blocks(tokens) > self.free_tokens:
            raise OutOfMemory(
                f"the KV pool has room for {self.free_tokens:,} of {tokens:,} tokens", "raise the engine's kv_bytes"
            )

    def allocate(self, tokens: int) -> list[Run]:
        """Runs for `tokens` tokens, one run where the free blocks allow it. Raises OutOfMemory and takes nothing."""
        self.check(tokens)
        runs, left = [], tokens
        for start, count in self._take(-(-tokens // BLOCK)):
            length = min(left, count * BLOCK)
            runs.append(Run(start * BLOCK, length))
            left -= length
        return runs

    def free(self, runs: Iterable[Run]) -> None:
        """Take runs back."""
        for run in runs:
            self._give(run.start // BLOCK, run.blocks)

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
