"""What of documents is in context, and the way back from a token's position to a page's characters.

A document becomes sections (`app.cutting`), which stand behind each other in a layout. Knows the library's rows and
token ids; knows neither the engine nor the prompt.
"""

from array import array
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import TYPE_CHECKING

from unabridged.app.events import LeftOut
from unabridged.ingest.document import Flag, Status

if TYPE_CHECKING:
    from unabridged.ingest.catalog.rows import DocumentRow, PageRow
    from unabridged.ingest.catalog.tokens import PageTokens
    from unabridged.ingest.library import Library

# Document, page and first token of a section.
Key = tuple[int, int, int]
_UNREAD = {
    Flag.UNREAD: "could not be loaded",
    Flag.SCANNED: "scanned, without a text layer",
    Flag.GARBLED: "its text layer is unreadable",
    Flag.CUT: "longer than a page may be: cut",
}


@dataclass(frozen=True)
class Piece:
    """Tokens `first:last` of a page, standing from position `at` of their section."""

    tokens: "PageTokens"
    first: int
    last: int
    at: int

    @property
    def page(self) -> int:
        """The page's number."""
        return self.tokens.number

    @property
    def end(self) -> int:
        """The position behind the last token."""
        return self.at + self.last - self.first

    def characters(self, first: int, last: int) -> tuple[int, int]:
        """The page's characters that tokens at positions `first:last` of the section stand for. Not empty."""
        low, high = first - self.at + self.first, last - self.at + self.first
        return self.tokens.starts[low], self.tokens.ends[high - 1]


@dataclass(frozen=True)
class Section:
    """A stretch of one document as the model reads it."""

    document: "DocumentRow"
    pieces: tuple[Piece, ...]
    ids: "array[int]" = field(repr=False)
    repeated: int = 0
    """Tokens of quotations that were left out of it."""
    of: int = 1
    """How many sections its document has."""

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def key(self) -> Key:
        """Tells sections of one limit apart."""
        return self.document.id, self.pieces[0].page, self.pieces[0].first

    @property
    def pages(self) -> tuple[int, ...]:
        """The pages in it, also in part."""
        return tuple(dict.fromkeys(piece.page for piece in self.pieces))


@dataclass(frozen=True)
class Place:
    """Characters of a page in context."""

    document_id: int
    page: int
    start: int
    end: int


class Layout:
    """Sections in the order in which they are composed behind a prefix of `prefix` tokens."""

    def __init__(self, prefix: int, sections: Sequence[Section]) -> None:
        self.sections = tuple(sections)
        self._starts = list(accumulate((len(section) for section in sections), initial=prefix))

    @property
    def start(self) -> int:
        """The position of the first section."""
        return self._starts[0]

    @property
    def tokens(self) -> int:
        """Tokens of all sections."""
        return self._starts[-1] - self._starts[0]

    @property
    def documents(self) -> "list[DocumentRow]":
        """The documents in context, each once, in order."""
        return list({section.document.id: section.document for section in self.sections}.values())

    @property
    def pages(self) -> int:
        """How many pages are in context, also in part."""
        return len({(section.document.id, page) for section in self.sections for page in section.pages})

    def section_at(self, position: int) -> Section | None:
        """The section that holds a position of the context; None in prefix and prompt."""
        index = bisect_right(self._starts, position) - 1
        return self.sections[index] if 0 <= index < len(self.sections) else None

    def places(self, position: int, count: int) -> Iterator[Place]:
        """What the tokens at `position : position + count` stand for. Header lines stand for nothing."""
        end = position + count
        first = max(0, bisect_right(self._starts, position) - 1)
        for index in range(first, len(self.sections)):
            start = self._starts[index]
            if start >= end:
                return
            section = self.sections[index]
            for piece in section.pieces:
                low, high = max(piece.at, position - start), min(piece.end, end - start)
                if low < high:
                    yield Place(section.document.id, piece.page, *piece.characters(low, high))


def display_name(document: "DocumentRow") -> str:
    """A document's name without its folders: "contract.pdf", "box.mbox#3", "box.mbox#3/report.pdf"."""
    if not document.parent:
        return document.path.rpartition("/")[2]
    return document.parent.rpartition("/")[2] + document.path[len(document.parent) :]


def readable(document: "DocumentRow") -> bool:
    """Whether the document has text of its own."""
    return document.status in (Status.READ, Status.PARTIAL) and document.pages > 0


def unread(documents: "Sequence[DocumentRow]", library: "Library") -> list[LeftOut]:
    """What of these documents has no text to read, and why. Blocking."""
    out: list[LeftOut] = []
    for document in documents:
        if document.status is Status.PARTIAL:
            out += _unread_pages(document, library.pages(document.id))
        elif document.status is not Status.READ:
            reason = document.reason or document.status.replace("_", " ")
            out.append(LeftOut(document=document.path, pages="all", reason=reason))
    return out


def _unread_pages(document: "DocumentRow", pages: "Sequence[PageRow]") -> list[LeftOut]:
    why: dict[str, list[int]] = {}
    for page in pages:
        for flag, reason in _UNREAD.items():
            if flag in page.flags:
                why.setdefault(reason, []).append(page.number)
    if not why:
        return [LeftOut(document=document.path, pages="some", reason=document.reason)]
    return [LeftOut(document=document.path, pages=ranges(numbers), reason=reason) for reason, numbers in why.items()]


def ranges(numbers: Sequence[int]) -> str:
    """Page numbers for people: "1-3, 7"."""
    spans: list[list[int]] = []
    for number in sorted(set(numbers)):
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in spans)
