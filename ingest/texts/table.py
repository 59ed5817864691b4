"""Rows of a table to pages that can be read alone: the header row stands on each, the label names the rows.

Cells stand between tabs. Knows nothing of formats; what it is given is what a spreadsheet shows.
"""

import re
from collections.abc import Sequence

from unabridged.ingest.document import PartKind
from unabridged.ingest.texts.pager import Pager

_ROWS = 200
_GAP = 20  # empty cells in a row that are written out
_NUMBER = re.compile(r"[-+(]?[\s$€£]*\d[\d.,%\s:/-]*\)?")
_SPACE = re.compile(r"[\t\n\r\f\v]+")


class Table:
    """The rows of one sheet or file, in order. Whoever adds rows takes the pager's pages."""

    def __init__(self, pager: Pager, name: str = "") -> None:
        self._pager = pager
        self._name = name
        self._header = ""
        self._first = self._last = 0
        self._rows = self._length = 0
        self.empty = True

    def add(self, number: int, cells: Sequence[str]) -> None:
        """A row as it is numbered for people, from 1. Empty ones are passed over."""
        line = _line(cells)
        if not line:
            return
        if self._rows and (self._rows >= _ROWS or self._length + len(line) > self._pager.target):
            self._end()
        if not self._rows:
            self._begin(number)
        if self.empty:
            self.empty = False
            self._header = line if _is_header(cells) and len(line) < self._pager.target // 4 else ""
        self._pager.add(line)
        self._last = number
        self._rows += 1
        self._length += len(line) + 1

    def finish(self) -> None:
        """No rows follow."""
        self._end()

    def _begin(self, number: int) -> None:
        self._first, self._length = number, 0
        self._pager.label = self._label(number, number)
        if self._header:
            self._pager.add(self._header, kind=PartKind.HEADER)
            self._length = len(self._header)

    def _end(self) -> None:
        if self._rows:
            self._pager.close(self._label(self._first, self._last))
        self._rows = 0

    def _label(self, first: int, last: int) -> str:
        rows = f"rows {first}-{last}" if last > first else f"row {first}"
        return f"{self._name}, {rows}" if self._name else rows


def _line(cells: Sequence[str]) -> str:
    """The cells between tabs. A long stretch of empty ones is one tab and the letters of the next cell's column."""
    last = next((at for at in range(len(cells) - 1, -1, -1) if cells[at].strip()), -1)
    out: list[str] = []
    gap = 0
    for at in range(last + 1):
        cell = cells[at].strip()
        if not cell:
            gap += 1
            continue
        if not cell.isprintable():
            cell = _SPACE.sub(" ", cell)
        if gap >= _GAP:
            out.append(f"[{column(at)}] {cell}")
        else:
            out.extend([""] * gap)
            out.append(cell)
        gap = 0
    return "\t".join(out)


def column(index: int) -> str:
    """The letters of a column counted from 0: 0 is A, 26 is AA."""
    letters = ""
    index += 1
    while index:
        index, letter = divmod(index - 1, 26)
        letters = chr(ord("A") + letter) + letters
    return letters


def _is_header(cells: Sequence[str]) -> bool:
    """Names rather than values: at least two cells, none a number."""
    filled = [cell.strip() for cell in cells if cell.strip()]
    return len(filled) >= 2 and not any(_NUMBER.fullmatch(cell) for cell in filled)
