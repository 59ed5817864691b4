"""What a change makes a joint collection read again: all that stands behind it. Knows the library's rows only."""

from typing import TYPE_CHECKING

from unabridged.app.context import display_name, readable
from unabridged.app.output import count
from unabridged.app.selection import in_order
from unabridged.ingest.errors import CollectionNotFound

if TYPE_CHECKING:
    from unabridged.ingest.catalog.rows import DocumentRow
    from unabridged.ingest.library import Library


class Rereading:
    """A collection as it is before a change."""

    def __init__(self, library: "Library", collection: str) -> None:
        """Blocking. The collection need not exist yet."""
        self._library, self._collection = library, collection
        self._joint = self._is_joint()
        self._before = self._documents() if self._joint else []

    def note(self) -> str:
        """After the change: a sentence on what the next question over the whole collection reads again; empty where it
        is nothing. Blocking."""
        if not self._is_joint():
            return ""
        after = self._documents()
        if not self._joint:
            verb = "is" if len(after) == 1 else "are"
            return f"the collection is joint now: its {_size(after)} {verb} read as one text" if after else ""
        return _behind_the_first_change(self._before, after)

    def _is_joint(self) -> bool:
        try:
            return self._library.composition(self._collection) == "joint"
        except CollectionNotFound:
            return False

    def _documents(self) -> "list[DocumentRow]":
        return in_order(row for row in self._library.documents(self._collection) if readable(row))


def _behind_the_first_change(before: "list[DocumentRow]", after: "list[DocumentRow]") -> str:
    pairs = enumerate(zip(before, after, strict=False))
    same = next((at for at, (old, new) in pairs if old.id != new.id), min(len(before), len(after)))
    known = {row.id for row in before}
    again = [row for row in after[same:] if row.id in known]
    if not again:
        return ""
    verb = "is" if len(again) == 1 else "are"
    return (
        f"the collection is joint: {_size(again)} {verb} read again, from {display_name(again[0])} on, because what"
        " stands before has changed"
    )


def _size(rows: "list[DocumentRow]") -> str:
    documents = count(len(rows), "document")
    if any(row.tokens is None for row in rows):
        return documents
    return f"{documents} of {sum(row.tokens or 0 for row in rows):,} tokens"
