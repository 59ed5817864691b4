"""What a scan left to be dealt with: a list in a temporary table, so that it takes no memory however long it is.

In the order of the walk, each place once. It lives and dies with its connection.
"""

import os
import sqlite3
from collections.abc import Iterable, Iterator

from unabridged.ingest.adding.walk import Found, Problem
from unabridged.ingest.document import Status
from unabridged.ingest.paths import stored

_CHUNK = 256


class Todo:
    """Places that are new, changed or in some way to be read. `bytes` and `files` are what was put so far."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self.files = 0
        self.bytes = 0
        connection.execute(
            "CREATE TEMP TABLE IF NOT EXISTS todo (id INTEGER PRIMARY KEY, stored TEXT UNIQUE, path BLOB, size INTEGER,"
            " mtime_ns INTEGER, status TEXT, reason TEXT)"
        )
        connection.execute("DELETE FROM todo")

    def put(self, places: Iterable[Found | Problem]) -> None:
        """Notes places; those that are there already stay as they are."""
        self._connection.execute("BEGIN")
        for place in places:
            self._put(place)
        self._connection.execute("COMMIT")

    def _put(self, place: Found | Problem) -> None:
        raw, name = os.fsencode(place.path), stored(place.path)
        size = place.size if isinstance(place, Found) else 0
        values = (
            (name, raw, size, place.mtime_ns, None, None)
            if isinstance(place, Found)
            else (name, raw, None, None, place.status, place.reason)
        )
        cursor = self._connection.execute("INSERT OR IGNORE INTO todo VALUES (NULL, ?, ?, ?, ?, ?, ?)", values)
        self.files += cursor.rowcount
        self.bytes += size * cursor.rowcount

    def chunks(self) -> Iterator[list[Found | Problem]]:
        """All of them, some at a time. The connection may be used for other things in between."""
        last = 0
        while rows := self._connection.execute(
            "SELECT * FROM todo WHERE id > ? ORDER BY id LIMIT ?", (last, _CHUNK)
        ).fetchall():
            yield [_place(row) for row in rows]
            last = rows[-1]["id"]


def _place(row: sqlite3.Row) -> Found | Problem:
    path = os.fsdecode(row["path"])
    if row["status"] is not None:
        return Problem(path, Status(row["status"]), row["reason"])
    return Found(path, row["size"], row["mtime_ns"])
