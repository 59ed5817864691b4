"""What changes the library's tables, apart from storing a content (that is `storing`). Every function runs inside the
caller's lock; those that take several steps are one transaction.

It touches no file but to see whether a path still exists.
"""

import os
import sqlite3
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from unabridged.ingest.catalog import messages, reads
from unabridged.ingest.catalog.database import transaction
from unabridged.ingest.catalog.indexing import forget_pages
from unabridged.ingest.catalog.rows import Change, Composing
from unabridged.ingest.errors import DocumentNotFound
from unabridged.ingest.paths import Patterns, on_disk


@dataclass(frozen=True)
class Seen:
    """A file as it lies on the disk: stored path, bytes, time of its last change."""

    path: str
    size: int
    mtime_ns: int


def ensure_collection(connection: sqlite3.Connection, name: str) -> int:
    """The id of the collection, made if there is none."""
    connection.execute("INSERT OR IGNORE INTO collections (name) VALUES (?)", (name,))
    found: int = connection.execute("SELECT id FROM collections WHERE name = ?", (name,)).fetchone()["id"]
    return found


def compose(connection: sqlite3.Connection, name: str, composition: Composing) -> None:
    """See `Library.compose`."""
    with transaction(connection):
        number = ensure_collection(connection, name)
        connection.execute("UPDATE collections SET composition = ? WHERE id = ?", (composition, number))


@dataclass(frozen=True)
class Attached:
    """What became of a file: its id, and the content that it had before and may be the last to have had."""

    change: Change
    file: int
    loose: int | None


def attach(connection: sqlite3.Connection, seen: Seen, content: int, collection: int) -> Attached:
    """Says that the file has this content and belongs to the collection, inside the caller's transaction.

    A path that is new while another path of the same content is gone from the disk is that file, moved.
    """
    known = connection.execute("SELECT id, content_id FROM files WHERE path = ?", (seen.path,)).fetchone()
    loose = None
    change: Change
    if known is not None:
        file, change = known["id"], "unchanged" if known["content_id"] == content else "changed"
        loose = known["content_id"] if change == "changed" else None
    elif (file := _moved(connection, content, seen.path)) is not None:
        change = "moved"
    else:
        file, change = _insert(connection, seen, content), "new"
    if change != "new":
        connection.execute(
            "UPDATE files SET path = ?, size = ?, mtime_ns = ?, content_id = ? WHERE id = ?",
            (seen.path, seen.size, seen.mtime_ns, content, file),
        )
    connection.execute("INSERT OR IGNORE INTO collection_files VALUES (?, ?)", (collection, file))
    return Attached(change, file, loose)


def _insert(connection: sqlite3.Connection, seen: Seen, content: int) -> int:
    values = (seen.path, seen.size, seen.mtime_ns, content)
    cursor = connection.execute("INSERT INTO files (path, size, mtime_ns, content_id) VALUES (?, ?, ?, ?)", values)
    return cursor.lastrowid or 0


def _moved(connection: sqlite3.Connection, content: int, path: str) -> int | None:
    # What could not be read has no identity to be recognised by.
    rows = connection.execute(
        "SELECT f.id, f.path FROM files f JOIN contents c ON c.id = f.content_id"
        " WHERE c.id = ? AND c.sha256 IS NOT NULL",
        (content,),
    )
    return next((row["id"] for row in rows if gone(row["path"]) or _respelled(row["path"], path)), None)


def _respelled(old: str, new: str) -> bool:
    """Whether both paths are one entry of a folder that does not tell capitals, or forms of accents, apart."""
    folder, _, name = old.rpartition("/")
    to, _, other = new.rpartition("/")
    if folder != to or _folded(name) != _folded(other):
        return False
    try:
        here, there = os.lstat(old), os.lstat(new)
    except OSError:
        return False
    return (here.st_dev, here.st_ino, here.st_nlink) == (there.st_dev, there.st_ino, 1)


def _folded(name: str) -> str:
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())


def gone(path: str) -> bool:
    """Whether nothing lies at a stored path any more. A folder that cannot be entered is no proof of that."""
    try:
        os.lstat(on_disk(path))
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False
    return False


def remove(connection: sqlite3.Connection, patterns: Sequence[str], collection: str) -> list[str]:
    """See `Library.remove`."""
    found = reads.documents(connection, collection, patterns)
    wanted = Patterns(patterns)
    paths = [path for row in found if row.parent_id is None for path in (row.path, *row.also) if wanted.match(path)]
    if not paths:
        raise DocumentNotFound(
            f"no file of collection {collection!r} matches {' '.join(patterns)!r}",
            "`unabridged ls` lists them; what a file holds goes with its file only",
        )
    with transaction(connection):
        _detach(connection, paths, reads.collection_id(connection, collection))
    return paths


def remove_document(connection: sqlite3.Connection, document_id: int, collection: str | None) -> list[str]:
    """See `Library.remove_document`."""
    reads.document(connection, document_id)
    number = reads.collection_id(connection, collection)
    rows = connection.execute(
        f"SELECT path FROM ({reads.FILES})"
        " WHERE content_id = (SELECT content_id FROM documents WHERE id = :document) ORDER BY path",
        {"collection": number, "document": document_id},
    )
    paths = [row["path"] for row in rows]
    with transaction(connection):
        _detach(connection, paths, number)
    return paths


def remove_collection(connection: sqlite3.Connection, collection: str) -> list[str]:
    """See `Library.remove_collection`."""
    number = reads.collection_id(connection, collection)
    paths = [row["path"] for row in connection.execute(reads.FILES, {"collection": number})]
    with transaction(connection):
        _detach(connection, paths, number)
        connection.execute("DELETE FROM roots WHERE collection_id = ?", (number,))
        connection.execute("DELETE FROM collections WHERE id = ? AND name != 'default'", (number,))
    return sorted(paths)


def detach(connection: sqlite3.Connection, paths: Iterable[str], collection: int) -> None:
    """Takes files out of a collection."""
    with transaction(connection):
        _detach(connection, paths, collection)


def drop_orphans(connection: sqlite3.Connection) -> None:
    """Deletes contents that no file has: an addition that was killed before its end may leave some."""
    rows = connection.execute(
        "SELECT id FROM contents c WHERE state = 'done' AND NOT EXISTS (SELECT 1 FROM files WHERE content_id = c.id)"
    )
    drop_unused(connection, [row["id"] for row in rows.fetchall()])


def _detach(connection: sqlite3.Connection, paths: Iterable[str], collection: int | None) -> None:
    """Takes files out of a collection (None: of all), then drops what no collection holds."""
    contents: set[int] = set()
    for path in paths:
        row = connection.execute("SELECT id, content_id FROM files WHERE path = ?", (path,)).fetchone()
        contents.add(row["content_id"])
        connection.execute(
            "DELETE FROM collection_files WHERE file_id = ?1 AND (?2 IS NULL OR collection_id = ?2)",
            (row["id"], collection),
        )
        connection.execute(
            "DELETE FROM files WHERE id = ?1 AND NOT EXISTS (SELECT 1 FROM collection_files WHERE file_id = ?1)",
            (row["id"],),
        )
    drop_unused(connection, contents)
    forget_empty_roots(connection)


def forget_empty_roots(connection: sqlite3.Connection, kept: str = "") -> None:
    """Folders of which a collection holds no file any more are not looked at again; `kept` is, though it is empty."""
    connection.execute(
        """
        DELETE FROM roots WHERE path != ? AND NOT EXISTS (
            SELECT 1 FROM files f JOIN collection_files m ON m.file_id = f.id AND m.collection_id = roots.collection_id
            WHERE f.path >= rtrim(roots.path, '/') || '/' AND f.path < rtrim(roots.path, '/') || '0')
        """,
        (kept,),
    )


def drop_unused(connection: sqlite3.Connection, contents: Iterable[int]) -> None:
    """Deletes those of these contents that no file has, with their documents, pages, tokens and index rows."""
    for content in contents:
        if connection.execute("SELECT 1 FROM files WHERE content_id = ?", (content,)).fetchone() is None:
            forget_pages(connection, content)
            broken = messages.forgetting(connection, content)
            connection.execute("DELETE FROM contents WHERE id = ?", (content,))
            messages.mend(connection, broken)
