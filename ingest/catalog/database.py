"""Connections to the library's SQLite file: pragmas, transactions, and errors turned into ours.

It knows nothing of the tables (that is `migrations`).
"""

import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from unabridged.ingest.catalog import messages
from unabridged.ingest.catalog.migrations import migrate
from unabridged.ingest.errors import IngestError, LibraryDamaged

BUSY_SECONDS = 30.0
_BRIEF_MILLISECONDS = 500
_ROOM = 1 << 20  # bytes: SQLite's side files want some

# What a library that holds something else than was written to it makes SQLite, and whoever takes it from there, raise.
LIBRARY_FAULTS = (sqlite3.DatabaseError, UnicodeDecodeError, msgspec.DecodeError)


def connect(path: Path) -> sqlite3.Connection:
    """A connection with the schema of this version. Closed from any thread, used by one at a time.

    Raises LibraryDamaged (no database, corrupt, newer than the program) and IngestError (folder not writable).
    """
    with library_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            # Private from the first byte; SQLite gives its side files the same mode.
            path.touch(mode=0o600)
        connection = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
        try:
            _configure(connection)
            migrate(connection, path)
            _refresh_messages(connection)
        except BaseException:
            connection.close()
            raise
    return connection


def _configure(connection: sqlite3.Connection) -> None:
    connection.row_factory = sqlite3.Row
    # A killed process loses nothing with NORMAL; a power cut may undo the last files, which the next add reads again.
    for pragma in ("journal_mode = WAL", "synchronous = NORMAL", "foreign_keys = ON", "cache_size = -32000"):
        connection.execute(f"PRAGMA {pragma}")


def _refresh_messages(connection: sqlite3.Connection) -> None:
    """Rows of mail that another version wrote are written anew, unless another process has just done it."""
    if messages.stale(connection):
        with transaction(connection):
            if messages.stale(connection):
                messages.refresh(connection)


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    """All or nothing; takes the write lock at once, so that it cannot fail half-way for lack of it."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield connection
        connection.execute("COMMIT")
    except BaseException:
        rollback(connection)
        raise


def stored_if_free(connection: sqlite3.Connection, store: Callable[[], bool]) -> bool:
    """What `store` says, run in a transaction; False where another process is writing or the disk is full: nothing is
    stored then. For what is computed again when it is not there."""
    patience = connection.execute("PRAGMA busy_timeout").fetchone()[0]
    connection.execute(f"PRAGMA busy_timeout = {_BRIEF_MILLISECONDS}")
    try:
        with transaction(connection):
            return store()
    except sqlite3.OperationalError as error:
        if error.sqlite_errorname not in ("SQLITE_BUSY", "SQLITE_FULL"):
            raise
        return False
    finally:
        connection.execute(f"PRAGMA busy_timeout = {patience}")


def rollback(connection: sqlite3.Connection) -> None:
    """Undoes the open transaction. A full disk may have undone it already."""
    if connection.in_transaction:
        connection.execute("ROLLBACK")


def faults(connection: sqlite3.Connection) -> Iterator[str]:
    """What SQLite itself finds wrong with the file, in sentences."""
    for row in connection.execute("PRAGMA integrity_check(20)"):
        if row[0] != "ok":
            yield str(row[0])
    for row in connection.execute("PRAGMA foreign_key_check"):
        yield f"a row of {row['table']} points at a row of {row['parent']} that is gone"


@contextmanager
def library_errors(path: Path) -> Iterator[None]:
    """Turns what SQLite and the file system say about the library's own file into errors for people."""
    try:
        yield
    except LIBRARY_FAULTS as error:
        raise explain(error, path) from error
    except OSError as error:
        raise IngestError(f"cannot open the library {path}: {error.strerror}", "check the data directory") from error


def explain(error: Exception, path: Path) -> IngestError:
    """What one of LIBRARY_FAULTS means for the library at `path`."""
    name = getattr(error, "sqlite_errorname", "")
    if name.startswith("SQLITE_FULL"):
        return IngestError(
            f"the disk that holds {path} is full: what was in work was not stored, all that was reported before is",
            "free some space and run the same command again",
        )
    if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return IngestError(f"the library {path} stayed locked by another process", "try again when it has finished")
    if name.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB")) or not isinstance(error, sqlite3.DatabaseError):
        return LibraryDamaged(
            f"the library {path} is damaged: {error}",
            f"move {path.name}, {path.name}-wal and {path.name}-shm away, then add your folders again;"
            " your own files are not affected",
        )
    if name.startswith("SQLITE_IOERR") and shutil.disk_usage(path.parent).free < _ROOM:
        return IngestError(
            f"the disk that holds {path} is full: the library cannot be opened without a little room",
            "free some space and run the same command again",
        )
    if name.startswith(("SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_PERM", "SQLITE_AUTH")):
        return IngestError(
            f"the library {path} cannot be opened for writing: {error}",
            "check the permissions of the file and its folder, or choose another data directory with --data-dir",
        )
    return IngestError(f"the library {path} cannot be used: {error}", "check the data directory and its free space")
