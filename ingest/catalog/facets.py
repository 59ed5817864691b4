"""What a document is found by beside its text and path: its date, and its tags.

A message has its own date, and what is attached to it the same; one that says none has that of its file. Other
documents have that of their metadata (modified, else created), else of their file's last change. Tags are the names of
the folders between an added folder and the file, folders within an archive, Gmail's labels, the mail folder, the flags
of a mail program, and what people gave (`unabridged tag`); what holds for a container holds for what is in it. Reads
only.
"""

import sqlite3
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from unabridged.ingest.catalog.rows import DocumentRow
from unabridged.ingest.document import Kind
from unabridged.ingest.mail.place import FILE_TIME

_METADATA = ("modified", "created", "date")


class Facets:
    """The facets of the files of one collection (None: of the library). `contents`: a JSON list of those that are asked
    for; None: all."""

    def __init__(self, connection: sqlite3.Connection, collection: int | None, contents: str | None = None) -> None:
        rows = connection.execute(
            "SELECT path FROM roots WHERE ?1 IS NULL OR collection_id = ?1 ORDER BY LENGTH(path) DESC", (collection,)
        )
        self._roots = [row["path"].rstrip("/") + "/" for row in rows]
        self._given: dict[tuple[str, str], list[str]] = {}
        some = "" if contents is None else "WHERE f.content_id IN (SELECT value FROM json_each(:contents))"
        query = f"SELECT t.tag, t.tail, f.path FROM tags t JOIN files f ON f.id = t.file_id {some} ORDER BY t.tag"
        for row in connection.execute(query, {"contents": contents}):
            self._given.setdefault((row["path"], row["tail"]), []).append(row["tag"])
        self._folders: dict[str, tuple[str, ...]] = {}

    def tags(
        self, kind: Kind, paths: Sequence[str], tail: str, meta: Mapping[str, str], parent: DocumentRow | None
    ) -> tuple[str, ...]:
        """The tags of a document at these places of files, in order."""
        found = list(parent.tags) if parent else [tag for path in paths for tag in self._beneath(path)]
        if parent and parent.kind is Kind.ARCHIVE:
            found += (paths[0] + tail)[len(parent.path) + 1 :].split("/")[:-1]
        if kind is Kind.MESSAGE:
            found += [label.strip() for label in meta["labels"].split(",")] if "labels" in meta else ()
            found += meta["folder"].split("/") if "folder" in meta else ()
            found += meta["flags"].split() if "flags" in meta else ()
        if self._given:
            found += [tag for path in paths for tag in self._given.get((path, tail), ())]
        return tuple(dict.fromkeys(filter(None, found))) if found else ()

    def _beneath(self, path: str) -> tuple[str, ...]:
        """The folders between the innermost added folder and the file."""
        folder = path.rpartition("/")[0] + "/"
        if folder not in self._folders:
            root = next((root for root in self._roots if folder.startswith(root)), folder)
            self._folders[folder] = tuple(name for name in folder[len(root) :].split("/") if name)
        return self._folders[folder]


def dated(kind: Kind, meta: Mapping[str, str], mtime_ns: int, parent: DocumentRow | None) -> tuple[str, str]:
    """The date of a document and where it is from; ("", "") where there is none."""
    if kind is Kind.MESSAGE:
        source = "file" if meta.get("date_source") == FILE_TIME else "message"
        return (meta["date"], source) if meta.get("date") else ("", "")
    if parent is not None and parent.dated == "message":
        return parent.date, parent.dated
    for name in _METADATA:
        if meta.get(name, "")[:4].isdigit():
            return meta[name], "metadata"
    if mtime_ns <= 0 or (parent is not None and parent.kind is Kind.MESSAGE):
        return "", ""
    return datetime.fromtimestamp(mtime_ns / 1e9, UTC).astimezone().isoformat(timespec="seconds"), "file"
