"""Which messages belong to one conversation.

A message joins the thread of any id that it has or names: Gmail's thread id, the messages that it answers (References,
else In-Reply-To), the first 22 bytes of Outlook's Thread-Index, and its own Message-ID, under which others name it. A
message that is named and not here is a key like the others, so its answers find each other; loops join what is one
thread anyway. Two of Gmail's threads never become one: Gmail parts a conversation where its subject changes.

An answer without any such id joins, by its subject, the nearest message of the same subject within 90 days that shares
a participant with it. New messages cost look-ups of their own keys; what is stored is not computed again.
"""

import json
import re
import sqlite3
from collections.abc import Mapping

_ADDRESS = re.compile(r"[^\s<>,;\"'()]+@[^\s<>,;\"'()]+")
_REFERENCES = 100
_WINDOW = 90 * 86_400  # seconds
_NEAR = 25  # messages of one subject that are looked at on each side


def keys(meta: Mapping[str, str]) -> list[str]:
    """What a message is joined by, the most decisive first."""
    found = [f"g:{meta['gm_thrid']}"] if meta.get("gm_thrid") else []
    people = f"{meta.get('from', '')} {meta.get('to', '')} {meta.get('cc', '')}"
    named = _ids(meta.get("references", ""))[::-1] or _ids(meta.get("in_reply_to", ""))[:1]
    # Some programs put an address where the id of a message belongs.
    found += [f"i:{name}" for name in named[:_REFERENCES] if name not in people]
    if meta.get("thread_index"):
        found.append(f"x:{meta['thread_index'][:44].lower()}")
    found += [f"i:{name}" for name in _ids(meta.get("message_id", ""))[:1]]
    return list(dict.fromkeys(found))


def refers(meta: Mapping[str, str]) -> bool:
    """Whether a message says itself which thread it belongs to."""
    return any(meta.get(name) for name in ("gm_thrid", "references", "in_reply_to", "thread_index"))


def _ids(text: str) -> list[str]:
    return [name for part in text.split() if len(name := part.strip("<>,;")) > 2]


def join(connection: sqlite3.Connection, metas: Mapping[int, Mapping[str, str]]) -> None:
    """Gives these messages, by document id, their threads, inside the caller's transaction."""
    keyed = {document: keys(meta) for document, meta in metas.items()}
    forest = _Forest(connection, {key for own in keyed.values() for key in own})
    places = {document: forest.place(own) for document, own in keyed.items()}
    forest.store(connection)
    rows = [(forest.number(place), document) for document, place in places.items()]
    connection.executemany("UPDATE messages SET thread_id = ? WHERE document_id = ?", rows)
    for document, meta in metas.items():
        if not refers(meta):
            _by_subject(connection, document)
    # Messages of one subject quote each other across threads as well.
    connection.execute(
        """
        WITH own AS (SELECT subject, thread_id FROM messages WHERE document_id IN (SELECT value FROM json_each(?)))
        UPDATE threads SET compared = 0 WHERE id IN (
            SELECT thread_id FROM own
            UNION SELECT thread_id FROM messages WHERE subject IN (SELECT subject FROM own WHERE subject != ''))
        """,
        (json.dumps(list(metas)),),
    )


class _Forest:
    """The threads that some keys lead to, and new ones (negative until they are stored), joined in memory."""

    def __init__(self, connection: sqlite3.Connection, wanted: set[str]) -> None:
        rows = connection.execute(
            "SELECT k.key, k.thread_id, t.gmail FROM thread_keys k JOIN threads t ON t.id = k.thread_id"
            " WHERE k.key IN (SELECT value FROM json_each(?))",
            (json.dumps(list(wanted)),),
        ).fetchall()
        self._of = {row["key"]: row["thread_id"] for row in rows}
        self._gmail: dict[int, str] = {row["thread_id"]: row["gmail"] for row in rows}
        self._up = {number: number for number in self._gmail}
        self._fresh: dict[str, int] = {}
        self._made = 0
        self._numbers: dict[int, int] = {}

    def place(self, own: list[str]) -> int:
        """Where a message with these keys belongs."""
        gmail = next((key[2:] for key in own if key.startswith("g:")), "")
        here: int | None = None
        for key in own:
            if key not in self._of:
                continue
            there = self._top(self._of[key])
            if here is None:
                here = None if gmail and self._gmail[there] not in ("", gmail) else there
            else:
                here = self._joined(here, there)
        if here is None:
            self._made -= 1
            here = self._up[self._made] = self._made
            self._gmail[here] = ""
        self._gmail[here] = self._gmail[here] or gmail
        for key in own:
            if key not in self._of:
                self._of[key] = self._fresh[key] = here
        return here

    def _top(self, number: int) -> int:
        while self._up[number] != number:
            self._up[number] = self._up[self._up[number]]
            number = self._up[number]
        return number

    def _joined(self, one: int, other: int) -> int:
        """The thread that both are now; `one` where they must stay apart."""
        if one == other or (self._gmail[one] and self._gmail[other] and self._gmail[one] != self._gmail[other]):
            return one
        # What is stored keeps its number, the older one of two.
        top, under = sorted((one, other), key=lambda number: (number < 0, abs(number)))
        self._up[under] = top
        self._gmail[top] = self._gmail[top] or self._gmail[under]
        return top

    def number(self, place: int) -> int:
        """The stored number of a place, after `store`."""
        return self._numbers[self._top(place)]

    def store(self, connection: sqlite3.Connection) -> None:
        """Writes what is new and what was joined."""
        for number in self._up:
            if number > 0 and (top := self._top(number)) != number:
                _merge(connection, top, number)
            elif number > 0:
                self._numbers[number] = number
                connection.execute("UPDATE threads SET gmail = ? WHERE id = ?", (self._gmail[number], number))
            elif self._up[number] == number:
                cursor = connection.execute(
                    "INSERT INTO threads (gmail, compared) VALUES (?, 0)", (self._gmail[number],)
                )
                self._numbers[number] = cursor.lastrowid or 0
        rows = [(key, self.number(place)) for key, place in self._fresh.items()]
        connection.executemany("INSERT INTO thread_keys VALUES (?, ?)", rows)


def _merge(connection: sqlite3.Connection, kept: int, gone: int) -> None:
    connection.execute("UPDATE messages SET thread_id = ? WHERE thread_id = ?", (kept, gone))
    connection.execute("UPDATE thread_keys SET thread_id = ? WHERE thread_id = ?", (kept, gone))
    connection.execute("DELETE FROM threads WHERE id = ?", (gone,))


def _by_subject(connection: sqlite3.Connection, document: int) -> None:
    """Joins a message that refers to no other with those that its subject and people point to."""
    own = connection.execute("SELECT * FROM messages WHERE document_id = ?", (document,)).fetchone()
    if not own["subject"] or own["at"] is None:
        return
    people = _people(own)
    for other in _same_subject(connection, own):
        if people & _people(other) and _merged(connection, own, other) and own["reply"]:
            return


def _same_subject(connection: sqlite3.Connection, own: sqlite3.Row) -> list[sqlite3.Row]:
    """For an answer the messages around it, those before it first; for another the answers behind it that refer to
    nothing either."""
    before = (
        "SELECT * FROM messages WHERE subject = :subject AND at BETWEEN :at - :window AND :at"
        " AND document_id != :document_id ORDER BY at DESC LIMIT :near"
    )
    behind = (
        "SELECT * FROM messages WHERE subject = :subject AND at BETWEEN :at AND :at + :window AND reply AND loose"
        " AND document_id != :document_id ORDER BY at LIMIT :near"
    )
    values = {**dict(own), "window": _WINDOW, "near": _NEAR}
    queries = (before, behind) if own["reply"] else (behind,)
    return [row for query in queries for row in connection.execute(query, values)]


def _people(row: sqlite3.Row) -> set[str]:
    found = set(_ADDRESS.findall(f"{row['sender']} {row['recipients']}"))
    return found or ({row["sender"]} if row["sender"] else set())


def _merged(connection: sqlite3.Connection, one: sqlite3.Row, other: sqlite3.Row) -> bool:
    """Whether two messages are in one thread now."""
    rows = connection.execute(
        "SELECT DISTINCT t.id, t.gmail FROM messages m JOIN threads t ON t.id = m.thread_id"
        " WHERE m.document_id IN (?, ?) ORDER BY t.id",
        (one["document_id"], other["document_id"]),
    ).fetchall()
    if len(rows) == 2:
        if rows[0]["gmail"] and rows[1]["gmail"]:
            return False
        _merge(connection, rows[0]["id"], rows[1]["id"])
        gmail = rows[0]["gmail"] or rows[1]["gmail"]
        connection.execute("UPDATE threads SET gmail = ? WHERE id = ?", (gmail, rows[0]["id"]))
    # Alone in the list: they are together already, or the other has no thread yet and will look for this one itself.
    return len(rows) == 2 or other["thread_id"] == one["thread_id"]
