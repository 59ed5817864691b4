"""What a machine has for a model and its contexts. Bytes."""

import shutil
from dataclasses import dataclass
from pathlib import Path

from unabridged.engine.kv import memory

# CUDA's context and the code of the kernels and libraries: what a process has of a GPU beside torch's allocator
# (docs/log.md: .86 GiB with an 8B model on an H200).
DRIVER = 880 << 20


@dataclass(frozen=True)
class Machine:
    """`vram`: of the GPU's memory what the engine may take, CUDA's own included; `ram`: what keys and values may take
    of the host's; `disk`: what may be stored; `card`: its name."""

    vram: int
    ram: int
    disk: int
    card: str = ""

    @classmethod
    def of(cls, vram: int, store: Path | None, quota: int, card: str = "", ram: int | None = None) -> "Machine":
        """This one. `quota`: of the folder `store`; `ram`: instead of what is free now."""
        free = memory.available() if ram is None else ram
        return cls(vram, usable(free), disk(store, quota), card)


def usable(free: int) -> int:
    """Of `free` bytes of the host's memory, what a pool may take: kv.memory.require."""
    return max(0, (free - memory.RESERVE_BYTES) * 50 // 51)


def free_for(pool: int) -> int:
    """Of the host's memory, what must be free for a pool of so many bytes: the inverse of `usable`."""
    return -(-pool * 51 // 50) + memory.RESERVE_BYTES


def disk(store: Path | None, quota: int) -> int:
    """What the quota and the disk allow."""
    if store is None:
        return 0
    there = next(folder for folder in (store, *store.absolute().parents) if folder.exists())
    return min(quota, shutil.disk_usage(there).free)
