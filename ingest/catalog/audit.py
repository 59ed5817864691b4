"""Checks a library: the database, the search index against the pages, tokens, and the files on the disk.

    for step in audit(library): ...      # Finding | Checked

Changes nothing. `Library.verify` is the short form of it, for programs that start.
"""

import sqlite3
from collections.abc import Iterator
from typing import Literal

from unabridged.ingest.catalog.audit_files import audit_files
from unabridged.ingest.catalog.audit_index import audit_index
from unabridged.ingest.catalog.database import faults
from unabridged.ingest.catalog.findings import Checked, Finding
from unabridged.ingest.catalog.outdated import outdated
from unabridged.ingest.library import Library

Part = Literal["database", "index", "tokens", "files"]
PARTS: tuple[Part, ...] = ("database", "tokens", "index", "files")

# What must hold of the tables, as queries for the rows that break it. Counters are kept beside what they count.
_RULES = {
    "{} documents say another number of pages than they have": """
        SELECT COUNT(*) FROM documents d JOIN contents c ON c.id = d.content_id AND c.state = 'done'
        WHERE d.pages != (SELECT COUNT(*) FROM pages p WHERE p.document_id = d.id)""",
    "{} documents have gaps between the numbers of their pages": """
        SELECT COUNT(*) FROM (SELECT document_id FROM pages GROUP BY document_id HAVING MAX(number) != COUNT(*))""",
    "{} documents say another number of characters than their pages have": """
        SELECT COUNT(*) FROM documents d JOIN contents c ON c.id = d.content_id AND c.state = 'done'
        WHERE d.characters != (SELECT COALESCE(SUM(LENGTH(p.text)), 0) FROM pages p WHERE p.document_id = d.id)""",
    "{} contents have no document": """
        SELECT COUNT(*) FROM contents c WHERE state = 'done'
        AND NOT EXISTS (SELECT 1 FROM documents d WHERE d.content_id = c.id AND d.tail = '')""",
    "{} contents say another number of documents than they hold": """
        SELECT COUNT(*) FROM contents c WHERE state = 'done'
        AND c.documents != (SELECT COUNT(*) FROM documents d WHERE d.content_id = c.id)""",
    "{} files belong to no collection": """
        SELECT COUNT(*) FROM files f WHERE NOT EXISTS (SELECT 1 FROM collection_files m WHERE m.file_id = f.id)""",
    "{} documents were not read in full, and no reason is given": """
        SELECT COUNT(*) FROM documents d JOIN contents c ON c.id = d.content_id AND c.state = 'done'
        WHERE d.status != 'read' AND d.reason = ''""",
}
_TOKEN_RULES = {
    "{} pages have tokens of which the parts differ in length": """
        SELECT COUNT(*) FROM tokens
        WHERE LENGTH(ids) != 4 * count OR LENGTH(starts) != 4 * count OR LENGTH(ends) != 4 * count""",
    "{} documents say another number of tokens than their pages have": """
        SELECT COUNT(*) FROM token_counts c WHERE c.count != (
            SELECT COALESCE(SUM(t.count), 0) FROM pages p
            JOIN tokens t ON t.page_id = p.id AND t.tokenizer_id = c.tokenizer_id WHERE p.document_id = c.document_id)
        OR EXISTS (
            SELECT 1 FROM pages p WHERE p.document_id = c.document_id
            AND NOT EXISTS (SELECT 1 FROM tokens t WHERE t.page_id = p.id AND t.tokenizer_id = c.tokenizer_id))""",
}


def audit(library: Library, parts: tuple[Part, ...] = PARTS) -> Iterator[Finding | Checked]:
    """What is wrong, and how far the check is. Raises LibraryDamaged only where the database cannot be opened."""
    connection = library.connection
    try:
        for part in parts:
            yield from _CHECKS[part](connection)
        if old := outdated(connection):
            yield Finding(
                "stale",
                f"{len(old)} files were read by older readers",
                "`unabridged library reindex --text` reads them again",
            )
    except sqlite3.DatabaseError as error:
        yield Finding("damaged", f"the database cannot be read to its end: {error}", "restore a backup")


def _database(connection: sqlite3.Connection) -> Iterator[Finding | Checked]:
    yield Checked("database")
    for text in faults(connection):
        yield Finding("damaged", text, "restore a backup")
    yield from _broken(connection, _RULES, "`unabridged add --force` reads them again")
    reading = connection.execute("SELECT COUNT(*) FROM contents WHERE state = 'reading'").fetchone()[0]
    if reading:
        yield Finding("stale", f"{reading} files were being read when it was stopped", "`unabridged add` goes on")


def _tokens(connection: sqlite3.Connection) -> Iterator[Finding | Checked]:
    yield Checked("tokens")
    yield from _broken(connection, _TOKEN_RULES, "`unabridged add --force` counts them again")


def _broken(connection: sqlite3.Connection, rules: dict[str, str], hint: str) -> Iterator[Finding]:
    for text, query in rules.items():
        if count := connection.execute(query).fetchone()[0]:
            yield Finding("damaged", text.format(f"{count:,}"), hint)


_CHECKS = {"database": _database, "tokens": _tokens, "index": audit_index, "files": audit_files}
