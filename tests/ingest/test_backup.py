"""Backups: one sound file of one moment, never half there, and the way back."""

import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from tests.ingest.conftest import Adder, Shelve

from unabridged.ingest.catalog.backup import backup, restore
from unabridged.ingest.errors import IngestError, LibraryBusy, LibraryDamaged
from unabridged.ingest.library import Library


@pytest.fixture
def note(tmp_path: Path, shelved: Shelve) -> Path:
    """A file that is in the library."""
    path = tmp_path / "note.txt"
    path.write_text("The mill was sold.")
    shelved(path)
    return path


def test_a_backup_is_a_library_of_one_file(library: Library, note: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    size = backup(library, tmp_path / "out" / "saved")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["saved"]
    assert (tmp_path / "out" / "saved").stat().st_size == size
    assert (tmp_path / "out" / "saved").stat().st_mode & 0o777 == 0o600
    with Library.open(tmp_path / "out" / "saved") as copy:
        assert copy.search("mill")
        assert copy.verify() == []


def test_what_is_written_meanwhile_neither_waits_nor_gets_into_the_copy(
    library: Library, note: Path, added: Adder, tmp_path: Path
) -> None:
    other = tmp_path / "other.txt"
    other.write_text("\n".join(f"Line {number} of another file." for number in range(2_000)))
    steps: list[int] = []

    def once(done: int, total: int) -> None:
        if not steps:
            added(other)
        steps.append(done)

    backup(library, tmp_path / "saved", on_pages=once)
    assert library.counts().files == 2
    with Library.open(tmp_path / "saved") as copy:
        assert copy.counts().files == 1
        assert copy.verify() == []


def test_a_file_that_is_there_is_only_replaced_when_asked(library: Library, note: Path, tmp_path: Path) -> None:
    saved = tmp_path / "saved"
    saved.write_text("mine")
    with pytest.raises(IngestError, match="exists"):
        backup(library, saved)
    assert saved.read_text() == "mine"
    backup(library, saved, force=True)
    with pytest.raises(IngestError, match="is the library itself"):
        backup(library, library.path, force=True)
    with pytest.raises(IngestError, match="does not exist"):
        backup(library, tmp_path / "no" / "saved")


def test_a_failure_leaves_nothing_behind(library: Library, note: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()

    def full(done: int, total: int) -> None:
        raise OSError(28, "No space left on device")

    with pytest.raises(IngestError, match="No space left"):
        backup(library, tmp_path / "out" / "saved", on_pages=full)
    assert list((tmp_path / "out").iterdir()) == []


def test_restoring_brings_back_what_was_there(library: Library, note: Path, shelved: Shelve, tmp_path: Path) -> None:
    saved = tmp_path / "saved"
    backup(library, saved)
    note.write_text("The dam was built.")
    shelved(note)
    with pytest.raises(IngestError, match="holds 1 files"):
        restore(saved, library.path)
    assert library.search("dam")
    restore(saved, library.path, force=True)
    assert library.search("mill")
    assert not library.search("dam")
    assert library.verify() == []


def test_restoring_into_nothing(library: Library, note: Path, tmp_path: Path) -> None:
    backup(library, tmp_path / "saved")
    restore(tmp_path / "saved", tmp_path / "new" / "library.db")
    with Library.open(tmp_path / "new" / "library.db") as opened:
        assert opened.search("mill")
        assert opened.connection.execute("PRAGMA journal_mode").fetchone()[0] == "wal"


def test_what_is_no_sound_library_is_refused(library: Library, note: Path, tmp_path: Path) -> None:
    bad = tmp_path / "bad"
    bad.write_text("no database at all, whatever its name says")
    with pytest.raises(LibraryDamaged, match="is no library"):
        restore(bad, library.path, force=True)
    sqlite3.connect(tmp_path / "other.db").close()
    with pytest.raises(IngestError, match=r"no backup|is no library"):
        restore(tmp_path / "other.db", library.path, force=True)
    backup(library, tmp_path / "saved")
    whole = (tmp_path / "saved").read_bytes()
    bad.write_bytes(whole[: len(whole) * 2 // 3])
    with pytest.raises(LibraryDamaged):
        restore(bad, library.path, force=True)
    assert library.search("mill")
    with library.lock(), pytest.raises(LibraryBusy):
        restore(tmp_path / "saved", library.path, force=True)


def test_a_damaged_library_is_set_aside(library: Library, note: Path, tmp_path: Path) -> None:
    backup(library, tmp_path / "saved")
    path = library.path
    library.close()
    for side in ("-wal", "-shm"):
        path.with_name(path.name + side).unlink(missing_ok=True)
    path.write_bytes(b"nonsense" * 1000)
    with pytest.raises(LibraryDamaged, match="damaged"):
        restore(tmp_path / "saved", path)
    restore(tmp_path / "saved", path, force=True)
    assert path.with_name("library.db.damaged").read_bytes().startswith(b"nonsense")
    with Library.open(path) as opened:
        assert opened.search("mill")


_RESTORE = """
import os, sys
from pathlib import Path
from unabridged.ingest.catalog import backup
backup._PAGES = 5
def stop(done, total):
    os.kill(os.getpid(), 9)
backup.restore(Path(sys.argv[1]), Path(sys.argv[2]), force=True, on_pages=stop)
"""


def test_a_kill_while_restoring_leaves_what_was_there(
    library: Library, note: Path, shelved: Shelve, tmp_path: Path
) -> None:
    backup(library, tmp_path / "saved")
    note.write_text("The dam was built.")
    shelved(note)
    library.close()
    done = subprocess.run([sys.executable, "-c", _RESTORE, tmp_path / "saved", library.path], env=os.environ)
    assert done.returncode == -9
    with Library.open(library.path) as opened:
        assert opened.search("dam")
        assert opened.verify() == []
