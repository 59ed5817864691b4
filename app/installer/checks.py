"""What a machine must have before anything is installed: each look gives a finding with the way out.

Integrity is not looked at here: packaging/install.sh has checked every hash before. Standard library only.
"""

import ctypes
import importlib.util
import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from unabridged.app.installer.codes import DISK, GPU, MEMORY, PERMISSION, PYTHON, SYSTEM
from unabridged.app.installer.manifest import Facts

_MIB = 1 << 20
_GIB = 1 << 30
# The default model, the server and a reader at once, measured at 1.4 GiB.
_MEMORY = 2 * _GIB
# What a file system needs beside the files themselves.
_SPARE = 64 * _MIB
# Debian puts these apart from the smallest Python.
_MODULES = ("ctypes", "lzma", "sqlite3", "ssl", "venv", "zlib")


@dataclass(frozen=True)
class Found:
    """One thing that was looked at. `code`: what the installer ends with where it is not `good`; 0 where that only
    deserves a word."""

    what: str
    good: bool
    text: str
    remedy: str = ""
    code: int = 0


def look(facts: Facts, prefix: Path) -> Iterator[Found]:
    """Everything, in the order in which an admin would mend it."""
    yield from _python(facts)
    yield from _system(facts)
    yield _memory()
    yield from _disk(facts, prefix)
    if facts.flavour == "cuda":
        yield from _gpu(facts)


def _python(facts: Facts) -> Iterator[Found]:
    here = ".".join(platform.python_version_tuple()[:2])
    good = here == facts.python and sys.implementation.name == "cpython" and sys.maxsize > 2**32
    text = f"{platform.python_implementation()} {platform.python_version()} at {sys.executable}"
    remedy = f"install Python {facts.python}, or carry the bundle for Python {here}"
    yield Found("python", good, text, "" if good else remedy, PYTHON)
    missing = [name for name in _MODULES if importlib.util.find_spec(name) is None]
    if missing:
        text = f"this Python lacks {', '.join(missing)}"
        remedy = f"install all of Python's standard library (Debian: libpython{facts.python}-stdlib)"
        yield Found("python", False, text, remedy, PYTHON)


def _system(facts: Facts) -> Iterator[Found]:
    machine, system = platform.machine(), platform.system()
    good = (system.lower(), machine) == tuple(facts.platform.split("-"))
    yield Found(
        "system", good, f"{system} on {machine}", "" if good else f"this bundle is for {facts.platform}", SYSTEM
    )
    library, version = _glibc()
    if library != "glibc":
        yield Found("C library", False, "not glibc", f"use a system with glibc {facts.glibc} or newer", SYSTEM)
    else:
        good = _numbers(version) >= _numbers(facts.glibc)
        remedy = f"glibc {facts.glibc} or newer is needed: use a newer system"
        yield Found("C library", good, f"glibc {version}", "" if good else remedy, SYSTEM)
    try:
        ctypes.CDLL("libstdc++.so.6")
    except OSError:
        remedy = "install it (Debian: libstdc++6; Fedora: libstdc++)"
        yield Found("C++ library", False, "libstdc++.so.6 is missing", remedy, SYSTEM)
    if "avx2" not in _cpu_flags():
        yield Found("processor", False, "no AVX2", "answers take several times longer without it")


def _memory() -> Found:
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    good = total >= _MEMORY
    remedy = f"{_MEMORY / _GIB:.0f} GiB are needed for the smallest model"
    return Found("memory", good, f"{total / _GIB:.1f} GiB", "" if good else remedy, MEMORY)


def _disk(facts: Facts, prefix: Path) -> Iterator[Found]:
    existing = next(path for path in (prefix, *prefix.parents) if path.exists())
    if not os.access(existing, os.W_OK | os.X_OK):
        remedy = "choose another folder with --prefix, or run with the rights for it (sudo, for --system)"
        yield Found("folder", False, f"{existing} cannot be written", remedy, PERMISSION)
        return
    free, needed = shutil.disk_usage(existing).free, facts.installed + _SPARE
    good = free >= needed
    text = f"{free / _MIB:,.0f} MiB free at {existing}, {needed / _MIB:,.0f} needed"
    yield Found("disk", good, text, "" if good else "free some space, or choose another disk with --prefix", DISK)


def _gpu(facts: Facts) -> Iterator[Found]:
    """The CUDA flavour works without a card as well, so its absence only deserves a word."""
    driver = _driver()
    if not driver:
        yield Found("GPU", False, "no NVIDIA driver answers: the CPU will be used", "install the driver to use a card")
        return
    good = _numbers(driver) >= _numbers(facts.driver)
    remedy = f"driver {facts.driver} or newer is needed: update it, or carry the bundle for the CPU"
    yield Found("GPU", good, f"driver {driver}", "" if good else remedy, GPU)
    if facts.launcher and _numbers(_glibc()[1]) >= _numbers(facts.launcher):
        return
    compiler = os.environ.get("CC") or shutil.which("gcc") or shutil.which("clang")
    header = Path(sysconfig.get_paths()["include"], "Python.h")
    if not compiler:
        yield Found("compiler", False, "no C compiler: Triton builds its launcher with one", "install gcc", GPU)
    if not header.is_file():
        remedy = f"install Python's headers (Debian: python{facts.python}-dev)"
        yield Found("headers", False, f"{header} is missing: Triton's launcher needs it", remedy, GPU)


def _driver() -> str:
    """The version of NVIDIA's driver; empty where none answers."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return ""
    command = [tool, "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        told = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return ""
    first = (told.splitlines() or [""])[0].strip()
    return first if re.fullmatch(r"[0-9.]+", first) else ""


def _glibc() -> tuple[str, str]:
    """The C library's name and version; empty where it is another."""
    library, _, version = (os.confstr("CS_GNU_LIBC_VERSION") or "").partition(" ")
    return library, version


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version))


def _cpu_flags() -> list[str]:
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8", errors="replace").splitlines()
    except OSError:
        return []
    return next((line.partition(":")[2] for line in lines if line.startswith("flags")), "").split()
