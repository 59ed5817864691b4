"""The schema: built step by step, from nothing and from any older step, and never run by an older program."""

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from unabridged.ingest.catalog.migrations import STEPS, migrate
from unabridged.ingest.errors import LibraryDamaged
from unabridged.ingest.library import Library


def _schema(path: Path) -> list[tuple[str, str]]:
    with sqlite3.connect(path) as connection:
        rows = connection.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY name").fetchall()
    connection.close()
    return rows


def _open(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.row_factory = sqlite3.Row
    return connection


@pytest.mark.parametrize("steps", range(len(STEPS)))
def test_every_older_schema_becomes_the_same_as_a_new_one(tmp_path: Path, steps: int) -> None:
    Library.open(tmp_path / "new.db").close()
    old = _open(tmp_path / "old.db")
    migrate(old, tmp_path / "old.db", STEPS[:steps])
    old.close()
    Library.open(tmp_path / "old.db").close()
    assert _schema(tmp_path / "old.db") == _schema(tmp_path / "new.db")


def test_what_an_older_schema_holds_is_kept(tmp_path: Path) -> None:
    old = _open(tmp_path / "old.db")
    migrate(old, tmp_path / "old.db", STEPS[:1])
    old.execute("INSERT INTO collections (name) VALUES ('case')")
    old.close()
    with Library.open(tmp_path / "old.db") as library:
        assert [row.name for row in library.collections()] == ["case", "default"]


def test_steps_are_recorded_by_number_and_name(tmp_path: Path) -> None:
    with Library.open(tmp_path / "new.db") as library:
        rows = library.connection.execute("SELECT number, name FROM migrations ORDER BY number").fetchall()
    assert [(row["number"], row["name"]) for row in rows] == [(n, step.__name__) for n, step in enumerate(STEPS, 1)]


def test_a_step_that_fails_leaves_the_schema_of_the_step_before(tmp_path: Path) -> None:
    def breaks(db: Any) -> None:
        db.execute("CREATE TABLE half (x)")
        raise RuntimeError("power cut")

    connection = _open(tmp_path / "x.db")
    with pytest.raises(RuntimeError):
        migrate(connection, tmp_path / "x.db", (*STEPS[:1], breaks))
    assert connection.execute("PRAGMA user_version").fetchone()[0] == 1
    assert connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'half'").fetchone() is None
    connection.close()


def test_a_newer_database_is_refused_and_not_touched(tmp_path: Path) -> None:
    path = tmp_path / "library.db"
    Library.open(path).close()
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 999")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(LibraryDamaged, match=r"newer version \(schema 999"):
        Library.open(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize("content", [b"this is no database at all" * 100, b"SQLite format 3\0" + b"\xff" * 8000])
def test_a_file_that_is_no_database_says_so_with_the_way_out(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "library.db"
    path.write_bytes(content)
    with pytest.raises(LibraryDamaged, match=r"library\.db.*move library\.db"):
        Library.open(path)
    assert path.read_bytes() == content


def test_the_library_is_private(tmp_path: Path) -> None:
    with Library.open(tmp_path / "library.db") as library:
        library.connection.execute("CREATE TABLE x (y)")
        assert {file.stat().st_mode & 0o077 for file in tmp_path.iterdir()} == {0}


def test_mail_of_an_older_library_gets_its_threads_and_hashes(tmp_path: Path) -> None:
    old = _open(tmp_path / "old.db")
    migrate(old, tmp_path / "old.db", STEPS[:5])
    old.execute(
        "INSERT INTO contents (id, sha256, size, state, reader, read_at, last_ref, kind, status, reason, documents,"
        " pages, locked) VALUES (1, 'x', 0, 'done', '0.1', '', 3, 'mailbox', 'read', '', 3, 2, 0)"
    )
    old.execute("INSERT INTO files (path, size, mtime_ns, content_id) VALUES ('/case/box.mbox', 0, 0, 1)")
    old.execute("INSERT INTO collection_files VALUES (1, 1)")
    meta = '{"from":"Ines <i@x>","date":"2026-03-02T10:00:00+01:00","message_id":"1@x"}'
    answer = '{"from":"Pavel <p@x>","date":"2026-03-03T10:00:00+01:00","message_id":"2@x","in_reply_to":"1@x"}'
    rows = [(1, None, "", "mailbox", "{}"), (2, 1, "#1", "message", meta), (3, 1, "#2", "message", answer)]
    old.executemany(
        "INSERT INTO documents VALUES (?, 1, ?, ?, ?, '', 'read', '', '', 0, ?, 1, 10)",
        rows,
    )
    page = (
        "INSERT INTO pages (document_id, number, label, text, parts, flags, extractor, score)"
        " VALUES (?, 1, '', ?, ?, '[]', '', 1)"
    )
    old.execute(page, (2, "From: Ines\n\nThe berth.", '[["header",0,10]]'))
    old.execute(page, (3, "From: Pavel\n\nYes.", '[["header",0,11]]'))
    old.close()
    with Library.open(tmp_path / "old.db") as library:
        _, first, second = library.documents()
        assert first.thread == second.thread is not None
        assert (first.date, first.dated) == ("2026-03-02T10:00:00+01:00", "message")
        assert first.identity.startswith("1@x ")
        assert [page.text for page in library.pages(first.id)] == ["From: Ines\n\nThe berth."]
