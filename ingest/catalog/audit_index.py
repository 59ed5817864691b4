"""Holds the search index against the pages: every word of every page stands in it at its place, and nothing else does.

The index does not keep what it was told, so both sides are summed up by page: a sum over all (word, column, place) of
the index, and over those of an index that is made from the pages again, some at a time. Both are cut by SQLite's own
tokenizer. Two sums of 64 bits that agree by chance are no concern. Eight bytes of memory for each page.
"""

import sqlite3
from array import array
from collections.abc import Iterator

from unabridged.ingest.catalog.findings import Checked, Finding
from unabridged.ingest.catalog.index_text import INDEX_VERSION
from unabridged.ingest.catalog.indexing import PAGES, streams
from unabridged.ingest.catalog.migrations import TOKENIZE

_PAGES = 2_000
_SHOWN = 20
_MASK = (1 << 64) - 1
_HINT = "`unabridged library reindex` makes it anew"


def audit_index(connection: sqlite3.Connection) -> Iterator[Finding | Checked]:
    """What of the index differs from the pages."""
    version = connection.execute("SELECT value FROM settings WHERE key = 'index_version'").fetchone()["value"]
    if version != INDEX_VERSION:
        yield Finding("stale", "the search index is of another version", _HINT)
        return
    try:
        connection.execute("INSERT INTO page_index (page_index) VALUES ('integrity-check')")
    except sqlite3.DatabaseError as error:
        yield Finding("damaged", f"the search index is broken: {error}", _HINT)
        return
    connection.execute("BEGIN")  # one state of the library for both sides
    try:
        yield from _compare(connection)
    finally:
        connection.execute("ROLLBACK")


def _compare(connection: sqlite3.Connection) -> Iterator[Finding | Checked]:
    total, last = connection.execute("SELECT COUNT(*), COALESCE(MAX(id), 0) FROM pages").fetchone()
    yield Checked("index", 0, total)
    sums = array("Q", bytes(8 * (last + 1)))
    strange = _sum_index(connection, sums)
    done, differ = 0, list[int]()
    for pages in _batches(connection):
        differ += _differing(connection, pages, sums)
        done += len(pages)
        yield Checked("index", done, total)
    strange += sum(1 for value in sums if value)
    if strange:
        yield Finding("damaged", f"the search index holds words of {strange:,} pages that are gone", _HINT)
    for page in differ[:_SHOWN]:
        yield Finding("damaged", f"{_name(connection, page)}: not as it stands in the search index", _HINT)
    if len(differ) > _SHOWN:
        yield Finding("damaged", f"{len(differ) - _SHOWN:,} more pages are not as they stand in the index", _HINT)


def _sum_index(connection: sqlite3.Connection, sums: "array[int]") -> int:
    """Sums the index up by page; how many words lie on pages beyond the last one."""
    _vocabulary(connection, "index_words", "main", "page_index")
    strange = 0
    for term, page, column, place in connection.execute("SELECT term, doc, col, offset FROM temp.index_words"):
        if page < len(sums):
            sums[page] = (sums[page] + hash((term, column, place))) & _MASK
        else:
            strange += 1
    connection.execute("DROP TABLE temp.index_words")
    return strange


def _batches(connection: sqlite3.Connection) -> Iterator[list[sqlite3.Row]]:
    last = 0
    while rows := connection.execute(f"{PAGES} WHERE p.id > ? ORDER BY p.id LIMIT ?", (last, _PAGES)).fetchall():
        yield rows
        last = rows[-1]["id"]


def _differing(connection: sqlite3.Connection, pages: list[sqlite3.Row], sums: "array[int]") -> list[int]:
    """Which of these pages the index has otherwise. Their sums become 0."""
    connection.execute(f"CREATE VIRTUAL TABLE temp.again USING fts5(main, joined, content='', tokenize=\"{TOKENIZE}\")")
    _vocabulary(connection, "again_words", "temp", "again")
    connection.executemany(
        "INSERT INTO temp.again (rowid, main, joined) VALUES (?, ?, ?)",
        streams(pages),
    )
    again: dict[int, int] = {}
    for term, page, column, place in connection.execute("SELECT term, doc, col, offset FROM temp.again_words"):
        again[page] = (again.get(page, 0) + hash((term, column, place))) & _MASK
    differ = [row["id"] for row in pages if sums[row["id"]] != again.get(row["id"], 0)]
    for row in pages:
        sums[row["id"]] = 0
    connection.execute("DROP TABLE temp.again_words")
    connection.execute("DROP TABLE temp.again")
    return differ


def _vocabulary(connection: sqlite3.Connection, name: str, schema: str, table: str) -> None:
    connection.execute(f"CREATE VIRTUAL TABLE temp.{name} USING fts5vocab({schema}, {table}, instance)")


def _name(connection: sqlite3.Connection, page: int) -> str:
    row = connection.execute(
        "SELECT COALESCE(f.path, '') || d.tail AS path, p.number FROM pages p JOIN documents d ON d.id = p.document_id"
        " LEFT JOIN files f ON f.content_id = d.content_id WHERE p.id = ? LIMIT 1",
        (page,),
    ).fetchone()
    return f"{row['path']}, page {row['number']}"
