"""Quotations: does the text that an answer puts in quotation marks stand in the documents?

By string match after folding (`app.words.fold`): line breaks, hyphenation, kinds of quotes and dashes, and capitals do
not count, letters and digits do. Pure functions.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from unabridged.app.sources import Source
from unabridged.app.words import Folded, fold

_PAIRS = re.compile(
    r'(?<![\w"])"(?P<straight>[^"\n]+)"(?!\w)|“(?P<english>[^“”\n]+)”|„(?P<german>[^„“”\n]+)[“”]|«(?P<french>[^«»\n]+)»'
)
_ELLIPSIS = re.compile(r"\s*(?:\[?(?:\.\.\.|…)\]?)\s*")
_EDGES = " \t.,;:!?"


@dataclass(frozen=True)
class Quotation:
    """`answer[start:end]` is quoted; the marks stand around it, `outer_end` is behind the closing one."""

    text: str
    start: int
    end: int
    outer_end: int


@dataclass(frozen=True)
class Found:
    """A quotation stands at `source.text[start:end]`."""

    source: Source
    start: int
    end: int


def quotations(answer: str) -> list[Quotation]:
    """Everything in double quotation marks, in order."""
    found = []
    for match in _PAIRS.finditer(answer):
        group = str(match.lastgroup)
        if any(char.isalnum() for char in match[group]):
            found.append(Quotation(match[group], match.start(group), match.end(group), match.end()))
    return found


def stands_in(quote: str, text: str) -> bool:
    """Whether `text` contains the quotation."""
    return _place(quote, fold(text)) is not None


class Finder:
    """Looks quotations up in sources; each page is folded once."""

    def __init__(self, sources: Sequence[Source]) -> None:
        self._sources = sources
        self._folded: list[Folded] | None = None

    def find(self, quote: str) -> Found | None:
        """The first place that has the whole quotation; parts around an ellipsis must follow each other on one page."""
        if self._folded is None:
            self._folded = [fold(source.text[source.start : source.end]) for source in self._sources]
        for source, folded in zip(self._sources, self._folded, strict=True):
            if place := _place(quote, folded):
                start, end = folded.span(*place)
                return Found(source, source.start + start, source.start + end)
        return self._across(quote, self._folded)

    def _across(self, quote: str, pages: Sequence[Folded]) -> Found | None:
        """A quotation that runs over the end of a page is given as the part on its first page."""
        for number, (source, following) in enumerate(zip(self._sources, self._sources[1:], strict=False)):
            if (following.document_id, following.page) not in _next(source):
                continue
            first, second = pages[number], pages[number + 1]
            place = _place(quote, fold(f"{first.text} {second.text}"))
            if place and place[0] < len(first.text):
                start, end = first.span(place[0], min(place[1], len(first.text)))
                return Found(source, source.start + start, source.start + end)
        return None


def _next(source: Source) -> Iterable[tuple[int, int]]:
    return (source.document_id, source.page), (source.document_id, source.page + 1)


def _place(quote: str, folded: Folded) -> tuple[int, int] | None:
    """Span in the folded text, or None. Whole words only: a quoted "art" does not stand in "party"."""
    begin, position = -1, 0
    for part in _ELLIPSIS.split(quote):
        needle = fold(part).text.strip(_EDGES)
        if not needle:
            continue
        at = _word(folded.text, needle, position)
        if at < 0:
            return None
        begin = at if begin < 0 else begin
        position = at + len(needle)
    return (begin, position) if begin >= 0 else None


def _word(text: str, needle: str, position: int) -> int:
    while (at := text.find(needle, position)) >= 0:
        before, after = text[at - 1 : at], text[at + len(needle) : at + len(needle) + 1]
        if not (before.isalnum() and needle[0].isalnum()) and not (after.isalnum() and needle[-1].isalnum()):
            return at
        position = at + 1
    return -1
