"""Tags that people give to documents of a collection. A tag is kept with file and place, so that it stays when the file
is read again; what is in a tagged document has the tag too (`facets`). Changes run inside the caller's lock.
"""

import json
import sqlite3
from collections import Counter
from collections.abc import Iterable

from unabridged.ingest.catalog import filters, reads
from unabridged.ingest.catalog.database import transaction
from unabridged.ingest.catalog.filters import Filter
from unabridged.ingest.catalog.rows import DocumentRow
from unabridged.ingest.errors import DocumentNotFound, FilterInvalid

_PLACES = """
    SELECT f.id, d.tail FROM documents d JOIN files f ON f.content_id = d.content_id
    JOIN collection_files m ON m.file_id = f.id AND m.collection_id = :collection
    WHERE d.id IN (SELECT value FROM json_each(:documents))"""


def tag(connection: sqlite3.Connection, name: str, where: Filter, collection: str) -> list[str]:
    """See `Library.tag`."""
    name = " ".join(name.split())
    if not name or not name.isprintable():
        raise FilterInvalid(f"{name!r} is no name for a tag", "use letters, digits and spaces")
    chosen = _topmost(_meant(connection, where, collection))
    with transaction(connection):
        connection.execute(
            f"INSERT OR IGNORE INTO tags SELECT :tag, * FROM ({_PLACES})",
            {"tag": name, **_values(connection, chosen, collection)},
        )
    return [row.path for row in chosen]


def untag(connection: sqlite3.Connection, name: str, where: Filter, collection: str) -> list[str]:
    """See `Library.untag`."""
    meant = [row for row in _meant(connection, where, collection) if name in row.tags]
    with transaction(connection):
        gone = connection.execute(
            f"DELETE FROM tags WHERE tag = :tag AND (file_id, tail) IN ({_PLACES}) RETURNING file_id, tail",
            {"tag": name, **_values(connection, meant, collection)},
        ).fetchall()
    if not gone:
        raise DocumentNotFound(
            f"nobody gave the tag {name!r} to what matches",
            "tags from folders, archives and mail follow what is on the disk; `unabridged tag` lists all",
        )
    places = {(row["file_id"], row["tail"]) for row in gone}
    return [row.path for row in meant if places & _places(connection, row, collection)]


def _places(connection: sqlite3.Connection, row: DocumentRow, collection: str) -> set[tuple[int, str]]:
    return {tuple(place) for place in connection.execute(_PLACES, _values(connection, [row], collection))}


def tags(connection: sqlite3.Connection, collection: str | None) -> dict[str, int]:
    """See `Library.tags`."""
    found = Counter(tag for row in reads.documents(connection, collection) for tag in row.tags)
    return dict(sorted(found.items(), key=lambda one: one[0].casefold()))


def _meant(connection: sqlite3.Connection, where: Filter, collection: str) -> list[DocumentRow]:
    every = reads.documents(connection, collection)
    if meant := filters.select(every, where):
        return meant
    raise DocumentNotFound(f"no document matches {where}", filters.explain(every, where))


def _topmost(rows: Iterable[DocumentRow]) -> list[DocumentRow]:
    """The rows that lie in none of the others."""
    ids: set[int] = set()
    chosen = []
    for row in rows:
        if row.parent_id not in ids:
            chosen.append(row)
        ids.add(row.id)
    return chosen


def _values(connection: sqlite3.Connection, rows: Iterable[DocumentRow], collection: str) -> dict[str, object]:
    ids = json.dumps([row.id for row in rows])
    return {"collection": reads.collection_id(connection, collection), "documents": ids}
