"""The questions that the library answers from its tables. Reads only; every function takes a connection.

Nothing of a content that is still being read is ever seen here.
"""

import json
import sqlite3
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from unabridged.ingest.document import Flag, Kind, Part, Status
from unabridged.ingest.errors import CollectionNotFound, DocumentNotFound
from unabridged.ingest.paths import Patterns, natural
from unabridged.ingest.rows import CollectionRow, Composing, Counts, DocumentRow, PageRow

_PARTS = msgspec.json.Decoder(tuple[Part, ...])
_FLAGS = msgspec.json.Decoder(tuple[Flag, ...])

# Files of a collection, or of the library where :collection is NULL.
FILES = """
    SELECT f.id, f.path, f.content_id FROM files f JOIN contents c ON c.id = f.content_id AND c.state = 'done'
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
    patterns: Sequence[str] = (),
    tokenizer: str | None = None,
) -> list[DocumentRow]:
    """See `Library.documents`."""
    locations = _locations(connection, collection_id(connection, collection))
    rows = connection.execute(
        f"""
        {_DOCUMENTS}
        WHERE d.content_id IN (SELECT content_id FROM ({FILES}))
        ORDER BY d.id
        """,
        {"collection": collection_id(connection, collection), "tokenizer": tokenizer_id(connection, tokenizer)},
    )
    by_content: dict[int, list[DocumentRow]] = {content: [] for content in locations}
    for row in rows:
        paths = locations.get(row["content_id"])
        if paths:  # a file may have come between the two queries
            by_content[row["content_id"]].append(_document(row, paths))
    found = (document for group in by_content.values() for document in group)
    return list(_matching(found, patterns))


# A document with its parent's place. Ids grow in reading order within a content.
_DOCUMENTS = """
    SELECT d.*, p.tail AS parent_tail, t.count AS tokens
    FROM documents d
    LEFT JOIN documents p ON p.id = d.parent_id
    LEFT JOIN token_counts t ON t.document_id = d.id AND t.tokenizer_id = :tokenizer"""


def _locations(connection: sqlite3.Connection, collection: int | None) -> dict[int, list[str]]:
    """The paths of each content, all in natural order."""
    rows = connection.execute(FILES, {"collection": collection}).fetchall()
    found: dict[int, list[str]] = {}
    for row in sorted(rows, key=lambda row: natural(row["path"])):
        found.setdefault(row["content_id"], []).append(row["path"])
    return found


def _document(row: sqlite3.Row, paths: Sequence[str]) -> DocumentRow:
    return DocumentRow(
        id=row["id"],
        parent_id=row["parent_id"],
        parent="" if row["parent_id"] is None else paths[0] + row["parent_tail"],
        path=paths[0] + row["tail"],
        also=tuple(path + row["tail"] for path in paths[1:]),
        kind=Kind(row["kind"]),
        title=row["title"],
        status=Status(row["status"]),
        reason=row["reason"],
        pages=row["pages"],
        tokens=row["tokens"],
        sha256=row["sha256"],
        size=row["size"],
        meta=json.loads(row["meta"]),
    )


def _matching(documents: Iterable[DocumentRow], patterns: Sequence[str]) -> Iterator[DocumentRow]:
    """Those that match, and what lies in them. Parents come before their children."""
    if not patterns:
        yield from documents
        return
    wanted = Patterns(patterns)
    taken: set[int] = set()
    for document in documents:
        if document.parent_id in taken or any(wanted.match(path) for path in (document.path, *document.also)):
            taken.add(document.id)
            yield document


def document(connection: sqlite3.Connection, document_id: int, tokenizer: str | None = None) -> DocumentRow:
    """See `Library.document`."""
    found = documents_by_id(connection, [document_id], tokenizer)
    if not found:
        raise DocumentNotFound(f"no document with id {document_id}", "`unabridged ls` lists the documents")
    return found[document_id]


def documents_by_id(
    connection: sqlite3.Connection, ids: Iterable[int], tokenizer: str | None = None, collection: int | None = None
) -> dict[int, DocumentRow]:
    """The documents with these ids, paths as seen from the collection; ids that are gone are missing."""
    values = {"ids": json.dumps(list(ids)), "tokenizer": tokenizer_id(connection, tokenizer), "collection": collection}
    rows = connection.execute(f"{_DOCUMENTS} WHERE d.id IN (SELECT value FROM json_each(:ids))", values).fetchall()
    values["contents"] = json.dumps(list({row["content_id"] for row in rows}))
    paths: dict[int, list[str]] = {}
    query = f"SELECT path, content_id FROM ({FILES}) WHERE content_id IN (SELECT value FROM json_each(:contents))"
    for row in sorted(connection.execute(query, values), key=lambda row: natural(row["path"])):
        paths.setdefault(row["content_id"], []).append(row["path"])
    return {row["id"]: _document(row, paths[row["content_id"]]) for row in rows if row["content_id"] in paths}


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
        problems += [row[0] for row in connection.execute("PRAGMA integrity_check(20)") if row[0] != "ok"]
        for row in connection.execute("PRAGMA foreign_key_check"):
            problems.append(f"a row of {row['table']} points at a row of {row['parent']} that is gone")
        query = "SELECT COUNT(*) FROM pages WHERE id NOT IN (SELECT rowid FROM page_index)"
        if missing := connection.execute(query).fetchone()[0]:
            problems.append(f"{missing} pages are missing in the search index")
    except sqlite3.DatabaseError as error:
        problems.append(str(error))
    return problems
