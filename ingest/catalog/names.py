"""Finds documents by their names: of files, attachments and what archives hold, and by titles. A message has its
subject on its page, where every search finds it."""

import sqlite3

from unabridged.ingest.catalog import reads
from unabridged.ingest.catalog.filters import Filter
from unabridged.ingest.catalog.passages import has_all
from unabridged.ingest.catalog.query import Unit, parse
from unabridged.ingest.catalog.rows import DocumentRow
from unabridged.ingest.document import Kind

# What is not ASCII may be spelled otherwise and is looked at in any case.
_NAMES = f"""
    SELECT d.id, f.path || d.tail AS path, d.title
    FROM documents d JOIN ({reads.FILES}) f ON f.content_id = d.content_id
    WHERE d.kind <> '{Kind.MESSAGE}' AND (:documents IS NULL OR d.id IN (SELECT value FROM json_each(:documents)))
      AND (f.path || d.tail || d.title LIKE :part OR f.path || d.tail || d.title GLOB '*[^ -~]*')
    ORDER BY d.id"""


def named(
    connection: sqlite3.Connection, query: str, collection: str | None, where: Filter | None
) -> list[DocumentRow]:
    """See `Library.named`."""
    units = parse(query, whole_numbers=True).without_stop_words().units
    if not units:
        return []
    number = reads.collection_id(connection, collection)
    rows = connection.execute(
        _NAMES,
        {
            "collection": number,
            "documents": reads.meant(connection, collection, where),
            "part": f"%{max(map(_part, units), key=len)}%",
        },
    )
    found = [row["id"] for row in rows if has_all(f"{row['path'].rpartition('/')[2]}\n{row['title']}", units)]
    by_id = reads.documents_by_id(connection, found, collection=number)
    return [by_id[one] for one in dict.fromkeys(found) if one in by_id]


def _part(unit: Unit) -> str:
    """What surely stands in a name that has the unit: the index cuts plurals (party for parties)."""
    word = max((unit.beginning, *(unit.pieces or unit.terms[:1])), key=len)
    return (word if word.isdecimal() else word[:-1]) if word.isascii() else ""
