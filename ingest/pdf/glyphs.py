"""Where the characters of a page stand, as pdfium says. Text is counted in UTF-16 units, as pdfium counts it."""

import ctypes
from typing import Any, NamedTuple

from unabridged.ingest.pdf.calls import Cells, address, calls


class Box(NamedTuple):
    """Where a character stands, in points: its edges with the height of its font, and its origin on the baseline."""

    left: float
    right: float
    bottom: float
    top: float
    x: float
    y: float

    @property
    def height(self) -> float:
        """Of the font's line, about 1.2 times its size."""
        return self.top - self.bottom


class Glyphs:
    """The characters of a text page by their place in its text."""

    def __init__(self, textpage: Any, text: str) -> None:
        self._calls = calls()
        self._textpage, self._page = textpage, address(textpage.raw)
        self._same = len(text) == textpage.count_chars()
        rect = (ctypes.c_float * 4)()
        self._rect, self._rect_at = rect, ctypes.addressof(rect)
        self._place = Cells(2, ctypes.c_double)

    def index(self, at: int) -> int:
        """pdfium's number of the character at a place of the text."""
        return at if self._same else int(self._calls.Text_GetCharIndexFromTextIndex(self._page, at))

    def box(self, at: int) -> Box:
        """The character at a place of the text; a box without a size for one that pdfium made up."""
        return Box(*self.edges(at), *self.origin(at))

    def edges(self, at: int) -> tuple[float, float, float, float]:
        """Left, right, bottom and top alone."""
        self._calls.Text_GetLooseCharBox(self._page, at if self._same else self.index(at), self._rect_at)
        left, top, right, bottom = self._rect
        return left, right, bottom, top

    def origin(self, at: int) -> tuple[float, float]:
        """The origin alone."""
        self._calls.Text_GetCharOrigin(self._page, at if self._same else self.index(at), *self._place.at)
        x, y = self._place.cells
        return x.value, y.value

    def upright(self, at: int) -> bool:
        """Whether the character stands as the page does."""
        return bool(abs(self._calls.Text_GetCharAngle(self._page, self.index(at))) < 0.05)

    def hyphen(self, at: int) -> bool:
        """Whether a U+FFFE stands for the hyphen of a word that goes on in the next line."""
        return bool(self._calls.Text_IsHyphen(self._page, self.index(at)) == 1)

    def item(self, at: int) -> int:
        """The address of the text object that the character is of, 0 for one that pdfium made up."""
        return self._calls.Text_GetTextObject(self._page, self.index(at)) or 0
