"""The report on a file that was dealt with, from what the library has of its content."""

import sqlite3

from unabridged.ingest.catalog.rows import Change, FileDone
from unabridged.ingest.document import Status


def file_done(
    connection: sqlite3.Connection,
    path: str,
    content: sqlite3.Row,
    change: Change,
    status: Status | None = None,
    reason: str | None = None,
) -> FileDone:
    """The report on a file with this content, a row of `contents`."""
    return FileDone(
        path=path,
        kind=content["kind"],
        status=status or content["status"],
        reason=content["reason"] if reason is None else reason,
        pages=content["pages"],
        documents=content["documents"],
        change=change,
        inside={} if change == "removed" else _unread_inside(connection, content),
    )


def _unread_inside(connection: sqlite3.Connection, content: sqlite3.Row) -> dict[str, int]:
    """How many of the documents that the file holds have each status but read."""
    if content["documents"] < 2:
        return {}
    rows = connection.execute(
        "SELECT status, COUNT(*) FROM documents WHERE content_id = ? AND parent_id IS NOT NULL AND status != ?"
        " GROUP BY status ORDER BY status",
        (content["id"], Status.READ),
    )
    return dict(rows.fetchall())
