"""The library as one file that is a library, and back.

A backup is a copy of one moment, made while others read and write; it is checked before it takes its name, and takes it
at once or not at all. Restoring is one transaction of the library's own file: whatever stops it, the library is what it
was before or what the backup says.
"""

import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

from unabridged.ingest.catalog.database import connect, explain
from unabridged.ingest.catalog.migrations import STEPS
from unabridged.ingest.errors import IngestError, LibraryDamaged
from unabridged.ingest.library import Library
from unabridged.ingest.limits import MIB
from unabridged.ingest.lock import Lock
from unabridged.ingest.paths import expanded

_PAGES = 2_000
OnPages = Callable[[int, int], None]


def backup(library: Library, target: Path, *, force: bool = False, on_pages: OnPages = lambda done, total: None) -> int:
    """Writes the library to the file `target`; its bytes. Raises IngestError: the file exists (unless `force`), the
    disk is full, or the copy is not sound."""
    target = expanded(target).absolute()
    _check_target(library, target, force)
    beside = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        beside.touch(mode=0o600)
        with closing(sqlite3.connect(beside)) as copy:
            _copy(library.connection, copy, on_pages)
            copy.execute("PRAGMA journal_mode = DELETE")  # one file, without side files
            _check(copy, beside)
        _sync(beside)
        _name(beside, target, force)
    except sqlite3.DatabaseError as error:
        raise explain(error, target) from error
    except OSError as error:
        raise IngestError(f"cannot write {target}: {error.strerror}", "choose another place") from error
    finally:
        with suppress(OSError):
            beside.unlink(missing_ok=True)
    return target.stat().st_size


def restore(source: Path, path: Path, *, force: bool = False, on_pages: OnPages = lambda done, total: None) -> None:
    """Makes the library at `path` what the backup `source` says. Raises IngestError: the file is no sound library, the
    library holds documents (unless `force`), LibraryBusy."""
    source = expanded(source).absolute()
    if not source.is_file():
        raise IngestError(f"no backup lies at {source}", "name the file that `unabridged library backup` wrote")
    path.parent.mkdir(parents=True, exist_ok=True)
    with Lock(path.with_name("library.lock")), closing(_open_backup(source)) as saved:
        _check(saved, source)
        _set_aside_if_damaged(path, force)
        with closing(connect(path)) as live:
            held = live.execute("SELECT COUNT(*) FROM files").fetchone()[0]
            if held and not force:
                raise IngestError(
                    f"the library {path} holds {held:,} files",
                    "--force replaces them by what the backup holds; `unabridged library backup` keeps them first",
                )
            try:
                _copy(saved, live, on_pages)
            except sqlite3.DatabaseError as error:
                raise explain(error, path) from error
        connect(path).close()  # an older backup gets the tables of today


def _check_target(library: Library, target: Path, force: bool) -> None:
    if target.is_dir():
        raise IngestError(f"{target} is a folder", "name the file that the backup shall be")
    if not target.parent.is_dir():
        raise IngestError(f"the folder {target.parent} does not exist", "make it first, or choose another place")
    if target.exists() and target.samefile(library.path):
        raise IngestError(f"{target} is the library itself", "choose another name for the backup")
    if os.path.lexists(target) and not force:
        raise IngestError(f"{target} exists", "choose another name, or replace it with --force")
    pages, page_bytes = (library.connection.execute(f"PRAGMA page_{what}").fetchone()[0] for what in ("count", "size"))
    size, free = pages * page_bytes, shutil.disk_usage(target.parent).free
    if size > free:
        raise IngestError(
            f"the disk of {target} has {free / MIB:,.1f} MiB free, the library takes {size / MIB:,.1f} MiB",
            "free some space, or choose another disk",
        )


def _copy(source: sqlite3.Connection, target: sqlite3.Connection, on_pages: OnPages) -> None:
    def tell(_: int, remaining: int, total: int) -> None:
        on_pages(total - remaining, total)

    # One moment of the source, held so that writers elsewhere neither wait nor make the copy begin anew.
    source.execute("BEGIN")
    try:
        source.execute("SELECT 1 FROM sqlite_master").fetchone()
        source.backup(target, pages=_PAGES, progress=tell, sleep=0.05)
    finally:
        source.execute("ROLLBACK")


def _check(copy: sqlite3.Connection, file: Path) -> None:
    """Raises LibraryDamaged where the file is no sound library that this program can read."""
    try:
        found = [row[0] for row in copy.execute("PRAGMA integrity_check(3)")]
        version = copy.execute("PRAGMA user_version").fetchone()[0]
        copy.execute("SELECT COUNT(*) FROM files JOIN contents ON contents.id = content_id").fetchone()
    except sqlite3.DatabaseError as error:
        raise LibraryDamaged(f"{file} is no library: {error}", "name another backup") from error
    if found != ["ok"]:
        raise LibraryDamaged(f"{file} is damaged: {found[0]}", "`unabridged library verify` says more")
    if version > len(STEPS):
        raise LibraryDamaged(f"{file} was written by a newer version (schema {version})", "update unabridged")


def _open_backup(source: Path) -> sqlite3.Connection:
    uri = f"{source.as_uri()}?mode=ro"
    return sqlite3.connect(uri, uri=True, isolation_level=None)


def _set_aside_if_damaged(path: Path, force: bool) -> None:
    """A database that cannot be opened is kept under another name, with its side files."""
    if not path.exists():
        return
    try:
        connect(path).close()
    except LibraryDamaged as error:
        if not force:
            raise LibraryDamaged(
                error.message, f"--force sets it aside as {path.name}.damaged, then restores"
            ) from error
        for side in ("", "-wal", "-shm"):
            file = path.with_name(path.name + side)
            if file.exists():
                file.replace(path.with_name(f"{path.name}.damaged{side}"))


def _sync(file: Path) -> None:
    descriptor = os.open(file, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _name(beside: Path, target: Path, force: bool) -> None:
    if force:
        beside.replace(target)
        return
    try:
        os.link(beside, target)  # fails where the name has been taken meanwhile
    except FileExistsError as error:
        raise IngestError(f"{target} exists", "choose another name, or replace it with --force") from error
    except OSError:  # a file system without links
        if target.exists():
            raise IngestError(f"{target} exists", "choose another name, or replace it with --force") from None
        beside.replace(target)
