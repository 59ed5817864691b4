"""Which quotations in messages stand in other messages of the library, so that a context need not hold them twice.

A thread is compared as a whole, oldest message first, with the messages of other threads that have its subject. Only
lines of which all words stand one after the other in an earlier message are repeats: see `quoted_lines`. Text that is a
repeat itself is no source, so that a source always holds what it is named for. What of a message counts as a quotation
and as its text says `quoted_text`.

What was found is stored until the thread changes; see the table `repeats`.
"""

import json
import sqlite3
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from unabridged.ingest.catalog.database import stored_if_free
from unabridged.ingest.catalog.messages import identity
from unabridged.ingest.catalog.quoted_lines import Places
from unabridged.ingest.catalog.quoted_text import Message, message_of
from unabridged.ingest.library import Library

_NEAR = 50  # messages of other threads with the same subject
_MOST = 20_000_000  # characters of a thread that is compared
_BATCH = 500  # threads in one transaction


@dataclass(frozen=True)
class Repeat:
    """`text[start:end]` of a page stands in the messages `sources`, all of them together: their identities (rows), so
    that any copy of a message will do."""

    page: int
    start: int
    end: int
    sources: frozenset[str]


def repeats(library: Library, documents: Iterable[int]) -> dict[int, tuple[Repeat, ...]]:
    """The repeats of each of these documents that has any, in order. Compares threads that changed, which may take
    some milliseconds for each message; stores what it found unless another process is writing. From any thread."""
    connection = library.connection
    asked = set(documents)
    ids = json.dumps(list(asked))
    rows = connection.execute(
        "SELECT DISTINCT t.id FROM messages m JOIN threads t ON t.id = m.thread_id"
        " WHERE t.compared = 0 AND m.document_id IN (SELECT value FROM json_each(?))",
        (ids,),
    ).fetchall()
    fresh: list[_Row] = []
    stale = [row["id"] for row in rows]
    for first in range(0, len(stale), _BATCH):
        version = _version(connection)
        batch = stale[first : first + _BATCH]
        found = [row for thread in batch for row in _compare(connection, thread)]
        if not _stored(connection, batch, found, version):
            fresh += [row for row in found if row.document in asked]
    return _named(connection, [*_read(connection, ids), *fresh])


@dataclass(frozen=True)
class _Row:
    """A row of the table."""

    document: int
    page: int
    start: int
    end: int
    sources: list[int]


def _read(connection: sqlite3.Connection, ids: str) -> Iterator[_Row]:
    query = "SELECT * FROM repeats WHERE document_id IN (SELECT value FROM json_each(?))"
    for row in connection.execute(query, (ids,)):
        yield _Row(row["document_id"], row["page"], row["start"], row["end"], json.loads(row["sources"]))


def _named(connection: sqlite3.Connection, rows: list[_Row]) -> dict[int, tuple[Repeat, ...]]:
    """The repeats by document. Rows with a source that is gone are none."""
    wanted = json.dumps(list({source for row in rows for source in row.sources}))
    query = (
        "SELECT document_id, message_id, body_hash FROM messages"
        " WHERE document_id IN (SELECT value FROM json_each(?)) AND body_hash != ''"
    )
    names = {
        row["document_id"]: identity(row["message_id"], row["body_hash"])
        for row in connection.execute(query, (wanted,))
    }
    found: dict[int, list[Repeat]] = {}
    for row in sorted(rows, key=lambda row: (row.document, row.page, row.start)):
        if all(source in names for source in row.sources):
            sources = frozenset(names[source] for source in row.sources)
            found.setdefault(row.document, []).append(Repeat(row.page, row.start, row.end, sources))
    return {document: tuple(each) for document, each in found.items()}


def _compare(connection: sqlite3.Connection, thread: int) -> Iterator[_Row]:
    members = connection.execute(
        "SELECT document_id, subject, at FROM messages WHERE thread_id = ? ORDER BY at, document_id", (thread,)
    ).fetchall()
    quoting = connection.execute(
        "SELECT 1 FROM messages m JOIN pages p ON p.document_id = m.document_id WHERE m.thread_id = ?"
        """ AND (p.parts LIKE '%"quoted"%' OR p.parts LIKE '%"forwarded"%') LIMIT 1""",
        (thread,),
    ).fetchone()
    others = _of_same_subject(connection, thread, {row["subject"] for row in members} - {""}) if quoting else []
    if quoting is None or len(members) + len(others) < 2:
        return
    ids = {row["document_id"] for row in members}
    messages, size = [], 0
    for row in sorted([*members, *others], key=lambda row: (row["at"] is None, row["at"], row["document_id"])):
        messages.append(message_of(connection, row["document_id"]))
        size += len(messages[-1].text)
        if size > _MOST:
            return
    yield from _search(messages, ids)


def _of_same_subject(connection: sqlite3.Connection, thread: int, subjects: set[str]) -> list[sqlite3.Row]:
    return connection.execute(
        "SELECT document_id, subject, at FROM messages WHERE subject IN (SELECT value FROM json_each(?))"
        " AND thread_id != ? ORDER BY at DESC LIMIT ?",
        (json.dumps(list(subjects)), thread, _NEAR),
    ).fetchall()


def _search(messages: list[Message], wanted: set[int]) -> Iterator[_Row]:
    """The repeats of the messages `wanted`, which are in order of time among all."""
    places = Places(messages)
    for message in messages:
        found = places.covered(message)
        places.put(message, found)
        for one in found if message.id in wanted else ():
            for page, start, end in message.on_pages(one.start, one.end):
                yield _Row(message.id, page, start, end, [one.source])


def _version(connection: sqlite3.Connection) -> int:
    """Changes when another connection has written."""
    found: int = connection.execute("PRAGMA data_version").fetchone()[0]
    return found


def _stored(connection: sqlite3.Connection, threads: list[int], rows: list[_Row], version: int) -> bool:
    """Stores what a comparison of threads found; False where another process was or is writing: what was compared may
    be older than what it has stored, and the threads are compared again next time."""

    def store() -> bool:
        if _version(connection) != version:
            return False
        _store(connection, json.dumps(threads), rows)
        return True

    return stored_if_free(connection, store)


def _store(connection: sqlite3.Connection, threads: str, rows: list[_Row]) -> None:
    connection.execute(
        "DELETE FROM repeats WHERE document_id IN (SELECT document_id FROM messages WHERE thread_id IN"
        " (SELECT value FROM json_each(?)))",
        (threads,),
    )
    connection.executemany(
        "INSERT OR REPLACE INTO repeats VALUES (?, ?, ?, ?, ?)",
        [(row.document, row.page, row.start, row.end, json.dumps(row.sources)) for row in rows],
    )
    connection.execute("UPDATE threads SET compared = 1 WHERE id IN (SELECT value FROM json_each(?))", (threads,))
