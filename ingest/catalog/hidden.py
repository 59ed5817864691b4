"""Text that nobody sees on a page (white, covered, deleted): kept from search and models. Here it is only counted, so
that people know where to look."""

import json
import sqlite3
from collections.abc import Iterable

from unabridged.ingest.catalog import reads
from unabridged.ingest.catalog.filters import Filter
from unabridged.ingest.catalog.passages import has_all
from unabridged.ingest.catalog.query import parse
from unabridged.ingest.document import PartKind

_HIDING = f"parts LIKE '%\"{PartKind.HIDDEN}\"%'"
_PAGES = f"""
    SELECT p.* FROM pages p JOIN documents d ON d.id = p.document_id
    WHERE p.{_HIDING} AND d.content_id IN (SELECT content_id FROM ({reads.FILES}))
      AND (:documents IS NULL OR d.id IN (SELECT value FROM json_each(:documents)))
    ORDER BY p.id"""


def hiding(connection: sqlite3.Connection, documents: Iterable[int]) -> int:
    """How many of these documents have hidden text."""
    found: int = connection.execute(
        f"SELECT COUNT(DISTINCT document_id) FROM pages WHERE {_HIDING}"
        " AND document_id IN (SELECT value FROM json_each(?))",
        (json.dumps(list(documents)),),
    ).fetchone()[0]
    return found


def hidden_hits(
    connection: sqlite3.Connection, query: str, collection: str | None, where: Filter | None
) -> list[tuple[str, int]]:
    """Path and number of each page whose hidden text has all that was typed. Reads every page of the collection."""
    units = parse(query, whole_numbers=True).without_stop_words().units
    number = reads.collection_id(connection, collection)
    values = {"collection": number, "documents": reads.meant(connection, collection, where)}
    found = []
    for page in map(reads.page_row, connection.execute(_PAGES, values)):
        text = "\n".join(page.text[part.start : part.end] for part in page.parts if part.kind is PartKind.HIDDEN)
        if units and has_all(text, units):
            found.append((page.document_id, page.number))
    rows = reads.documents_by_id(connection, {one for one, _ in found}, collection=number)
    return [(rows[one].path, page) for one, page in found if one in rows]
