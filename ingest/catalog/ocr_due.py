"""Contents with pages that no recognition has seen: they are read again when there is one. Opens no file."""

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
