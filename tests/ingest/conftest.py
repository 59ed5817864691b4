"""Fixtures of ingestion: a library of its own per test, and the addition of files to it."""

import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from unabridged.ingest.adding.add import AddOptions, add
from unabridged.ingest.catalog.database import transaction
from unabridged.ingest.catalog.rows import FileDone
from unabridged.ingest.catalog.storing import ContentWriter
from unabridged.ingest.catalog.writes import Seen, attach, ensure_collection
from unabridged.ingest.document import Closed, Kind, Opened, Page, Status
from unabridged.ingest.library import Library
from unabridged.ingest.paths import shown
from unabridged.ingest.worker import Workers

Adder = Callable[..., dict[str, FileDone]]
Shelve = Callable[..., None]


@pytest.fixture
def library(tmp_path: Path) -> Iterator[Library]:
    """An empty library."""
    with Library.open(tmp_path / "data" / "library.db") as opened:
        yield opened


@pytest.fixture
def added(library: Library) -> Adder:
    """Adds paths to the library; what was said of each file, by its name."""

    def run(*paths: Path, collection: str = "default", **options: object) -> dict[str, FileDone]:
        items = add(library, paths, collection, None, AddOptions(jobs=1, **options))  # type: ignore[arg-type]
        return {Path(item.path).name: item for item in items if isinstance(item, FileDone)}

    return run


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the files that reader processes were given, as they are given."""
    names: list[str] = []
    real = Workers.read

    def noting(self: Workers, path: Path, *arguments: object, **named: object) -> Iterator[object]:
        names.append(path.name)
        return real(self, path, *arguments, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(Workers, "read", noting)
    return names


@pytest.fixture
def shelved(library: Library) -> Shelve:
    """Puts text files into the library as an addition would, without its processes."""

    def put(*paths: Path) -> None:
        for path in paths:
            there, data = path.stat(), path.read_bytes()
            with transaction(library.connection) as connection:
                writer = ContentWriter(connection, hashlib.sha256(data).hexdigest(), len(data))
                writer.put(Opened(ref=0, parent=None, name=path.name, kind=Kind.TEXT))
                writer.put(Page(ref=0, number=1, text=data.decode()))
                writer.put(Closed(ref=0, status=Status.READ))
                writer.finish()
                seen = Seen(shown(path), there.st_size, there.st_mtime_ns)
                attach(connection, seen, writer.content, ensure_collection(connection, "default"))

    return put
