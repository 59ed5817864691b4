"""Messages in the library without their files: what threads, filters and comparisons work on."""

import sqlite3
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from unabridged.ingest.adding.add import AddOptions, add
from unabridged.ingest.catalog.database import transaction
from unabridged.ingest.catalog.storing import ContentWriter
from unabridged.ingest.document import Closed, Kind, Opened, Page, Part, PartKind, Status
from unabridged.ingest.library import Library
from unabridged.ingest.mail.labels import body_hash, label

START = datetime(2026, 3, 2, 10, 0, tzinfo=UTC)


def letter(
    number: int,
    *,
    subject: str = "Dredging",
    sender: str = "Ines Vega <ines@harbour.example>",
    to: str = "Pavel Novak <pavel@mill.example>",
    body: str = "The berth is free.",
    days: float | None = None,
    **meta: str,
) -> tuple[dict[str, str], str]:
    """Meta and text of the message with id `n@x`, as a reader gives them; `days` behind the first one's date."""
    when = START + timedelta(days=number if days is None else days)
    facts = {"subject": subject, "from": sender, "to": to, "message_id": f"{number}@x", "date": when.isoformat()}
    return {key: value for key, value in (facts | meta).items() if value}, body


def store(library: Library, name: str, letters: Iterable[tuple[dict[str, str], str]]) -> list[int]:
    """Stores a mailbox of these letters as the file /case/name; the ids of its messages."""
    connection = library.connection
    with transaction(connection):
        writer = ContentWriter(connection, name, 0)
        writer.put(Opened(ref=0, parent=None, name=name, kind=Kind.MAILBOX))
        for ref, (meta, body) in enumerate(letters, 1):
            head = f"Subject: {meta.get('subject', '')}\nFrom: {meta['from']}"
            text = f"{head}\n\n{body}"
            at = len(head) + 2
            own = label(body)
            parts = [Part(PartKind.HEADER, 0, len(head))]
            parts += [Part(part.kind, part.start + at, part.end + at) for part in own]
            hashed = {**meta, "body_hash": body_hash(meta, body, own)}
            writer.put(
                Opened(ref=ref, parent=0, name=str(ref), kind=Kind.MESSAGE, title=meta.get("subject", ""), meta=hashed)
            )
            writer.put(Page(ref=ref, number=1, text=text, parts=tuple(parts)))
            writer.put(Closed(ref=ref, status=Status.READ))
        writer.put(Closed(ref=0, status=Status.READ))
        writer.finish()
        file = connection.execute(
            "INSERT INTO files (path, size, mtime_ns, content_id) VALUES (?, 0, 0, ?)",
            (f"/case/{name}", writer.content),
        ).lastrowid
        connection.execute("INSERT INTO collection_files VALUES (1, ?)", (file,))
    rows = connection.execute(
        "SELECT id FROM documents WHERE content_id = ? AND kind = 'message' ORDER BY id", (writer.content,)
    )
    return [row["id"] for row in rows]


def threads(connection: sqlite3.Connection) -> list[set[str]]:
    """The conversations, as sets of Message-IDs, in the order of their first messages."""
    found: dict[int, set[str]] = {}
    for row in connection.execute("SELECT thread_id, message_id FROM messages ORDER BY document_id"):
        found.setdefault(row["thread_id"], set()).add(row["message_id"])
    return list(found.values())


def add_files(library: Library, *paths: Path) -> None:
    """Adds files as a person does."""
    for _ in add(library, paths, options=AddOptions(jobs=1)):
        pass
