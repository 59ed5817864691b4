"""How much memory this process may still take. Knows /proc and cgroup v2; elsewhere it asks the C library."""

import os
from pathlib import Path

_CGROUP = Path("/sys/fs/cgroup")


def available() -> int:
    """Bytes that can be taken now without swapping or meeting the container's limit."""
    free = _meminfo()
    limit, used = _number(_CGROUP / "memory.max"), _number(_CGROUP / "memory.current")
    return free if limit is None or used is None else max(0, min(free, limit - used))


def _meminfo() -> int:
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except OSError:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
    return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _number(path: Path) -> int | None:
    try:
        text = path.read_text().strip()
    except OSError:
        return None
    return int(text) if text.isdigit() else None
