"""Which quotations in messages stand in other messages of the library, so that a context need not hold them twice.

A thread is compared as a whole, oldest message first, with the messages of other threads that have its subject: a
quotation is a repeat where nine tenths of its words lie in runs of five (shorter ones: as a whole) that stand in the
text of earlier messages. Text that is a repeat itself is no source, so that a source always holds what it is named for.
What of a message counts as a quotation and as its text says `quoted_text`.

What was found is stored until the thread changes; see the table `repeats`.
"""

import json
import sqlite3
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from unabridged.ingest.database import transaction
from unabridged.ingest.library import Library
from unabridged.ingest.quoted_text import Message, message_of

_RUN = 5  # words
_SHORTEST = 3
_SHARE = 0.9
_SOURCES = 64
_PLACES = 8  # messages that are remembered for a run
_NEAR = 50  # messages of other threads with the same subject
_MOST = 20_000_000  # characters of a thread that is compared
_BATCH = 500  # threads in one transaction
_BUSY_MILLISECONDS = 500


@dataclass(frozen=True)
class Repeat:
    """`text[start:end]` of a page stands in the documents `sources`, all of them together."""

    page: int
    start: int
    end: int
    sources: frozenset[int]


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
    found: dict[int, tuple[Repeat, ...]] = {}
    stale = [row["id"] for row in rows]
    for first in range(0, len(stale), _BATCH):
        version = _version(connection)
        batch = {thread: dict(_compare(connection, thread)) for thread in stale[first : first + _BATCH]}
        _try_to_store(connection, batch, version)
        for fresh in batch.values():
            found |= {number: each for number, each in fresh.items() if number in asked}
    wanted = (
        "SELECT * FROM repeats WHERE document_id IN (SELECT value FROM json_each(?)) ORDER BY document_id, page, start"
    )
    stored: dict[int, list[Repeat]] = {}
    for row in connection.execute(wanted, (ids,)):
        sources = frozenset(json.loads(row["sources"]))
        stored.setdefault(row["document_id"], []).append(Repeat(row["page"], row["start"], row["end"], sources))
    return {number: tuple(each) for number, each in stored.items()} | found


def _compare(connection: sqlite3.Connection, thread: int) -> Iterator[tuple[int, tuple[Repeat, ...]]]:
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
        size += messages[-1].size
        if size > _MOST:
            return
    yield from _search(messages, ids)


def _of_same_subject(connection: sqlite3.Connection, thread: int, subjects: set[str]) -> list[sqlite3.Row]:
    return connection.execute(
        "SELECT document_id, subject, at FROM messages WHERE subject IN (SELECT value FROM json_each(?))"
        " AND thread_id != ? ORDER BY at DESC LIMIT ?",
        (json.dumps(list(subjects)), thread, _NEAR),
    ).fetchall()


def _search(messages: list[Message], wanted: set[int]) -> Iterator[tuple[int, tuple[Repeat, ...]]]:
    """The repeats of the messages `wanted`, which are in order of time among all."""
    quotes = [quote[3] for message in messages for quote in message.quotes]
    lengths = {_length(words) for words in quotes if len(words) >= _SHORTEST}
    sought = {run for words in quotes for run in _runs(words, _length(words))}
    places: dict[int, list[int]] = {}
    for message in messages:
        found = []
        for page, start, end, words in message.quotes:
            if (sources := _sources(words, places)) and end > start:
                found.append(Repeat(page, start, end, frozenset(sources)))
            else:
                message.own.append(words)
        for own in message.own:
            for run in (run for length in lengths for run in _runs(own, length)):
                known = places.setdefault(run, []) if run in sought else None
                if known is not None and len(known) < _PLACES and known[-1:] != [message.id]:
                    known.append(message.id)
        if found and message.id in wanted:
            yield message.id, tuple(found)


def _length(words: list[str]) -> int:
    return min(_RUN, len(words))


def _runs(words: list[str], length: int) -> Iterator[int]:
    """So many words each, as numbers."""
    return map(hash, zip(*(words[offset:] for offset in range(length)), strict=False)) if length else iter(())


def _sources(words: list[str], places: dict[int, list[int]]) -> list[int]:
    """The fewest messages, by how much they hold, that hold nearly all of the words; none where there are none."""
    length = _length(words)
    if length < _SHORTEST:
        return []
    runs_of: dict[int, list[int]] = {}
    for at, run in enumerate(_runs(words, length)):
        for document in places.get(run, ()):
            runs_of.setdefault(document, []).append(at)
    covered, total, chosen = bytearray(len(words)), 0, []
    for document in sorted(runs_of, key=lambda number: (-len(runs_of[number]), number))[:_SOURCES]:
        for at in runs_of[document]:
            covered[at : at + length] = b"\1" * length
        if covered.count(1) > total:
            total = covered.count(1)
            chosen.append(document)
        if total >= _SHARE * len(words):
            return chosen
    return []


def _version(connection: sqlite3.Connection) -> int:
    """Changes when another connection has written."""
    found: int = connection.execute("PRAGMA data_version").fetchone()[0]
    return found


def _try_to_store(
    connection: sqlite3.Connection, batch: dict[int, dict[int, tuple[Repeat, ...]]], version: int
) -> None:
    patience = connection.execute("PRAGMA busy_timeout").fetchone()[0]
    connection.execute(f"PRAGMA busy_timeout = {_BUSY_MILLISECONDS}")
    try:
        with transaction(connection):
            # What was compared may be older than what another process has stored meanwhile.
            if _version(connection) == version:
                _store(connection, batch)
    except sqlite3.OperationalError as error:
        # Nothing is lost: the threads are compared again next time.
        if error.sqlite_errorname not in ("SQLITE_BUSY", "SQLITE_FULL"):
            raise
    finally:
        connection.execute(f"PRAGMA busy_timeout = {patience}")


def _store(connection: sqlite3.Connection, batch: dict[int, dict[int, tuple[Repeat, ...]]]) -> None:
    threads = json.dumps(list(batch))
    connection.execute(
        "DELETE FROM repeats WHERE document_id IN (SELECT document_id FROM messages WHERE thread_id IN"
        " (SELECT value FROM json_each(?)))",
        (threads,),
    )
    rows = [
        (document, each.page, each.start, each.end, json.dumps(sorted(each.sources)))
        for found in batch.values()
        for document, repeated in found.items()
        for each in repeated
    ]
    connection.executemany("INSERT OR REPLACE INTO repeats VALUES (?, ?, ?, ?, ?)", rows)
    connection.execute("UPDATE threads SET compared = 1 WHERE id IN (SELECT value FROM json_each(?))", (threads,))
