"""Tells the search index of pages, and has it forget them. Inside the caller's transaction.

A page is indexed with the end of the page before, so that a word which is broken between the two is found; who tells
the index anew, or has it forget, must say the same again.
"""

import sqlite3
from collections.abc import Iterable, Iterator

from unabridged.ingest.catalog.index_text import LONGEST_END, index_text
from unabridged.ingest.catalog.reads import page_row
from unabridged.ingest.document import Part

# Pages, each with the end of the one before: `index_text.page_end`, in SQL.
PAGES = f"""
    SELECT p.*,
        CASE WHEN q.parts LIKE '%"hidden"%' THEN '' ELSE COALESCE(SUBSTR(q.text, -{LONGEST_END}), '') END AS before
    FROM pages p LEFT JOIN pages q ON q.document_id = p.document_id AND q.number = p.number - 1"""


def index_page(
    connection: sqlite3.Connection, page_id: int, text: str, parts: Iterable[Part], before: str = ""
) -> None:
    """Makes a page findable."""
    main, joined = index_text(text, parts, before)
    connection.execute("INSERT INTO page_index (rowid, main, joined) VALUES (?, ?, ?)", (page_id, main, joined))


def forget_pages(connection: sqlite3.Connection, content: int) -> None:
    """Takes the pages of a content out of the index, while they are still stored."""
    rows = connection.execute(
        f"{PAGES} WHERE p.document_id IN (SELECT id FROM documents WHERE content_id = ?)", (content,)
    )
    # A contentless index forgets a row when it is told again what the row said.
    connection.executemany(
        "INSERT INTO page_index (page_index, rowid, main, joined) VALUES ('delete', ?, ?, ?)", streams(rows)
    )


def streams(rows: Iterable[sqlite3.Row]) -> Iterator[tuple[int, str, str]]:
    """What the index is told of rows of `PAGES`: id and the two streams."""
    return ((row["id"], *index_text(row["text"], page_row(row).parts, row["before"])) for row in rows)
