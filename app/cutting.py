"""Cuts a document into sections: stretches of at most `limit` tokens that begin with a line naming document and pages.

A document that fits is one section; longer ones are cut between pages, and a page that is longer than a section near
the end of a sentence. Sections depend on their own document only, so what was read of it stays valid whatever is added
to the collection beside it; documents never share one, so that changing a mail never costs reading its neighbours
again, and a short mail is composed alone at the cost of its name, some ten tokens.

A quotation that is left out, because the message that it quotes is in context, leaves a mark in its place.
"""

import re
from array import array
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from unabridged.app.context import Piece, Section, display_name
from unabridged.app.places import is_named, span
from unabridged.app.sentences import passages
from unabridged.ingest.document import Kind

if TYPE_CHECKING:
    from unabridged.ingest.catalog.repeats import Repeat
    from unabridged.ingest.catalog.rows import DocumentRow
    from unabridged.ingest.catalog.tokens import PageTokens
    from unabridged.ingest.library import Library
    from unabridged.models.tokenizer import Tokenizer

# A cut page ends at a sentence when one ends in the last third of the section.
_SEARCH_BACK = 3
_NAME = 80
_PERSON = 60
_WHERE = 160
_SEPARATOR = "\n"
_LEFT_OUT = "\n[...]\n"
_END = "\n\n"
_SENDER = re.compile(r"[\s\"']*([^<>\"]*?)[\s\"']*(?:<([^<>]*)>|$)")


def sections(
    document: "DocumentRow",
    library: "Library",
    tokenizer: "Tokenizer",
    limit: int,
    repeats: "Sequence[Repeat]" = (),
) -> list[Section]:
    """The sections of a document, none longer than `limit` tokens, without the stretches `repeats`. Blocking. Raises
    DocumentNotFound."""
    from unabridged.ingest.catalog.tokens import tokens

    cutter = _Cutter(document, library, tokenizer, limit)
    for page in tokens(library, document.id, tokenizer).pages:
        cutter.add(page, [(one.start, one.end) for one in repeats if one.page == page.number])
    return cutter.done()


class _Cutter:
    """Fills sections page by page."""

    def __init__(self, document: "DocumentRow", library: "Library", tokenizer: "Tokenizer", limit: int) -> None:
        from unabridged.ingest.catalog.reads import labels

        self._document = document
        self._library = library
        self._tokenizer = tokenizer
        self._message = _message(document, library)
        self._between = tokenizer.encode(_SEPARATOR)
        self._mark = tokenizer.encode(_LEFT_OUT)
        self._after = tokenizer.encode(_END)
        # The longest header that any section of this document can have.
        pages = [max(1, document.pages - 1), max(2, document.pages)]
        self._places = {
            page: label for page, label in labels(library.connection, document.id).items() if is_named(label)
        }
        named = sorted(self._places.values(), key=len)[-2:]
        longest = header(document, pages, begins=False, message=self._message, where=" to ".join(named)[:_WHERE])
        self._longest = len(tokenizer.encode(longest))
        self._room = limit - self._longest - len(self._after)
        self._sections: list[Section] = []
        # Stretches of pages; None stands for what was left out.
        self._stretch: list[tuple[PageTokens, int, int] | None] = []
        self._filled = 0
        self._repeated = 0

    def add(self, page: "PageTokens", repeats: "Sequence[tuple[int, int]]") -> None:
        runs = list(_runs(page, repeats))
        count = sum(last - first for first, last in runs)
        if (
            any(self._stretch)
            and count
            and self._filled + self._cost(count + len(self._mark) * len(repeats)) > self._room
        ):
            self._close()
        at = 0
        for first, last in runs:
            self._leave_out(first - at)
            self._run(page, first, last)
            at = last
        self._leave_out(len(page.ids) - at)

    def done(self) -> list[Section]:
        if any(self._stretch):
            self._close()
        elif self._repeated and self._sections:
            last = self._sections[-1]
            self._sections[-1] = replace(last, repeated=last.repeated + self._repeated)
        count = len(self._sections)
        return [replace(section, of=count) for section in self._sections] if count > 1 else self._sections

    def _run(self, page: "PageTokens", first: int, last: int) -> None:
        if any(self._stretch) and self._filled + self._cost(last - first) > self._room:
            self._close()
        if last - first <= self._room - self._filled:
            self._put(page, first, last)
            return
        for begin, end in self._cuts(page, first, last):
            self._put(page, begin, end)
            if end < last:
                self._close()

    def _cost(self, count: int) -> int:
        return len(self._between) + count

    def _put(self, page: "PageTokens", first: int, last: int) -> None:
        self._filled += last - first
        if self._stretch and self._stretch[-1] is not None:
            self._filled += len(self._between)
        self._stretch.append((page, first, last))

    def _leave_out(self, count: int) -> None:
        """Notes that so many tokens are left out here."""
        if count <= 0:
            return
        self._repeated += count
        if self._filled + len(self._mark) <= self._room and not (self._stretch and self._stretch[-1] is None):
            self._filled += len(self._mark)
            self._stretch.append(None)

    def _cuts(self, page: "PageTokens", first: int, stop: int) -> Iterator[tuple[int, int]]:
        """Spans of tokens that cover `first:stop` of the page, each ending with a sentence where that is possible."""
        text = self._library.page(self._document.id, page.number).text
        ends = [end for _, end in passages(text)]
        room = self._room - self._filled
        while stop - first > room:
            last = first + room
            fitting = bisect_right(ends, page.ends[last - 1])
            cut = bisect_right(page.ends, ends[fitting - 1]) if fitting else first
            last = cut if cut > last - room // _SEARCH_BACK else last
            yield first, last
            first, room = last, self._room
        yield first, stop

    def _close(self) -> None:
        pages = list(dict.fromkeys(stretch[0].number for stretch in self._stretch if stretch))
        ids = array("i", self._header(pages))
        pieces: list[Piece] = []
        joined = True
        for stretch in self._stretch:
            if stretch is None:
                ids.extend(self._mark)
                joined = True
                continue
            if not joined:
                ids.extend(self._between)
            page, first, last = stretch
            pieces.append(Piece(page, first, last, len(ids)))
            ids.extend(page.ids[first:last])
            joined = False
        ids.extend(self._after)
        self._sections.append(Section(self._document, tuple(pieces), ids, self._repeated))
        self._stretch, self._filled, self._repeated = [], 0, 0

    def _header(self, pages: Sequence[int]) -> list[int]:
        where = span(self._places.get(pages[0], ""), self._places.get(pages[-1], ""))[:_WHERE]
        for named in (where, ""):
            line = header(self._document, pages, begins=not self._sections, message=self._message, where=named)
            ids = self._tokenizer.encode(line)
            # A label may take more tokens than the one that was longest in characters.
            if len(ids) <= self._longest:
                break
        return ids


def _runs(page: "PageTokens", repeats: "Sequence[tuple[int, int]]") -> Iterator[tuple[int, int]]:
    """The stretches of a page's tokens that lie in none of `repeats`, which are in order."""
    at = 0
    for start, end in repeats:
        first, last = bisect_right(page.starts, start - 1), bisect_right(page.ends, end)
        if at < first < last:
            yield at, first
        at = max(at, last) if first < last else at
    if at < len(page.ids):
        yield at, len(page.ids)


def header(
    document: "DocumentRow",
    pages: Sequence[int],
    *,
    begins: bool = True,
    message: "DocumentRow | None" = None,
    where: str = "",
) -> str:
    """The line that tells the model what it reads: "[contract.pdf, Master agreement, pages 3-5]", or `where` it lies:
    "[costs.xlsx, sheet Sales, rows 2-40]".

    A message brings its subject, sender and date as the first lines of its text; where it goes on (not `begins`), the
    line names sender and date. What is attached to a message, or a message in one, names `message`.
    """
    parts = [display_name(document)[-_NAME:]]
    if document.kind is not Kind.MESSAGE and document.title and document.title not in parts[0]:
        parts.append(" ".join(document.title.split())[:_NAME])
    if document.kind is Kind.MESSAGE and not begins:
        parts.append(f"continued, {_written(document)}".removesuffix(", "))
    elif message is not None and document.kind is not Kind.MESSAGE:
        subject = " ".join(message.title.split())[:_NAME]
        parts.append(f"attached to {subject or 'a message'}, {_written(message)}".removesuffix(", "))
    if where:
        parts.append(where)
    elif document.kind is Kind.PDF:
        parts.append(f"pages {pages[0]}-{pages[-1]}" if len(pages) > 1 else f"page {pages[0]}")
    return f"[{', '.join(parts)}]\n"


def _written(message: "DocumentRow") -> str:
    """Who wrote a message and when: "from Ines Vega, 2024-03-15"."""
    found = _SENDER.match(message.meta.get("from", ""))
    sender = " ".join((found[1] or found[2] or "").split())[:_PERSON] if found else ""
    return ", ".join(
        filter(None, (f"from {sender}" if sender else "", message.date[:10] if message.dated == "message" else ""))
    )


def _message(document: "DocumentRow", library: "Library") -> "DocumentRow | None":
    """The message that a document is attached to, also within an archive."""
    while document.parent_id is not None:
        document = library.document(document.parent_id)
        if document.kind is Kind.MESSAGE:
            return document
    return None
