"""How much memory this process may still take. Knows /proc and control groups; elsewhere it asks the C library."""

import os
from collections.abc import Iterator
from pathlib import Path

from unabridged.engine.errors import OutOfMemory

# Kept free for activations and the rest of the machine when a pool grows, and of what it grows by for the system's own
# notes of it: page tables, and what a GPU's driver remembers of each page.
RESERVE_BYTES = 512 << 20
_NOTES = 50
_GROUPS = Path("/sys/fs/cgroup")
_OWN = Path("/proc/self/cgroup")


def available() -> int:
    """Bytes that can be taken now without swapping or meeting the container's limit."""
    return max(0, min([_meminfo(), *_left_in_groups()]))


def require(wanted: int) -> None:
    """Raises OutOfMemory where `wanted` bytes of KV are more than may be taken."""
    free = max(0, available() - RESERVE_BYTES - wanted // _NOTES)
    if wanted > free:
        raise OutOfMemory(
            f"{wanted:,} bytes of KV are needed, the machine has {free:,} free",
            "ask over fewer documents or close other programs",
        )


def _meminfo() -> int:
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except OSError:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
    return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _left_in_groups() -> Iterator[int]:
    """What each limit that this process is under leaves. Files that were read count as used there until somebody wants
    their memory: the inactive ones are as good as free."""
    for folder, limit, used, files in _groups():
        most, now, cached = _number(folder / limit), _number(folder / used), _stat(folder / "memory.stat", files)
        if most is not None and now is not None:
            yield most - now + cached


def _groups() -> Iterator[tuple[Path, str, str, str]]:
    """Folders of the memory groups that hold this process, from its own to the outermost, and the names in them. A
    container's own path may not be there; its outermost folder is."""
    try:
        lines = _OWN.read_text().splitlines()
    except OSError:
        return
    for line in lines:
        number, controllers, path = line.split(":", 2)
        if number == "0":
            root, names = _GROUPS, ("memory.max", "memory.current", "inactive_file")
        elif "memory" in controllers.split(","):
            names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
            root = _GROUPS / "memory"
        else:
            continue
        inner = Path(path.lstrip("/"))
        for folder in (root / inner, *(root / outer for outer in inner.parents)):
            yield folder, *names


def _stat(path: Path, name: str) -> int:
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith(f"{name} ")), 0)


def _number(path: Path) -> int | None:
    try:
        text = path.read_text().strip()
    except OSError:
        return None
    return int(text) if text.isdigit() else None
