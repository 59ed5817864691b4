"""What the library knows of mail beside its text: who wrote to whom, when, under which subject; one row a message.

The rows follow from the `meta` of documents (ingest.document) and, where a reader gave no body hash, from their pages.
They are written while a file is stored; `refresh` writes all of them anew when this version makes other rows than the
one that wrote them. Which messages belong together is `threads`.
"""

import json
import sqlite3
from collections.abc import Mapping
from datetime import UTC, datetime

from unabridged.ingest.catalog import threads
from unabridged.ingest.catalog.subject import base, fold
from unabridged.ingest.document import Kind, Part, PartKind
from unabridged.ingest.mail import labels
from unabridged.ingest.mail.place import FILE_TIME

# Changes whenever the rows or the threads of given messages do.
MESSAGES_VERSION = "1"
_BATCH = 2_000


def put(connection: sqlite3.Connection, document_id: int, meta: Mapping[str, str]) -> None:
    """Notes a message, inside the caller's transaction. It has no thread until `settle`."""
    subject, reply = base(meta.get("subject", ""))
    connection.execute(
        "INSERT INTO messages (document_id, message_id, body_hash, sender, recipients, at, subject, reply, loose)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            document_id,
            meta.get("message_id", ""),
            meta.get("body_hash", ""),
            fold(f"{meta.get('from', '')} {meta.get('reply_to', '')}"),
            fold(" ".join(meta.get(key, "") for key in ("to", "cc", "bcc"))),
            # The time of a file says nothing of when a message was written: it joins nothing.
            moment(meta.get("date", "")) if meta.get("date_source") != FILE_TIME else None,
            subject,
            reply,
            not threads.refers(meta),
        ),
    )


def settle(connection: sqlite3.Connection) -> None:
    """Gives every message that has none its thread, and its body hash where it lacks one, inside the caller's
    transaction."""
    while True:
        rows = connection.execute(
            "SELECT m.document_id, m.body_hash, d.meta FROM messages m JOIN documents d ON d.id = m.document_id"
            " WHERE m.thread_id IS NULL ORDER BY m.document_id LIMIT ?",
            (_BATCH,),
        ).fetchall()
        if not rows:
            return
        metas = {row["document_id"]: json.loads(row["meta"]) for row in rows}
        unhashed = [row["document_id"] for row in rows if not row["body_hash"]]
        hashes = [(body_hash(connection, number, metas[number]), number) for number in unhashed]
        connection.executemany("UPDATE messages SET body_hash = ? WHERE document_id = ?", hashes)
        threads.join(connection, metas)


def refresh(connection: sqlite3.Connection) -> None:
    """Writes all rows anew, inside the caller's transaction."""
    connection.execute("DELETE FROM messages")
    connection.execute("DELETE FROM threads")
    connection.execute("DELETE FROM repeats")
    for row in connection.execute("SELECT id, meta FROM documents WHERE kind = ?", (Kind.MESSAGE,)).fetchall():
        put(connection, row["id"], json.loads(row["meta"]))
    settle(connection)
    connection.execute("UPDATE settings SET value = ? WHERE key = 'messages_version'", (MESSAGES_VERSION,))


def stale(connection: sqlite3.Connection) -> bool:
    """Whether another version wrote the rows."""
    row = connection.execute("SELECT value FROM settings WHERE key = 'messages_version'").fetchone()
    return bool(row["value"] != MESSAGES_VERSION)


def forgetting(connection: sqlite3.Connection, content: int) -> list[int]:
    """The threads that may fall apart when this content goes, because nothing else has the id of one of its messages:
    to be given to `mend` when it has gone."""
    rows = connection.execute(
        """
        SELECT DISTINCT m.thread_id FROM messages m JOIN documents d ON d.id = m.document_id
        WHERE d.content_id = ?1 AND m.thread_id IS NOT NULL AND NOT EXISTS (
            SELECT 1 FROM messages o JOIN documents e ON e.id = o.document_id
            WHERE o.message_id = m.message_id AND o.message_id != '' AND e.content_id != ?1)
        """,
        (content,),
    )
    return [row["thread_id"] for row in rows]


def mend(connection: sqlite3.Connection, broken: list[int]) -> None:
    """Joins what is left of these threads anew, inside the caller's transaction. Those that are empty go, and with them
    the ids that their messages had."""
    values = (json.dumps(broken),)
    connection.execute(
        "UPDATE messages SET thread_id = NULL WHERE thread_id IN (SELECT value FROM json_each(?))", values
    )
    connection.execute("DELETE FROM threads WHERE id IN (SELECT value FROM json_each(?))", values)
    settle(connection)


def identity(message_id: str, body_hash: str) -> str:
    """What copies of a message share and no other message has; "" where it is not known."""
    return f"{message_id} {body_hash}" if body_hash else ""


def moment(date: str) -> int | None:
    """An ISO date as seconds since 1970; without a zone it is taken for UTC. None for no date."""
    try:
        stamp = datetime.fromisoformat(date)
    except ValueError:
        return None
    if stamp.tzinfo is None:
        stamp = stamp.replace(tzinfo=UTC)
    return int(stamp.timestamp())


def body_hash(connection: sqlite3.Connection, document_id: int, meta: Mapping[str, str]) -> str:
    """The hash that a reader would have given, from the stored pages."""
    rows = connection.execute("SELECT text, parts FROM pages WHERE document_id = ? ORDER BY number", (document_id,))
    body = "".join(_body(row["text"], row["parts"]) for row in rows)
    return labels.body_hash(meta, body, labels.label(body))


def _body(text: str, stored: str) -> str:
    """A page without the header lines that the reader put in front, and without what people do not see."""
    for part in reversed([Part(PartKind(kind), start, end) for kind, start, end in json.loads(stored)]):
        if part.kind in (PartKind.HEADER, PartKind.HIDDEN):
            text = text[: part.start] + text[part.end :]
    return text
