"""Files in which something needs a password. Opens none of them."""

import sqlite3

from unabridged.ingest.catalog.reads import collection_id


def locked_files(connection: sqlite3.Connection, collection: str) -> list[str]:
    """Paths of the files of a collection that are locked, or hold a document that is. Raises CollectionNotFound."""
    rows = connection.execute(
        """
        SELECT f.path FROM collection_files m JOIN files f ON f.id = m.file_id JOIN contents c ON c.id = f.content_id
        WHERE m.collection_id = ? AND c.state = 'done' AND c.locked > 0 ORDER BY f.path
        """,
        (collection_id(connection, collection),),
    )
    return [row["path"] for row in rows]
