"""Makes the search index anew from the stored pages, and what else is computed from them. One transaction: until its
end everybody finds what there was before.
"""

import sqlite3
from collections.abc import Iterator

from unabridged.ingest.catalog import messages
from unabridged.ingest.catalog.database import transaction
from unabridged.ingest.catalog.index_text import INDEX_VERSION
from unabridged.ingest.catalog.indexing import PAGES, streams

_SAY_EVERY = 500


def reindex(connection: sqlite3.Connection) -> Iterator[tuple[int, int]]:
    """Pages done and pages in all, now and then. The generator must be run to its end."""
    with transaction(connection):
        total = connection.execute("SELECT COUNT(*) FROM pages").fetchone()[0]
        connection.execute("INSERT INTO page_index (page_index) VALUES ('delete-all')")
        for done, page in enumerate(streams(connection.execute(f"{PAGES} ORDER BY p.id"))):
            connection.execute("INSERT INTO page_index (rowid, main, joined) VALUES (?, ?, ?)", page)
            if done % _SAY_EVERY == 0:
                yield done, total
        messages.refresh(connection)
        connection.execute("UPDATE settings SET value = ? WHERE key = 'index_version'", (INDEX_VERSION,))
    connection.execute("INSERT INTO page_index (page_index) VALUES ('optimize')")
    yield total, total


def refresh_index(connection: sqlite3.Connection) -> Iterator[tuple[int, int]]:
    """As `reindex`, where another version of `index_text` made the index."""
    row = connection.execute("SELECT value FROM settings WHERE key = 'index_version'").fetchone()
    if row["value"] != INDEX_VERSION:
        yield from reindex(connection)
