"""Contents with pages that no recognition has seen: they are read again when there is one; and whether one has read
pages of late. Opens no file."""

import sqlite3

from unabridged.ingest.document import Kind, Status
from unabridged.ingest.limits import Limits
from unabridged.ingest.ocr.recognise import missing


def contents(connection: sqlite3.Connection, limits: Limits) -> frozenset[int]:
    """Ids of contents that hold a page without usable text to which no engine was asked; none where none can be.

    What an engine was asked about has its name in the page's extractor, whatever came of it, so that nothing is read
    again for ever."""
    if missing(limits):
        return frozenset()
    rows = connection.execute(
        """
        SELECT DISTINCT d.content_id FROM documents d JOIN pages p ON p.document_id = d.id
        WHERE d.status IN (?, ?) AND d.kind IN (?, ?)
          AND (p.flags LIKE '%"scanned"%' OR p.flags LIKE '%"garbled"%')
          AND p.extractor NOT LIKE '%tesseract%' AND p.extractor NOT LIKE '%rapidocr%' AND p.extractor <> 'pillow'
        """,
        (Status.NO_TEXT, Status.PARTIAL, Kind.PDF, Kind.IMAGE),
    )
    return frozenset(row["content_id"] for row in rows)


def last_document(connection: sqlite3.Connection) -> int:
    """The id of the document that was filed last, 0 for none."""
    found: int = connection.execute("SELECT coalesce(max(id), 0) FROM documents").fetchone()[0]
    return found


def recognised_since(connection: sqlite3.Connection, document_id: int) -> bool:
    """Whether tesseract has read a page of a document that was filed after this one."""
    query = "SELECT 1 FROM pages WHERE document_id > ? AND extractor LIKE '%tesseract%' LIMIT 1"
    return connection.execute(query, (document_id,)).fetchone() is not None
