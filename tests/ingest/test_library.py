"""The library's own promises: what is asked for is named when it is missing, threads share it, patterns choose."""

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from unabridged.ingest.errors import CollectionNotFound, DocumentNotFound, IngestError, LibraryDamaged
from unabridged.ingest.library import Library
from unabridged.ingest.paths import Patterns


@pytest.fixture
def filled(library: Library, added: Callable[..., object], tmp_path: Path) -> Library:
    """Three files in two folders."""
    for name in ("in/a.txt", "in/b [x].md", "out/a.txt"):
        path = tmp_path / "files" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"Text of {name}")
    added(tmp_path / "files")
    return library


def _names(library: Library, *patterns: str) -> list[str]:
    return ["/".join(Path(row.path).parts[-2:]) for row in library.documents(patterns=patterns)]


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("a.txt", ["in/a.txt", "out/a.txt"]),
        ("*.TXT", ["in/a.txt", "out/a.txt"]),
        ("in/*", ["in/a.txt", "in/b [x].md"]),
        ("b [x]", ["in/b [x].md"]),
        ("/out/", ["out/a.txt"]),
        ("?.txt", ["in/a.txt", "out/a.txt"]),
        ("nothing", []),
    ],
)
def test_patterns_are_globs_or_parts_of_the_path(filled: Library, pattern: str, names: list[str]) -> None:
    assert _names(filled, pattern) == names


def test_any_pattern_is_enough(filled: Library) -> None:
    assert _names(filled, "out", "*.md") == ["in/b [x].md", "out/a.txt"]
    assert not Patterns(["["]).match("/x")


def test_what_is_missing_is_named(filled: Library) -> None:
    document = filled.documents()[0]
    with pytest.raises(DocumentNotFound, match="id 999"):
        filled.document(999)
    with pytest.raises(DocumentNotFound, match="id 999"):
        filled.pages(999)
    with pytest.raises(DocumentNotFound, match=r"a\.txt has no page 7 \(it has 1 page"):
        filled.page(document.id, 7)
    with pytest.raises(DocumentNotFound, match="nothing"):
        filled.remove(["nothing"])


def test_removing_says_what_went_and_takes_the_text_along(filled: Library) -> None:
    assert [Path(path).name for path in filled.remove(["out"])] == ["a.txt"]
    assert _names(filled) == ["in/a.txt", "in/b [x].md"]
    document = filled.documents()[0]
    assert filled.remove_document(document.id) == [document.path]
    assert _names(filled) == ["in/b [x].md"]
    assert filled.connection.execute("SELECT COUNT(*) FROM pages").fetchone()[0] == 1
    assert filled.verify() == []


def test_ids_of_removed_documents_are_not_used_again(
    filled: Library, added: Callable[..., object], tmp_path: Path
) -> None:
    last = max(row.id for row in filled.documents())
    filled.remove_collection("default")
    added(tmp_path / "files")
    assert min(row.id for row in filled.documents()) > last


def test_threads_share_a_library(filled: Library) -> None:
    results: list[int] = []

    def ask() -> None:
        results.extend(len(filled.search("text")) for _ in range(20))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [3] * 80


def test_a_damaged_database_is_reported_with_the_way_out(filled: Library) -> None:
    (page,) = filled.connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'documents'").fetchone()
    filled.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    filled.close()
    data = bytearray(filled.path.read_bytes())
    data[(page - 1) * 4096 : page * 4096] = b"\xa5" * 4096
    filled.path.write_bytes(data)
    with Library.open(filled.path) as broken:
        assert broken.verify()
        with pytest.raises(LibraryDamaged, match=r"move library\.db"):
            broken.documents()
        with pytest.raises(LibraryDamaged):
            broken.search("text")


def test_changed_bytes_in_the_schema_or_a_page_are_damage(tmp_path: Path) -> None:
    path = tmp_path / "library.db"
    Library.open(path).close()
    path.write_bytes(path.read_bytes().replace(b"CREATE TABLE contents", b"CREATE TABLE conten\xff\xff"))
    with pytest.raises(LibraryDamaged):
        Library.open(path)


def test_a_library_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    (tmp_path / "library.db").mkdir()
    with pytest.raises(IngestError, match="cannot be opened for writing") as raised:
        Library.open(tmp_path / "library.db")
    assert "permissions" in raised.value.hint


def test_a_collection_keeps_how_it_is_read(filled: Library) -> None:
    assert filled.composition("default") == "auto"
    filled.compose("new", "joint")
    assert {row.name: row.composition for row in filled.collections()} == {"default": "auto", "new": "joint"}
    filled.compose("new", "composable")
    assert filled.composition("new") == "composable"
    with pytest.raises(CollectionNotFound):
        filled.composition("none")
