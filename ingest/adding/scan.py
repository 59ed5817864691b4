"""Compares what lies on the disk with what the library knows of it, a thousand files at a time and without opening one.

What lies there as it did is done with here; the rest goes to the `Todo`. Memory does not grow with the number of files
but by a bit for each.
"""

import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from itertools import islice

from unabridged.ingest.adding.done import file_done
from unabridged.ingest.adding.todo import Todo
from unabridged.ingest.adding.walk import Found, Passed, Place, Problem
from unabridged.ingest.catalog.database import transaction
from unabridged.ingest.catalog.rows import FileDone, Ignored
from unabridged.ingest.document import Status
from unabridged.ingest.paths import stored

_CHUNK = 1_000

# Said of a file whose bytes were not hashed: nothing of it changes as long as its size and time do not.
_SETTLED = (Status.TOO_LARGE, Status.UNSUPPORTED)


class Seen:
    """A set of file ids, a bit each."""

    def __init__(self) -> None:
        self._bits = bytearray()

    def add(self, number: int) -> None:
        """Puts a number into the set."""
        byte = number >> 3
        if byte >= len(self._bits):
            self._bits.extend(bytes(byte + 1024 - len(self._bits)))
        self._bits[byte] |= 1 << (number & 7)

    def __contains__(self, number: int) -> bool:
        byte = number >> 3
        return byte < len(self._bits) and bool(self._bits[byte] & 1 << (number & 7))


class Scan:
    """One scan for one collection. `wants` says of a content that is stored whether it shall be read again."""

    def __init__(self, connection: sqlite3.Connection, collection: int, wants: Callable[[sqlite3.Row], bool]) -> None:
        self._connection = connection
        self._collection = collection
        self._wants = wants
        self.todo = Todo(connection)
        self.seen = Seen()
        self.found = 0  # files and problems of all walks

    def look(self, places: Iterable[Place]) -> Iterator[FileDone | Ignored | None]:
        """What is done with already; None behind each thousand places, so that progress can be told."""
        rest = iter(places)
        while chunk := list(islice(rest, _CHUNK)):
            yield from (_ignored(one) for one in chunk if isinstance(one, Passed))
            yield from self._compare([one for one in chunk if not isinstance(one, Passed)])
            yield None

    def known(self, places: Iterable[Found | Problem]) -> dict[str, sqlite3.Row]:
        """What the library knows of these places, by stored path: the content, the file's id, size and time, and
        whether it is a member of the collection."""
        rows = self._connection.execute(
            """
            SELECT c.*, f.path, f.id AS file_id, f.size AS file_size, f.mtime_ns, m.file_id IS NOT NULL AS member
            FROM json_each(?) named CROSS JOIN files f ON f.path = named.value JOIN contents c ON c.id = f.content_id
            LEFT JOIN collection_files m ON m.file_id = f.id AND m.collection_id = ?
            """,
            (json.dumps([stored(place.path) for place in places]), self._collection),
        )
        return {row["path"]: row for row in rows}

    def unchanged(self, known: sqlite3.Row, place: Found | Problem) -> bool:
        """Whether the file lies there as it did when it was read, and needs no reading."""
        return isinstance(place, Found) and _same(known, place) and not self._wants(known)

    def _compare(self, places: list[Found | Problem]) -> Iterator[FileDone]:
        known = self.known(places)
        rest: list[Found | Problem] = []
        strangers: list[sqlite3.Row] = []
        for place in places:
            path = stored(place.path)
            row = known.get(path)
            if row is not None and row["file_id"] in self.seen:
                continue  # another folder that was named led here as well
            if row is not None:
                self.seen.add(row["file_id"])
            if row is None or not self.unchanged(row, place):
                rest.append(place)
            elif row["member"]:
                self.found += 1
                yield file_done(self._connection, path, row, "unchanged")
            else:
                strangers.append(row)
        before = self.todo.files
        self.todo.put(rest)
        self.found += self.todo.files - before + len(strangers)
        yield from self._join(strangers)

    def _join(self, strangers: list[sqlite3.Row]) -> Iterator[FileDone]:
        """Files that another collection holds, and that lie there as they did."""
        if strangers:
            with transaction(self._connection):
                self._connection.executemany(
                    "INSERT INTO collection_files VALUES (?, ?)",
                    [(self._collection, row["file_id"]) for row in strangers],
                )
        yield from (file_done(self._connection, row["path"], row, "new") for row in strangers)


def _ignored(passed: Passed) -> Ignored:
    return Ignored(path=stored(passed.path), rule=passed.rule, files=passed.files)


def _same(known: sqlite3.Row, found: Found) -> bool:
    if known["sha256"] is None and known["status"] not in _SETTLED:
        return False
    return (known["file_size"], known["mtime_ns"]) == (found.size, found.mtime_ns)
