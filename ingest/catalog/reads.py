"""The questions that the library answers from its tables. Reads only; every function takes a connection.

Nothing of a content that is still being read is ever seen here.
"""

import json
import sqlite3
from collections.abc import Iterable, Sequence

import msgspec

from unabridged.ingest.catalog.database import faults
from unabridged.ingest.catalog.document_rows import document_row, places
from unabridged.ingest.catalog.facets import Facets
from unabridged.ingest.catalog.filters import Filter, select
from unabridged.ingest.catalog.rows import CollectionRow, Composing, Counts, DocumentRow, PageRow
from unabridged.ingest.document import Flag, Part
from unabridged.ingest.errors import CollectionNotFound, DocumentNotFound

_PARTS = msgspec.json.Decoder(tuple[Part, ...])
_FLAGS = msgspec.json.Decoder(tuple[Flag, ...])

# Files of a collection, or of the library where :collection is NULL.
FILES = """
    SELECT f.id, f.path, f.content_id, f.mtime_ns
    FROM files f JOIN contents c ON c.id = f.content_id AND c.state = 'done'
    WHERE :collection IS NULL
       OR f.id IN (SELECT file_id FROM collection_files WHERE collection_id = :collection)"""


def collection_id(connection: sqlite3.Connection, name: str | None) -> int | None:
    """The id of a collection; None for None, which means the whole library. Raises CollectionNotFound."""
    if name is None:
        return None
    row = connection.execute("SELECT id FROM collections WHERE name = ?", (name,)).fetchone()
    if row is None:
        names = ", ".join(row["name"] for row in connection.execute("SELECT name FROM collections ORDER BY name"))
        raise CollectionNotFound(f"no collection named {name!r}", f"there is: {names}")
    found: int = row["id"]
    return found


def collections(connection: sqlite3.Connection) -> list[CollectionRow]:
    """All collections with their sizes, by name."""
    rows = connection.execute("SELECT id, name, composition FROM collections ORDER BY name").fetchall()
    return [_collection(connection, *row) for row in rows]


def composition(connection: sqlite3.Connection, name: str) -> Composing:
    """How a collection is read. Raises CollectionNotFound."""
    number = collection_id(connection, name)
    row = connection.execute("SELECT composition FROM collections WHERE id = ?", (number,)).fetchone()
    found: Composing = row["composition"]
    return found


def _collection(connection: sqlite3.Connection, number: int, name: str, composed: Composing) -> CollectionRow:
    roots = connection.execute("SELECT path FROM roots WHERE collection_id = ? ORDER BY path", (number,))
    sums = connection.execute(
        f"""
        WITH held AS ({FILES}), own AS (SELECT DISTINCT content_id FROM held)
        SELECT (SELECT COUNT(*) FROM held) AS files, COUNT(*) AS documents, COALESCE(SUM(d.pages), 0) AS pages,
               SUM(t.count) AS tokens
        FROM own JOIN documents d ON d.content_id = own.content_id
        LEFT JOIN token_counts t ON t.document_id = d.id AND t.tokenizer_id = :tokenizer
        """,
        {"collection": number, "tokenizer": tokenizer_id(connection, None)},
    ).fetchone()
    return CollectionRow(
        name=name,
        roots=tuple(row["path"] for row in roots),
        files=sums["files"],
        documents=sums["documents"],
        pages=sums["pages"],
        tokens=sums["tokens"],
        composition=composed,
    )


def tokenizer_id(connection: sqlite3.Connection, name: str | None) -> int | None:
    """The row of a tokenizer, or of the one used last for None; None where there is none."""
    row = connection.execute(
        "SELECT id FROM tokenizers WHERE ?1 IS NULL OR name = ?1 ORDER BY used_at DESC, id DESC LIMIT 1", (name,)
    ).fetchone()
    return None if row is None else row["id"]


def documents(
    connection: sqlite3.Connection,
    collection: str | None,
    where: Filter | Sequence[str] = (),
    tokenizer: str | None = None,
) -> list[DocumentRow]:
    """See `Library.documents`."""
    number = collection_id(connection, collection)
    locations = places(connection.execute(FILES, {"collection": number}))
    rows = connection.execute(
        f"""
        {_DOCUMENTS}
        WHERE d.content_id IN (SELECT content_id FROM ({FILES}))
        ORDER BY d.id
        """,
        {"collection": number, "tokenizer": tokenizer_id(connection, tokenizer)},
    )
    facets = Facets(connection, number)
    by_content: dict[int, dict[int, DocumentRow]] = {content: {} for content in locations}
    for row in rows:
        if where_it_lies := locations.get(row["content_id"]):  # a file may have come between the two queries
            group = by_content[row["content_id"]]
            group[row["id"]] = document_row(row, where_it_lies, facets, group.get(row["parent_id"]))
    return select([document for group in by_content.values() for document in group.values()], Filter.of(where))


# A document with its parent's place. Ids grow in reading order within a content.
_DOCUMENTS = """
    SELECT d.*, p.tail AS parent_tail, t.count AS tokens, m.thread_id, m.message_id, m.body_hash
    FROM documents d
    LEFT JOIN documents p ON p.id = d.parent_id
    LEFT JOIN messages m ON m.document_id = d.id
    LEFT JOIN token_counts t ON t.document_id = d.id AND t.tokenizer_id = :tokenizer"""


def meant(connection: sqlite3.Connection, collection: str | None, where: Filter | None) -> str | None:
    """The ids of the documents that a filter means, as a JSON list for a query; None where there is no filter."""
    return json.dumps([row.id for row in documents(connection, collection, where)]) if where else None


# The documents :ids and all that hold them.
_WITH_HOLDERS = """
    WITH RECURSIVE held (id) AS (
        SELECT value FROM json_each(:ids)
        UNION SELECT d.parent_id FROM documents d JOIN held ON held.id = d.id WHERE d.parent_id IS NOT NULL)"""


def document(connection: sqlite3.Connection, document_id: int, tokenizer: str | None = None) -> DocumentRow:
    """See `Library.document`."""
    found = documents_by_id(connection, [document_id], tokenizer)
    if not found:
        raise DocumentNotFound(f"no document with id {document_id}", "`unabridged ls` lists the documents")
    return found[document_id]


def children(connection: sqlite3.Connection, document_id: int) -> list[DocumentRow]:
    """What a document holds itself, in reading order."""
    rows = connection.execute("SELECT id FROM documents WHERE parent_id = ? ORDER BY id", (document_id,)).fetchall()
    found = documents_by_id(connection, [row["id"] for row in rows])
    return [found[row["id"]] for row in rows if row["id"] in found]


def documents_by_id(
    connection: sqlite3.Connection, ids: Iterable[int], tokenizer: str | None = None, collection: int | None = None
) -> dict[int, DocumentRow]:
    """The documents with these ids, paths as seen from the collection; ids that are gone are missing. What a document
    has of those that hold it is read with them."""
    wanted = set(ids)
    values = {
        "ids": json.dumps(list(wanted)),
        "tokenizer": tokenizer_id(connection, tokenizer),
        "collection": collection,
    }
    rows = connection.execute(f"{_WITH_HOLDERS} {_DOCUMENTS} JOIN held ON held.id = d.id ORDER BY d.id", values)
    found = rows.fetchall()
    contents = json.dumps(list({row["content_id"] for row in found}))
    query = (
        f"SELECT path, content_id, mtime_ns FROM ({FILES}) WHERE content_id IN (SELECT value FROM json_each(:contents))"
    )
    locations = places(connection.execute(query, {"collection": collection, "contents": contents}))
    facets = Facets(connection, collection, contents)
    documents: dict[int, DocumentRow] = {}
    for row in found:
        if row["content_id"] in locations:
            parent = documents.get(row["parent_id"])
            documents[row["id"]] = document_row(row, locations[row["content_id"]], facets, parent)
    return {number: row for number, row in documents.items() if number in wanted}


def pages(connection: sqlite3.Connection, document_id: int) -> list[PageRow]:
    """See `Library.pages`."""
    document(connection, document_id)
    rows = connection.execute("SELECT * FROM pages WHERE document_id = ? ORDER BY number", (document_id,))
    return [page_row(row) for row in rows]


def page(connection: sqlite3.Connection, document_id: int, number: int) -> PageRow:
    """See `Library.page`."""
    try:
        row = connection.execute(
            "SELECT * FROM pages WHERE document_id = ? AND number = ?", (document_id, number)
        ).fetchone()
    except OverflowError:  # a number that no column can hold is none of ours
        row = None
    if row is None:
        found = document(connection, document_id)
        raise DocumentNotFound(f"{found.path} has no page {number}", f"it has {found.pages} pages")
    return page_row(row)


def labels(connection: sqlite3.Connection, document_id: int) -> dict[int, str]:
    """The labels of a document's pages by number, where they have one."""
    rows = connection.execute("SELECT number, label FROM pages WHERE document_id = ? AND label != ''", (document_id,))
    return {row["number"]: row["label"] for row in rows}


def page_row(row: sqlite3.Row) -> PageRow:
    """A row of `pages` as a struct."""
    return PageRow(
        document_id=row["document_id"],
        number=row["number"],
        label=row["label"],
        text=row["text"],
        parts=_PARTS.decode(row["parts"]),
        flags=_FLAGS.decode(row["flags"]),
        extractor=row["extractor"],
        score=row["score"],
    )


def counts(connection: sqlite3.Connection, collection: str | None) -> Counts:
    """See `Library.counts`."""
    values = {"collection": collection_id(connection, collection)}
    files = connection.execute(f"SELECT COUNT(*) FROM ({FILES})", values).fetchone()[0]
    rows = connection.execute(
        f"""
        SELECT status, COUNT(*) AS documents, SUM(pages) AS pages, SUM(characters) AS characters FROM documents
        WHERE content_id IN (SELECT content_id FROM ({FILES})) GROUP BY status ORDER BY status
        """,
        values,
    ).fetchall()
    return Counts(
        files=files,
        documents=sum(row["documents"] for row in rows),
        pages=sum(row["pages"] for row in rows),
        statuses={row["status"]: row["documents"] for row in rows},
        characters=sum(row["characters"] for row in rows),
    )


def verify(connection: sqlite3.Connection) -> list[str]:
    """See `Library.verify`."""
    problems: list[str] = []
    try:
        problems.extend(faults(connection))
        query = "SELECT COUNT(*) FROM pages WHERE id NOT IN (SELECT rowid FROM page_index)"
        if missing := connection.execute(query).fetchone()[0]:
            problems.append(f"{missing} pages are missing in the search index")
    except sqlite3.DatabaseError as error:
        problems.append(str(error))
    return problems
