"""Fixtures of ingestion: a library of its own per test, and the addition of files to it."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from unabridged.ingest.add import AddOptions, add
from unabridged.ingest.library import Library
from unabridged.ingest.rows import FileDone
from unabridged.ingest.worker import Workers

Adder = Callable[..., dict[str, FileDone]]


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
