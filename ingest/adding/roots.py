"""The folders that were added as such, with what was left out of each, so that looking again leaves out the same."""

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from unabridged.ingest.adding.ignores import Rules
from unabridged.ingest.adding.watch import Folder
from unabridged.ingest.catalog.writes import forget_empty_roots
from unabridged.ingest.errors import PathNotFound
from unabridged.ingest.paths import expanded, on_disk


@dataclass(frozen=True)
class Top:
    """A file or folder that is to be looked at."""

    path: Path
    rules: Rules


class Given(msgspec.Struct, frozen=True, kw_only=True):
    """What a caller says of the rules; None: as they were."""

    include: tuple[str, ...] | None = None
    exclude: tuple[str, ...] | None = None
    hidden: bool | None = None
    gitignore: bool | None = None

    def over(self, rules: Rules) -> Rules:
        """`rules` with what is said here."""
        return msgspec.structs.replace(
            rules, **{name: value for name, value in msgspec.structs.asdict(self).items() if value is not None}
        )


def tops(connection: sqlite3.Connection, collection: int, paths: Sequence[str | Path], given: Given) -> list[Top]:
    """What lies at these paths, or for none the folders of the collection, with their rules. Raises PathNotFound where
    a folder of the collection is gone."""
    known = all_of(connection, collection)
    if paths:
        wanted = [expanded(path).absolute() for path in paths]
        return [Top(path, given.over(known.get(str(path), Rules()))) for path in wanted]
    for path in known:
        if not Path(path).is_dir():
            raise PathNotFound(f"the folder {path} is gone", gone_hint(path))
    return [Top(Path(path), given.over(rules)) for path, rules in known.items()]


def all_of(connection: sqlite3.Connection, collection: int) -> dict[str, Rules]:
    """The folders of a collection by path."""
    rows = connection.execute("SELECT path, rules FROM roots WHERE collection_id = ? ORDER BY path", (collection,))
    return {on_disk(row["path"]): msgspec.json.decode(row["rules"], type=Rules) for row in rows}


def folders(connection: sqlite3.Connection, collection: str | None) -> list[Folder]:
    """The folders of a collection, or of all for None, as they lie on the disk."""
    rows = connection.execute(
        "SELECT n.name, r.path, r.rules FROM roots r JOIN collections n ON n.id = r.collection_id"
        " WHERE ?1 IS NULL OR n.name = ?1 ORDER BY n.name, r.path",
        (collection,),
    )
    return [Folder(row["name"], on_disk(row["path"]), msgspec.json.decode(row["rules"], type=Rules)) for row in rows]


def remember(connection: sqlite3.Connection, collection: int, path: str, rules: Rules) -> None:
    """Notes that a folder was added as a whole, inside the caller's transaction; one that was moved away and holds
    nothing any more is forgotten."""
    connection.execute(
        "INSERT OR REPLACE INTO roots (collection_id, path, rules) VALUES (?, ?, ?)",
        (collection, path, msgspec.json.encode(rules).decode()),
    )
    forget_empty_roots(connection, kept=path)


def files_below(connection: sqlite3.Connection, collection: int, path: str) -> sqlite3.Cursor:
    """The files of a collection at a path and below it, with their contents, by path."""
    prefix = path.rstrip("/") + "/"
    return connection.execute(
        """
        SELECT c.*, f.id AS file_id, f.path FROM files f JOIN contents c ON c.id = f.content_id
        WHERE (f.path = ? OR f.path >= ? AND f.path < ?)
          AND f.id IN (SELECT file_id FROM collection_files WHERE collection_id = ?)
        ORDER BY f.path
        """,
        (path, prefix, prefix[:-1] + "0", collection),
    )


def gone_hint(top: str) -> str:
    """What to do about a folder that is not there, or empty."""
    return f"if its disk is not mounted, mount it; if it is gone for good: unabridged rm {top}/"
