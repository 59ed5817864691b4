"""What `doctor` looks at: the machine, the places, the library, the models, the server, the settings.

Each look is a function that returns findings and never raises for what it finds. Nothing is changed, no network is
used, torch is not imported.
"""

import os
import platform
import shutil
import socket
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec

from unabridged import __version__
from unabridged.models.errors import UnabridgedError

if TYPE_CHECKING:
    from unabridged.app.locations import Locations
    from unabridged.app.settings import Settings

Level = Literal["ok", "warn", "fail"]

_GIB = 1 << 30
_LITTLE_DISK = 2 * _GIB
_LITTLE_MEMORY = 2 * _GIB
_FEATURES = ("avx2", "avx512f", "avx512_bf16", "amx_bf16")


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that was looked at."""

    check: str
    level: Level
    text: str
    remedy: str = ""


def diagnose(locations: "Locations") -> Iterator[Finding]:
    """All findings, one after the other: the library's takes longest."""
    yield from _machine()
    yield from _places(locations)
    settings, finding = _settings(locations)
    yield finding
    yield _gpu(settings)
    yield from _models(locations, settings)
    yield from _plan(locations, settings)
    yield _library(locations)
    yield from _server(locations, settings)


def _machine() -> Iterator[Finding]:
    version = platform.python_version()
    good = (3, 11) <= sys.version_info[:2] < (3, 13)
    yield Finding(
        check="python",
        level="ok" if good else "warn",
        text=f"unabridged {__version__}, Python {version}, {platform.platform()}",
        remedy="" if good else "install Python 3.11 or 3.12",
    )
    flags = _cpu_flags()
    found = [name for name in _FEATURES if name in flags]
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    slow = platform.machine() in ("x86_64", "AMD64") and flags and "avx2" not in flags
    yield Finding(
        check="processor",
        level="warn" if slow else "ok",
        text=f"{cores} cores, {', '.join(found) or platform.machine()}",
        remedy="without AVX2 answers take several times longer" if slow else "",
    )
    total, available = _memory()
    if total:
        little = available < _LITTLE_MEMORY
        yield Finding(
            check="memory",
            level="warn" if little else "ok",
            text=f"{available / _GIB:.1f} of {total / _GIB:.1f} GiB available",
            remedy="close other programs, or lower engine.kv_memory_mib" if little else "",
        )


def _gpu(settings: "Settings | None") -> Finding:
    from unabridged.app.gpu_found import look

    level, text, remedy = look(settings.engine.device if settings else "auto")
    return Finding(check="gpu", level=level, text=text, remedy=remedy)


def _plan(locations: "Locations", settings: "Settings | None") -> Iterator[Finding]:
    from unabridged.app.plan_found import look

    for level, text, remedy in look(locations, settings) if settings else ():
        yield Finding(check="plan", level=level, text=text, remedy=remedy)


def _places(locations: "Locations") -> Iterator[Finding]:
    for name, folder in (
        ("data", locations.data),
        ("state", locations.state),
        ("runtime", locations.runtime),
    ):
        existing = _existing(folder)
        if not os.access(existing, os.W_OK | os.X_OK):
            remedy = "correct its permissions or choose another with --data-dir"
            yield Finding(check=f"{name} folder", level="fail", text=f"{existing} cannot be written", remedy=remedy)
            continue
        free = shutil.disk_usage(existing).free
        little = free < _LITTLE_DISK and name == "data"
        yield Finding(
            check=f"{name} folder",
            level="warn" if little else "ok",
            text=f"{folder}, {free / _GIB:.1f} GiB free",
            remedy="free some disk or lower engine.store_mib" if little else "",
        )


def _settings(locations: "Locations") -> "tuple[Settings | None, Finding]":
    from unabridged.app.settings import load

    try:
        loaded = load(locations.config_file)
    except UnabridgedError as error:
        return None, Finding(check="settings", level="fail", text=error.message, remedy=error.hint)
    changed = [f"{key} ({origin})" for key, _, origin in loaded.items() if origin != "default"]
    text = f"{locations.config_file}: {', '.join(changed) or 'all defaults'}"
    return loaded.settings, Finding(check="settings", level="ok", text=text)


def _models(locations: "Locations", settings: "Settings | None") -> Iterator[Finding]:
    from unabridged.models.registry import Registry

    registry = Registry(locations.models)
    try:
        installed = registry.list()
    except UnabridgedError as error:
        yield Finding(check="models", level="fail", text=error.message, remedy=error.hint)
        return
    for model in installed:
        missing = [file.path for file in model.files if not _same_size(model.path / file.path, file.size)]
        remedy = f"unabridged models remove {model.name}, then add it again"
        if missing:
            text = f"{model.name}: {', '.join(missing)} missing or cut short"
            yield Finding(check="models", level="fail", text=text, remedy=remedy)
        else:
            mode = model.defaults.get("mode", "not measured")
            text = f"{model.name}, {model.parameters / 1e6:,.0f}M parameters, {model.size >> 20:,} MiB, mode {mode}"
            yield Finding(check="models", level="ok", text=text)
    yield from _unfinished(locations)
    wanted = settings.model.name if settings else None
    if wanted and wanted not in [model.name for model in installed]:
        remedy = f"unabridged models add {wanted}" if not installed else "unabridged config set model.name NAME"
        yield Finding(check="models", level="fail", text=f"the model {wanted} is not installed", remedy=remedy)


def _unfinished(locations: "Locations") -> Iterator[Finding]:
    from unabridged.models.quantise.unfinished import unfinished
    from unabridged.models.sizes import in_words

    for work in unfinished(locations.models):
        state = "being quantised" if work.held else "not fully quantised"
        text = f"{work.name}, {state}, {in_words(work.size)} in {work.path}"
        yield Finding(
            check="models",
            level="ok" if work.held else "warn",
            text=text,
            remedy="" if work.held else work.remedy,
        )


def _library(locations: "Locations") -> Finding:
    from unabridged.ingest.library import Library

    if not locations.library.exists():
        return Finding(check="library", level="ok", text="empty", remedy="unabridged add PATH")
    try:
        with Library.open(locations.library) as library:
            problems = library.verify()
            counts = library.counts(None)
    except UnabridgedError as error:
        return Finding(check="library", level="fail", text=error.message, remedy=error.hint)
    if problems:
        remedy = f"move {locations.library} away and add the files again"
        return Finding(check="library", level="fail", text="; ".join(problems[:3]), remedy=remedy)
    text = f"sound: {counts.files:,} files, {counts.documents:,} documents, {counts.pages:,} pages"
    unread = sum(count for status, count in counts.statuses.items() if status != "read")
    if unread:
        remedy = "unabridged ls --problems"
        return Finding(check="library", level="warn", text=f"{text}; {unread:,} not fully read", remedy=remedy)
    return Finding(check="library", level="ok", text=text)


def _server(locations: "Locations", settings: "Settings | None") -> Iterator[Finding]:
    from unabridged.app import runtime
    from unabridged.app.errors import ServerBusy

    try:
        if locations.server_lock.exists():
            with runtime.ServerLock(locations.server_lock):
                pass
    except ServerBusy as error:
        yield Finding(check="server", level="ok", text=error.message)
        return
    except OSError as error:
        yield Finding(check="server", level="fail", text=f"{locations.server_lock}: {error.strerror}")
        return
    yield Finding(check="server", level="ok", text="none runs; `ask` and `chat` start one when they need it")
    if settings is not None and settings.server.port:
        yield _port(settings.server.host, settings.server.port)


def _port(host: str, port: int) -> Finding:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with closing(socket.socket(family, socket.SOCK_STREAM)) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind((host, port))
        except OSError as error:
            remedy = "unabridged config set server.port 0, or end the program that uses it"
            return Finding(check="port", level="warn", text=f"{host} port {port}: {error.strerror}", remedy=remedy)
    return Finding(check="port", level="ok", text=f"{host} port {port} is free")


def _existing(folder: Path) -> Path:
    return next(path for path in (folder, *folder.parents) if path.exists())


def _same_size(file: Path, size: int) -> bool:
    return file.is_file() and file.stat().st_size == size


def _cpu_flags() -> frozenset[str]:
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8", errors="replace").splitlines()
    except OSError:
        return frozenset()
    return frozenset(next((line.partition(":")[2] for line in lines if line.startswith("flags")), "").split())


def _memory() -> tuple[int, int]:
    """Bytes of memory, all and available; zeros where the system does not say."""
    try:
        lines = Path("/proc/meminfo").read_text("utf-8").splitlines()
    except OSError:
        return 0, 0
    values = {line.partition(":")[0]: line.partition(":")[2].split() for line in lines}
    return int(values["MemTotal"][0]) << 10, int(values["MemAvailable"][0]) << 10
