"""Holds the library against the files on the disk, by their bytes. Reads all of them; alters none."""

import hashlib
import os
import sqlite3
from collections.abc import Iterator

from unabridged.ingest.catalog.findings import Checked, Finding
from unabridged.ingest.opening import open_at_once
from unabridged.ingest.paths import on_disk

_PIECE = 1 << 20
_ADD = "`unabridged add` brings the library up to date"


def audit_files(connection: sqlite3.Connection) -> Iterator[Finding | Checked]:
    """Which files are gone, have changed, or hold other bytes though size and time are those that were read."""
    total = connection.execute("SELECT COUNT(*) FROM files").fetchone()[0]
    rows = connection.execute(
        "SELECT f.path, f.size, f.mtime_ns, c.sha256 FROM files f JOIN contents c ON c.id = f.content_id"
        " ORDER BY f.path"
    )
    for done, row in enumerate(rows):
        yield Checked("files", done, total)
        found = _look(row)
        if found is not None:
            yield found
    yield Checked("files", total, total)


def _look(row: sqlite3.Row) -> Finding | None:
    path = row["path"]
    try:
        there = os.stat(on_disk(path))  # noqa: PTH116 - a hundred thousand times
        if (there.st_size, there.st_mtime_ns) != (row["size"], row["mtime_ns"]):
            return None if row["sha256"] is None else Finding("stale", "changed since it was read", _ADD, path)
        if row["sha256"] is None or _digest(on_disk(path)) == row["sha256"]:
            return None
    except FileNotFoundError:
        return None if row["sha256"] is None else Finding("stale", "gone from the disk", _ADD, path)
    except OSError as error:
        return Finding("stale", f"cannot be read now: {error.strerror}", "check the disk and permissions", path)
    return Finding(
        "damaged",
        "other bytes than were read, though size and time are the same",
        "compare it with a copy; `unabridged add --force` reads what lies there now",
        path,
    )


def _digest(path: str) -> str:
    digest = hashlib.sha256()
    with open_at_once(path) as file:
        while piece := file.read(_PIECE):
            digest.update(piece)
    return digest.hexdigest()
