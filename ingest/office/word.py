"""The text of a word processor's document to pages, whatever the format it comes from.

A page is what the program laid out, where the file says it; else a stretch of text, labelled with the heading that it
lies under. Notes stand on the page that cites them, table rows and list items line by line.
"""

from dataclasses import dataclass, field
from typing import Protocol

from unabridged.ingest.document import PartKind
from unabridged.ingest.texts.normalise import one_line
from unabridged.ingest.texts.pager import Pager

PRINTED_PAGE = 6_000  # characters: most printed pages stay whole
_MARKS = {"footnote": "", "endnote": "e"}


class Teller(Protocol):
    """Where a document's text goes."""

    def paragraph(self, text: str, level: int, item: bool) -> None:
        """A paragraph; `level` from 1 for a heading, `item` of a list."""

    def row(self, cells: list[str]) -> None:
        """A row of a table."""

    def hidden(self, text: str) -> None:
        """Text that is not shown, with the reason in front of it."""

    def note(self, kind: str, mark: str) -> str:
        """A note is cited here: "footnote", "endnote" or "comment", by its mark. What stands for it in the text."""

    def page_break(self) -> None:
        """A page ends."""


@dataclass
class WordPages(Teller):
    """Fills pages. `printed`: its page breaks are those of the printed document."""

    pager: Pager
    printed: bool = False
    _cited: dict[str, int] = field(default_factory=dict)
    _last: str = ""  # "item" or "row", which stand together
    _fresh: bool = True  # nothing stands on the page yet

    def __post_init__(self) -> None:
        if self.printed:
            self.pager.target, self.pager.printed = PRINTED_PAGE, 1

    def paragraph(self, text: str, level: int, item: bool) -> None:
        if level and not self.printed:
            self.pager.label = f"section {one_line(text, 60)}"
        self._put(f"{'#' * level} {one_line(text, 1_000)}" if level else text, "item" if item and not level else "")

    def row(self, cells: list[str]) -> None:
        line = "\t".join(cell.replace("\n", " ").replace("\t", " ") for cell in cells)
        self._put(line.rstrip("\t"), "row")

    def hidden(self, text: str) -> None:
        self.pager.aside(PartKind.HIDDEN, text)

    def note(self, kind: str, mark: str) -> str:
        return ""

    def cite(self, kind: str, text: str) -> str:
        """A note of this text; what stands for it in the paragraph."""
        if kind == "comment":
            self.pager.aside(PartKind.NOTE, text)
            return ""
        self._cited[kind] = self._cited.get(kind, 0) + 1
        mark = f"[^{_MARKS.get(kind, '')}{self._cited[kind]}]"
        self.pager.aside(PartKind.NOTE, f"{mark} {text}")
        return mark

    def page_break(self) -> None:
        if self._fresh:
            return  # a break that somebody set, and the program's own for the same page
        self.pager.close()
        self._fresh = True
        if self.printed:
            self.pager.printed += 1

    def _put(self, text: str, what: str) -> None:
        self.pager.add(text, "\n" if what and what == self._last else "\n\n")
        self._last, self._fresh = what, False
