"""How much room stored KV has, in the quota and on the disk, and which files go for more. Torch-free."""

import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from unabridged.engine.errors import StoreError

# Of the disk, what is left to others: a share, and no more than so many bytes.
_LEFT_SHARE = 50
_LEFT_BYTES = 512 << 20


@dataclass(frozen=True)
class Stored:
    """A file: `used` is when it was written or loaded last, in seconds since the epoch."""

    key: str
    path: Path
    size: int
    used: float


@dataclass(frozen=True)
class Room:
    """Bytes. `quota`: all files may take; `used`: they take; `disk`: the disk gives; `pinned`: of `used`, stays."""

    quota: int
    used: int
    disk: int
    pinned: int = 0

    @property
    def most(self) -> int:
        """What all files can take together."""
        return min(self.quota, self.used + self.disk)


def spare(folder: Path) -> int:
    """Bytes that may be taken of the disk; negative where others have taken what is left to them."""
    state = os.statvfs(folder)
    whole = state.f_blocks * state.f_frsize
    return state.f_bavail * state.f_frsize - min(_LEFT_BYTES, whole // _LEFT_SHARE)


def leaving(wanted: int, stored: Sequence[Stored], staying: Collection[str], folder: Path, room: Room) -> list[Stored]:
    """What goes so that `wanted` bytes more can be written: the first of `stored`, and nothing of `staying`.

    Raises StoreError where all that may go would not do.
    """
    going: list[Stored] = []
    free = 0
    for one in stored:
        if room.used - free + wanted <= room.quota and wanted <= room.disk + free:
            break
        if one.key not in staying:
            going.append(one)
            free += one.size
    if room.used - free + wanted > room.quota:
        raise StoreError(
            f"KV of {wanted:,} bytes does not fit into the store's {room.quota:,}, of which {room.used - free:,} are "
            "pinned, read ahead at the moment or being written",
            "raise engine.store_mib, or unpin: unabridged store unpin",
        )
    if wanted > room.disk + free:
        raise StoreError(
            f"the disk of {folder} has {max(0, room.disk):,} bytes to spare and {free:,} in KV that may go, KV of "
            f"{wanted:,} is to be stored",
            "free some space, or unpin: unabridged store unpin",
        )
    return going
