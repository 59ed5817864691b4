"""Lays documents out as the model reads them, and keeps the way back from a token's position to a page's characters.

A document becomes sections: stretches of at most `limit` tokens that begin with a line naming document and pages. A
document that fits is one section; longer ones are cut between pages, and a page that is longer than a section near the
end of a sentence. Sections depend on their own document only, so what was read of it stays valid whatever is added to
the collection beside it; documents never share one, so that changing a mail never costs reading its neighbours again,
and a short mail is composed alone at the cost of its name, some ten tokens.

Knows the library's rows and token ids; knows neither the engine nor the prompt.
"""

from array import array
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import TYPE_CHECKING

from unabridged.app.events import LeftOut
from unabridged.app.sentences import passages
from unabridged.ingest.document import Flag, Kind, Status

if TYPE_CHECKING:
    from unabridged.ingest.library import Library
    from unabridged.ingest.rows import DocumentRow, PageRow
    from unabridged.ingest.tokens import PageTokens
    from unabridged.models.tokenizer import Tokenizer

# A cut page ends at a sentence when one ends in the last third of the section.
_SEARCH_BACK = 3
_NAME = 80
_SEPARATOR = "\n"
_END = "\n\n"
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


def sections(document: "DocumentRow", library: "Library", tokenizer: "Tokenizer", limit: int) -> list[Section]:
    """The sections of a document, none longer than `limit` tokens. Blocking. Raises DocumentNotFound."""
    from unabridged.ingest.tokens import tokens

    cutter = _Cutter(document, library, tokenizer, limit)
    for page in tokens(library, document.id, tokenizer).pages:
        cutter.add(page)
    return cutter.done()


class _Cutter:
    """Fills sections page by page."""

    def __init__(self, document: "DocumentRow", library: "Library", tokenizer: "Tokenizer", limit: int) -> None:
        self._document = document
        self._library = library
        self._tokenizer = tokenizer
        self._between = tokenizer.encode(_SEPARATOR)
        self._after = tokenizer.encode(_END)
        # The longest header that any section of this document can have.
        longest = header(document, [max(1, document.pages - 1), max(2, document.pages)])
        self._room = limit - len(tokenizer.encode(longest)) - len(self._after)
        self._sections: list[Section] = []
        self._stretch: list[tuple[PageTokens, int, int]] = []
        self._filled = 0

    def add(self, page: "PageTokens") -> None:
        count = len(page.ids)
        if not count:
            return
        if self._filled and self._filled + len(self._between) + count > self._room:
            self._close()
        if count <= self._room:
            self._put(page, 0, count)
            return
        for first, last in self._cuts(page):
            self._put(page, first, last)
            if last < count:
                self._close()

    def done(self) -> list[Section]:
        if self._stretch:
            self._close()
        return self._sections

    def _put(self, page: "PageTokens", first: int, last: int) -> None:
        self._filled += (len(self._between) if self._stretch else 0) + last - first
        self._stretch.append((page, first, last))

    def _cuts(self, page: "PageTokens") -> Iterator[tuple[int, int]]:
        """Spans of tokens that cover the page, each ending with a sentence where that is possible."""
        text = self._library.page(self._document.id, page.number).text
        ends = [end for _, end in passages(text)]
        first, count = 0, len(page.ids)
        while count - first > self._room:
            last = first + self._room
            fitting = bisect_right(ends, page.ends[last - 1])
            cut = bisect_right(page.ends, ends[fitting - 1]) if fitting else first
            last = cut if cut > last - self._room // _SEARCH_BACK else last
            yield first, last
            first = last
        yield first, count

    def _close(self) -> None:
        pages = list(dict.fromkeys(page.number for page, _, _ in self._stretch))
        ids = array("i", self._tokenizer.encode(header(self._document, pages)))
        pieces: list[Piece] = []
        for page, first, last in self._stretch:
            if pieces:
                ids.extend(self._between)
            pieces.append(Piece(page, first, last, len(ids)))
            ids.extend(page.ids[first:last])
        ids.extend(self._after)
        self._sections.append(Section(self._document, tuple(pieces), ids))
        self._stretch, self._filled = [], 0


def header(document: "DocumentRow", pages: Sequence[int]) -> str:
    """The line that tells the model what it reads: "[contract.pdf, Master agreement, pages 3-5]". A message brings its
    subject, sender and date as the first lines of its text."""
    parts = [display_name(document)[-_NAME:]]
    if document.kind is not Kind.MESSAGE and document.title and document.title not in parts[0]:
        parts.append(" ".join(document.title.split())[:_NAME])
    if document.kind is Kind.PDF:
        parts.append(f"pages {pages[0]}-{pages[-1]}" if len(pages) > 1 else f"page {pages[0]}")
    return f"[{', '.join(parts)}]\n"


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
