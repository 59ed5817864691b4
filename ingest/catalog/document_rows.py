"""From what the library's tables say of a document to the struct that it hands out."""

import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from unabridged.ingest.catalog.facets import Facets, dated
from unabridged.ingest.catalog.messages import identity
from unabridged.ingest.catalog.rows import DocumentRow
from unabridged.ingest.document import Kind, Status
from unabridged.ingest.paths import natural

_META = msgspec.json.Decoder(dict[str, str])


@dataclass(frozen=True)
class Places:
    """Where the files of a content lie, in natural order, and when the first was changed."""

    paths: list[str]
    mtime_ns: int


def places(files: Iterable[sqlite3.Row]) -> dict[int, Places]:
    """The files of each content, all in natural order."""
    found: dict[int, Places] = {}
    for row in sorted(files, key=lambda row: natural(row["path"])):
        found.setdefault(row["content_id"], Places([], row["mtime_ns"])).paths.append(row["path"])
    return found


def document_row(row: sqlite3.Row, lying: Places, facets: Facets, parent: DocumentRow | None) -> DocumentRow:
    """A row of `reads` as a struct."""
    paths, tail, kind, meta = lying.paths, row["tail"], Kind(row["kind"]), _META.decode(row["meta"])
    date, source = dated(kind, meta, lying.mtime_ns, parent)
    return DocumentRow(
        id=row["id"],
        parent_id=row["parent_id"],
        parent="" if row["parent_id"] is None else paths[0] + row["parent_tail"],
        path=paths[0] + tail,
        also=tuple(path + tail for path in paths[1:]),
        kind=kind,
        title=row["title"],
        status=Status(row["status"]),
        reason=row["reason"],
        pages=row["pages"],
        tokens=row["tokens"],
        sha256=row["sha256"],
        size=row["size"],
        meta=meta,
        thread=parent.thread if parent and kind is not Kind.MESSAGE else row["thread_id"],
        identity=identity(row["message_id"], row["body_hash"] or ""),
        date=date,
        dated=source,
        tags=facets.tags(kind, paths, tail, meta, parent),
    )
