"""Which documents a question is asked of: those that its filter means, each text once, a conversation together.

Of a message that is there several times, and of a file that is attached or stored several times, one is read: the first
that lies in no archive, else the first. The others stand in what is left out, with the place of the one that is read.
Knows the library's rows, not their text.
"""

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from unabridged.app.context import display_name, readable, unread
from unabridged.app.errors import NothingToRead
from unabridged.app.events import LeftOut, Question
from unabridged.ingest.catalog import filters
from unabridged.ingest.catalog.filters import Filter
from unabridged.ingest.catalog.messages import moment
from unabridged.ingest.document import Kind

if TYPE_CHECKING:
    from unabridged.ingest.catalog.rows import DocumentRow
    from unabridged.ingest.library import Library

_LATE = 1 << 62
_NAMED = 100  # copies that are named one by one


@dataclass(frozen=True)
class Selection:
    """What is asked of."""

    documents: "tuple[DocumentRow, ...]"
    """Readable ones, in the order in which they are read."""
    copies: dict[int, int]
    """From each copy that is not read to the document that is read in its place."""
    names: "dict[int, DocumentRow]"
    """The copies and the documents in their place."""
    without: tuple[LeftOut, ...]
    """What has no text, and no date where dates are asked for."""

    def left_out(self, read: Container[int]) -> list[LeftOut]:
        """What is not read where the documents `read` are: copies of those, and what has no text. Of a document that
        is not read itself, copies are only counted."""
        told = [(one, other) for one, other in self.copies.items() if other in read]
        out = [_copy(self.names[one], self.names[other]) for one, other in told[:_NAMED]]
        if len(told) > _NAMED:
            out.append(_several(len(told) - _NAMED, "more ", "their texts are read already"))
        if others := len(self.copies) - len(told):
            out.append(_several(others, "", "what they are copies of is not read either"))
        return [*out, *self.without]


def select(library: "Library", collection: str, where: Filter, tokenizer: str) -> Selection:
    """Blocking. `tokenizer`: whose token counts the documents shall have. Raises CollectionNotFound, FilterInvalid and
    NothingToRead."""
    every = library.documents(collection, tokenizer=tokenizer)
    meant = filters.select(every, where)
    readables = [row for row in meant if readable(row)]
    if not readables:
        raise _nothing(collection, where, every, meant)
    copies = _copies(readables, _in_archives(every))
    involved = {*copies, *copies.values()}
    names = {row.id: row for row in readables if row.id in involved}
    without = unread(meant, library)
    if missing := filters.undated(every, where):
        reason = "no date is known of it: --since and --until cannot mean it"
        without = [*(LeftOut(document=row.path, pages="all", reason=reason) for row in missing[:_NAMED]), *without]
    read = [row for row in in_order(readables) if row.id not in copies]
    return Selection(tuple(read), copies, names, tuple(without))


def meant(question: Question) -> Filter:
    """Which documents a question means."""
    return Filter(
        patterns=question.documents,
        sender=question.sender,
        recipient=question.recipient,
        since=question.since,
        until=question.until,
        tags=question.tags,
        kinds=question.kinds,
        thread=question.thread,
    )


def _copy(row: "DocumentRow", read: "DocumentRow") -> LeftOut:
    what = "the same message as" if row.kind is Kind.MESSAGE else "the same file as"
    return LeftOut(document=row.path, pages="all", reason=f"{what} {display_name(read)}, which is read")


def _several(number: int, more: str, reason: str) -> LeftOut:
    return LeftOut(document=f"{number:,} {more}{'copy' if number == 1 else 'copies'}", pages="all", reason=reason)


def _copies(rows: "Sequence[DocumentRow]", in_archives: Container[int]) -> dict[int, int]:
    first: dict[str, int] = {}
    found = {}
    for row in sorted(rows, key=lambda row: row.id in in_archives):
        name = row.identity if row.kind is Kind.MESSAGE else row.sha256
        if name and (known := first.setdefault(name, row.id)) != row.id:
            found[row.id] = known
    return found


def _in_archives(rows: "Sequence[DocumentRow]") -> set[int]:
    """What lies in an archive, at whatever depth. Parents stand before what they hold."""
    archives, inside = {row.id for row in rows if row.kind is Kind.ARCHIVE}, set[int]()
    for row in rows:
        if row.parent_id in archives or row.parent_id in inside:
            inside.add(row.id)
    return inside


def in_order(rows: "Iterable[DocumentRow]") -> "list[DocumentRow]":
    """These rows as they are read: as they are listed, but a conversation together, where its first message is listed,
    by date; what is attached behind its message."""
    place: dict[tuple[str, int], int] = {}
    keyed = []
    for index, row in enumerate(rows):
        keyed.append((place.setdefault(conversation(row), index), when(row), row.id, row))
    return [row for *_, row in sorted(keyed, key=lambda one: one[:3])]


def conversation(row: "DocumentRow") -> tuple[str, int]:
    """What is read together with a document; one that is in no conversation stands alone."""
    return ("document", row.id) if row.thread is None else ("thread", row.thread)


def when(row: "DocumentRow") -> int:
    """A key to sort the documents of a conversation by: what has no date comes last."""
    at = moment(row.date)
    return _LATE if at is None else at


def _nothing(
    collection: str, where: Filter, every: "Sequence[DocumentRow]", meant: "Sequence[DocumentRow]"
) -> NothingToRead:
    if where and not meant and every:
        return NothingToRead(f"no document of collection {collection!r} matches {where}", filters.explain(every, where))
    if where and meant:
        return NothingToRead(
            f"no document of collection {collection!r} that matches {where} has text",
            "`unabridged ls --problems` says why",
        )
    if every:
        return NothingToRead(
            f"none of the {len(every)} documents of collection {collection!r} has text",
            "`unabridged ls --problems` says why",
        )
    return NothingToRead(f"collection {collection!r} is empty", "add files: unabridged add PATH")
