"""Which quotations in messages stand in other messages of the library, so that a context need not hold them twice.

A thread is compared as a whole, oldest message first, with the messages of other threads that have its subject: a
quotation is a repeat where nine tenths of its words lie in runs of five that stand in the text of earlier messages.
Text that is a repeat itself is no source, so that a source always holds what it is named for. Lines that say who is
quoted do not count. In front of an answer the last words of a quotation stay: an answer between quotations would make
no sense without them.

What was found is stored until the thread changes; see the table `repeats`.
"""

import json
import re
import sqlite3
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from unabridged.ingest.database import transaction
from unabridged.ingest.document import PartKind
from unabridged.ingest.label_quotes import attributes
from unabridged.ingest.library import Library

_RUN = 5  # words
_SHARE = 0.9
_SOURCES = 64
_PLACES = 8  # messages that are remembered for a run
_KEPT = 12  # words in front of an answer
_NEAR = 50  # messages of other threads with the same subject
_MOST = 20_000_000  # characters of a thread that is compared
_BATCH = 500  # threads in one transaction
_BUSY_MILLISECONDS = 500
_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]|[^\W_]+")
_QUOTED = (PartKind.QUOTED, PartKind.FORWARDED)
_NO_SOURCE = (PartKind.HEADER, PartKind.HIDDEN, PartKind.ATTRIBUTION)


@dataclass(frozen=True)
class Repeat:
    """`text[start:end]` of a page stands in the documents `sources`, all of them together."""

    page: int
    start: int
    end: int
    sources: frozenset[int]


@dataclass
class _Message:
    """A message's quotations as (page, start, end, words), and its other text."""

    id: int
    quotes: list[tuple[int, int, int, list[str]]] = field(default_factory=list)
    own: list[list[str]] = field(default_factory=list)
    size: int = 0


def repeats(library: Library, documents: Iterable[int]) -> dict[int, tuple[Repeat, ...]]:
    """The repeats of each of these documents that has any, in order. Compares threads that changed, which may take
    some milliseconds for each message; stores what it found unless another process is writing. From any thread."""
    connection = library.connection
    ids = json.dumps(list(documents))
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
            found |= fresh
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
        messages.append(_message(connection, row["document_id"]))
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


def _message(connection: sqlite3.Connection, document: int) -> _Message:
    found = _Message(document)
    rows = connection.execute(
        "SELECT number, text, parts FROM pages WHERE document_id = ? ORDER BY number", (document,)
    )
    for row in rows:
        text, at = row["text"], 0
        found.size += len(text)
        parts = [(PartKind(kind), start, end) for kind, start, end in json.loads(row["parts"])]
        for index, (kind, start, end) in enumerate(parts):
            found.own.append(_words(text[at:start]))
            at = end
            if kind in _QUOTED:
                behind = parts[index + 1][1] if index + 1 < len(parts) else len(text)
                quoted = text[start:end]
                cut = len(quoted) - (_last_words(quoted) if text[end:behind].strip() else 0)
                found.own.append(_words(quoted[cut:]))
                found.quotes.append((row["number"], start, start + cut, _quoted_words(quoted[:cut])))
            elif kind not in _NO_SOURCE:
                found.own.append(_words(text[start:end]))
        found.own.append(_words(text[at:]))
    return found


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())


def _quoted_words(text: str) -> list[str]:
    """The words of a quotation without its marks and without the lines in it that say who is quoted."""
    words: list[str] = []
    for line in text.split("\n"):
        bare = line.lstrip("> \t|›»")
        if bare and not (bare.rstrip()[-1:] in ":：" and attributes(bare)):
            words += _words(bare)
    return words


def _last_words(text: str) -> int:
    """How many characters at the end of a quotation stay in front of an answer: the last lines with some words."""
    kept = words = 0
    for line in reversed(text.split("\n")):
        count = len(_words(line))
        if words and words + count > 2 * _KEPT:
            break
        if count > 2 * _KEPT:
            return kept + len("".join(re.findall(r"\S+\s*", line)[-_KEPT:])) + (1 if kept else 0)
        kept, words = kept + len(line) + (1 if kept else 0), words + count
        if words >= _KEPT:
            break
    return min(kept, len(text))


def _search(messages: list[_Message], wanted: set[int]) -> Iterator[tuple[int, tuple[Repeat, ...]]]:
    """The repeats of the messages `wanted`, which are in order of time among all."""
    sought = {run for message in messages for quote in message.quotes for run in _runs(quote[3])}
    places: dict[int, list[int]] = {}
    for message in messages:
        found = []
        for page, start, end, words in message.quotes:
            if (sources := _sources(words, places)) and end > start:
                found.append(Repeat(page, start, end, frozenset(sources)))
            else:
                message.own.append(words)
        for own in message.own:
            for run in _runs(own):
                known = places.setdefault(run, []) if run in sought else None
                if known is not None and len(known) < _PLACES and known[-1:] != [message.id]:
                    known.append(message.id)
        if found and message.id in wanted:
            yield message.id, tuple(found)


def _runs(words: list[str]) -> Iterator[int]:
    """Five words each, as numbers."""
    return map(hash, zip(*(words[offset:] for offset in range(_RUN)), strict=False))


def _sources(words: list[str], places: dict[int, list[int]]) -> list[int]:
    """The fewest messages, by how much they hold, that hold nearly all of the words; none where there are none."""
    runs_of: dict[int, list[int]] = {}
    for at, run in enumerate(_runs(words)):
        for document in places.get(run, ()):
            runs_of.setdefault(document, []).append(at)
    covered, total, chosen = bytearray(len(words)), 0, []
    for document in sorted(runs_of, key=lambda number: (-len(runs_of[number]), number))[:_SOURCES]:
        for at in runs_of[document]:
            covered[at : at + _RUN] = b"\1" * _RUN
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
