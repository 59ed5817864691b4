"""What `doctor` looks at: machine, installation, places, settings, GPU, models, library, server.

Each look is a function that returns findings and never raises for what it finds. Nothing is changed, no network is
used, torch is not imported.
"""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from unabridged.app import installation_found, machine_found, server_found
from unabridged.app.finding import Finding
from unabridged.models.errors import UnabridgedError

if TYPE_CHECKING:
    from unabridged.app.locations import Locations
    from unabridged.app.settings import Settings

_GIB = 1 << 30
_LITTLE_DISK = 2 * _GIB


def diagnose(locations: "Locations") -> Iterator[Finding]:
    """All findings, one after the other: the library's takes longest."""
    yield from machine_found.look()
    yield from installation_found.look(locations)
    yield from _places(locations)
    settings, finding = _settings(locations)
    yield finding
    yield _gpu(settings)
    yield from _models(locations, settings)
    yield from _plan(locations, settings)
    yield _ocr(settings)
    yield _library(locations)
    yield from server_found.look(locations, settings)


def _gpu(settings: "Settings | None") -> Finding:
    from unabridged.app.gpu_found import look

    level, text, remedy = look(settings.engine.device if settings else "auto")
    return Finding(check="gpu", level=level, text=text, remedy=remedy)


def _ocr(settings: "Settings | None") -> Finding:
    from unabridged.app.ocr_found import look

    return look(settings)


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


def _existing(folder: Path) -> Path:
    return next(path for path in (folder, *folder.parents) if path.exists())


def _same_size(file: Path, size: int) -> bool:
    return file.is_file() and file.stat().st_size == size
