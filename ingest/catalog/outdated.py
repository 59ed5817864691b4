"""Files that were read by readers of another time, which would read them otherwise now. Opens none of them."""

import json
import os
import sqlite3
from collections.abc import Iterable
from typing import NamedTuple

from unabridged.ingest.catalog.versions import outdated_kinds
from unabridged.ingest.document import Kind
from unabridged.ingest.paths import on_disk


class Outdated(NamedTuple):
    """A file, one of the collections that it belongs to, and what it is."""

    path: str
    collection: str
    kind: str


def outdated(connection: sqlite3.Connection) -> list[Outdated]:
    """One file for each content that holds a document of a kind that is read otherwise now, by path."""
    versions = connection.execute("SELECT DISTINCT reader_version FROM contents WHERE state = 'done'").fetchall()
    found: list[Outdated] = []
    for version in (row["reader_version"] for row in versions):
        if kinds := outdated_kinds(version):
            found += _read_by(connection, version, kinds)
    return sorted(found)


def present(files: Iterable[Outdated]) -> tuple[list[Outdated], list[Outdated]]:
    """Those that lie on the disk, with their paths there, and those that do not."""
    here, gone = list[Outdated](), list[Outdated]()
    for file in files:
        path = on_disk(file.path)
        if os.path.lexists(path):
            here.append(file._replace(path=path))
        else:
            gone.append(file)
    return here, gone


def _read_by(connection: sqlite3.Connection, version: int, kinds: list[Kind]) -> list[Outdated]:
    rows = connection.execute(
        """
        SELECT MIN(f.path) AS path, n.name AS collection, c.kind FROM contents c
        JOIN files f ON f.content_id = c.id
        JOIN collection_files m ON m.file_id = f.id JOIN collections n ON n.id = m.collection_id
        WHERE c.state = 'done' AND c.reader_version = ? AND c.sha256 IS NOT NULL AND EXISTS (
            SELECT 1 FROM documents d WHERE d.content_id = c.id AND d.kind IN (SELECT value FROM json_each(?)))
        GROUP BY c.id
        """,
        (version, json.dumps(kinds)),
    )
    return [Outdated(row["path"], row["collection"], row["kind"]) for row in rows]
