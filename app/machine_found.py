"""The machine as `doctor` sees it: Python, processor, memory, what the kernel grants, what a GPU needs beside."""

import fcntl
import os
import platform
import shutil
import socket
import struct
import sys
import sysconfig
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from unabridged import __version__
from unabridged.app import gpu_found
from unabridged.app.finding import Finding

_GIB = 1 << 30
_LITTLE_MEMORY = 2 * _GIB
_FEATURES = ("avx2", "avx512f", "avx512_bf16", "amx_bf16")
_FILTERS = Path("/proc/sys/kernel/seccomp/actions_avail")
# From <linux/sockios.h> and <linux/if.h>.
_GET_FLAGS, _IS_UP = 0x8913, 1
# The launcher that Triton compiles, in its cache; see app/bundle/warm.py.
_LAUNCHER = "*/cuda_utils*.so"


def look() -> Iterator[Finding]:
    """Everything but the card itself, whose use the settings decide."""
    yield _python()
    yield _processor()
    yield from _memory()
    yield _alone()
    yield from _loopback()
    if find_spec("triton") is not None and gpu_found.found() is not None:
        yield _compiler()


def _python() -> Finding:
    good = (3, 11) <= sys.version_info[:2] < (3, 13)
    return Finding(
        check="python",
        level="ok" if good else "warn",
        text=f"unabridged {__version__}, Python {platform.python_version()}, {platform.platform()}",
        remedy="" if good else "install Python 3.11 or 3.12",
    )


def _processor() -> Finding:
    flags = _cpu_flags()
    found = [name for name in _FEATURES if name in flags]
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    slow = platform.machine() in ("x86_64", "AMD64") and flags and "avx2" not in flags
    return Finding(
        check="processor",
        level="warn" if slow else "ok",
        text=f"{cores} cores, {', '.join(found) or platform.machine()}",
        remedy="without AVX2 answers take several times longer" if slow else "",
    )


def _memory() -> Iterator[Finding]:
    total, available = _bytes_of_memory()
    if total:
        little = available < _LITTLE_MEMORY
        yield Finding(
            check="memory",
            level="warn" if little else "ok",
            text=f"{available / _GIB:.1f} of {total / _GIB:.1f} GiB available",
            remedy="close other programs, or lower engine.kv_memory_mib" if little else "",
        )


def _alone() -> Finding:
    """Whether the processes that read what others wrote can give up the network (models/no_network.py)."""
    try:
        good = "errno" in _FILTERS.read_text("ascii").split() and platform.machine() == "x86_64"
    except OSError:
        good = False
    if good:
        return Finding(check="isolation", level="ok", text="the engine and the readers of files run without a network")
    return Finding(
        check="isolation",
        level="warn",
        text="this kernel has no filters on system calls: the engine and the readers of files keep the network",
        remedy="use a kernel with seccomp on x86-64, or take the network away from outside",
    )


def _loopback() -> Iterator[Finding]:
    """Commands reach the server through it: where it is down they would wait for nothing. Silent where it is up."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            answer = fcntl.ioctl(probe, _GET_FLAGS, struct.pack("16sh22x", b"lo", 0))
        except OSError:
            return  # another system, or another name of it
    if not struct.unpack_from("16xh", answer)[0] & _IS_UP:
        yield Finding(
            check="loopback",
            level="fail",
            text="the interface lo is down: `ask`, `chat` and `serve` talk to each other through it",
            remedy="sudo ip link set lo up; in a network namespace of its own: ip link set lo up inside it",
        )


def _compiler() -> Finding:
    """What Triton builds its launcher with, unless it has one."""
    default = Path.home() / ".triton" / "cache"
    cache = Path(os.environ.get("TRITON_CACHE_DIR") or default)
    if any(cache.glob(_LAUNCHER)):
        return Finding(check="compiler", level="ok", text=f"not needed: Triton's launcher is in {cache}")
    compiler = os.environ.get("CC") or shutil.which("gcc") or shutil.which("clang")
    header = Path(sysconfig.get_paths()["include"], "Python.h")
    missing = [*([] if compiler else ["a C compiler"]), *([] if header.is_file() else [str(header)])]
    if missing:
        return Finding(
            check="compiler",
            level="warn",
            text=f"{' and '.join(missing)} missing, with which Triton builds its launcher: the CPU is used",
            remedy="install gcc and Python's headers (Debian: gcc, python3-dev)",
        )
    return Finding(check="compiler", level="ok", text=f"{compiler}, {header}")


def _cpu_flags() -> frozenset[str]:
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8", errors="replace").splitlines()
    except OSError:
        return frozenset()
    return frozenset(next((line.partition(":")[2] for line in lines if line.startswith("flags")), "").split())


def _bytes_of_memory() -> tuple[int, int]:
    """All and available; zeros where the system does not say."""
    try:
        lines = Path("/proc/meminfo").read_text("utf-8").splitlines()
    except OSError:
        return 0, 0
    values = {line.partition(":")[0]: line.partition(":")[2].split() for line in lines}
    return int(values["MemTotal"][0]) << 10, int(values["MemAvailable"][0]) << 10
