"""The check of a library: a sound one passes, and each thing that is broken by hand is named."""

import os
from pathlib import Path

import pytest
from tests.ingest.conftest import Adder, Shelve

from unabridged.ingest.catalog import outdated
from unabridged.ingest.catalog.audit import audit
from unabridged.ingest.catalog.findings import Finding
from unabridged.ingest.library import Library


@pytest.fixture
def folder(tmp_path: Path, shelved: Shelve) -> Path:
    """A folder that is in the library."""
    root = tmp_path / "case"
    root.mkdir()
    (root / "a.txt").write_text("The contract ends on 31 May.")
    (root / "b.txt").write_text("The mill was sold.")
    Path(os.fsdecode(os.fsencode(root) + b"/caf\xe9.txt")).write_text("coffee")
    shelved(*sorted(root.iterdir()))
    return root


def _found(library: Library) -> list[tuple[str, str]]:
    return [(step.grade, step.text) for step in audit(library) if isinstance(step, Finding)]


def test_a_sound_library_passes(library: Library, folder: Path) -> None:
    assert _found(library) == []


@pytest.mark.parametrize(
    ("harm", "grade", "says"),
    [
        ("UPDATE pages SET text = 'The dull was sold.' WHERE text LIKE '%mill%'", "damaged", "as it stands"),
        ("INSERT INTO page_index (rowid, main) VALUES (99, 'mill')", "damaged", "words of 1 pages that are gone"),
        ("INSERT INTO page_index (page_index) VALUES ('delete-all')", "damaged", "as it stands"),
        ("UPDATE documents SET pages = 7 WHERE tail = '' AND id = 1", "damaged", "another number of pages"),
        ("UPDATE pages SET number = 3 WHERE id = 1", "damaged", "gaps"),
        ("UPDATE documents SET status = 'partial' WHERE id = 1", "damaged", "no reason"),
        ("DELETE FROM collection_files WHERE file_id = 1", "damaged", "no collection"),
        ("UPDATE contents SET reader_version = 0", "stale", "older readers"),
        ("UPDATE contents SET state = 'reading' WHERE id = 1", "stale", "being read"),
        ("UPDATE settings SET value = '0' WHERE key = 'index_version'", "stale", "another version"),
    ],
)
def test_what_is_broken_is_named(library: Library, folder: Path, harm: str, grade: str, says: str) -> None:
    library.connection.execute(harm)
    assert [found for found in _found(library) if found[0] == grade and says in found[1]], _found(library)


def test_tokens_that_do_not_add_up_are_named(library: Library, folder: Path) -> None:
    library.connection.executescript(
        "INSERT INTO tokenizers VALUES (1, 'x', ''); INSERT INTO token_counts VALUES (1, 1, 5);"
        " INSERT INTO tokens VALUES (1, 1, 2, x'00', x'00', x'00');"
    )
    texts = " ".join(text for grade, text in _found(library) if grade == "damaged")
    assert "differ in length" in texts
    assert "another number of tokens" in texts


def test_files_are_held_against_what_was_read(library: Library, folder: Path) -> None:
    there = (folder / "a.txt").stat()
    (folder / "a.txt").write_text("The contract ends on 30 May.")
    os.utime(folder / "a.txt", ns=(there.st_atime_ns, there.st_mtime_ns))
    (folder / "b.txt").unlink()
    steps = [step for step in audit(library, ("files",)) if isinstance(step, Finding)]
    assert [(Path(step.path).name, step.grade, step.text.split()[0]) for step in steps] == [
        ("a.txt", "damaged", "other"),
        ("b.txt", "stale", "gone"),
    ]


def test_what_older_readers_read_is_listed_and_read_again(
    library: Library, added: Adder, reads: list[str], folder: Path
) -> None:
    library.connection.execute("UPDATE contents SET reader_version = 0 WHERE id < 3")
    (folder / "b.txt").unlink()
    here, gone = outdated.present(outdated.outdated(library.connection))
    assert ([Path(one.path).name for one in here], [Path(one.path).name for one in gone]) == (["a.txt"], ["b.txt"])
    reads.clear()
    done = added(*[Path(one.path) for one in here], force=True)
    assert (reads, done["a.txt"].change) == (["a.txt"], "changed")
    assert outdated.present(outdated.outdated(library.connection))[0] == []
