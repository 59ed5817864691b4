"""One pass over the objects of a page and of its forms: which texts may be hidden from a reader, and why.

Suspicion is cheap and errs on the side of too much; `hidden` decides. Looks at no more than `_OBJECTS` objects.
"""

import ctypes
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from unabridged.ingest.pdf.calls import Cells, address, calls

_TEXT, _PATH, _IMAGE, _FORM = 1, 2, 3, 5
_UNSEEN = (3, 7)  # text render modes that neither fill nor stroke
_OBJECTS = 20_000
_LEVELS = 3  # forms within forms
_TINY = 1.0  # points: nobody reads it
_PALE = 235  # of 255: on white paper hardly seen
_PALEST = _PALE << 16
_THICK = 4.0  # points: what is thinner is a line, which covers no text
_MARGIN = 2.0  # points around the page that still count as on it
_COVERS = 200  # shapes and images that are compared with the texts

Box = tuple[float, float, float, float]  # left, bottom, right, top
Matrix = tuple[float, float, float, float, float, float]
_IDENTITY: Matrix = (1.0, 0.0, 0.0, 1.0, 0.0, 0.0)


class Suspect(NamedTuple):
    """A text object that may be hidden. `why`: "unseen" (render mode), "clear", "pale", "tiny", "covered", "alike" (of
    the colour of what it stands on), "clipped", "layer"."""

    why: str
    item: int  # its address
    box: Box


_Text = tuple[int, int, Box, int]  # order, address, place, colour


class _Shape(NamedTuple):
    order: int
    box: Box
    colour: int  # -1 for an image


@dataclass
class Seen:
    """What is on a page. Boxes are in points, as far as they reach."""

    page: Box = (0.0, 0.0, 0.0, 0.0)
    objects: int = 0
    images: list[Box] = field(default_factory=list)
    pixels: list[int] = field(default_factory=list)  # of each image
    suspects: list[Suspect] = field(default_factory=list)
    texts: int = 0
    grounds: list[Box] = field(default_factory=list)  # images and shapes on which white is seen


class Walk:
    """The walk over one page; `layers` when the document has some that can be switched off."""

    def __init__(self, layers: bool) -> None:
        self.seen = Seen()
        self._calls = c = calls()
        self._asked = c.PageObj_GetBounds, c.PageObj_GetFillColor, c.TextObj_GetTextRenderMode, c.PageObj_GetClipPath
        self._layers = layers
        self._rgba = Cells(4, ctypes.c_uint)
        self._edges = Cells(4)
        self._two = Cells(2)
        self._sizes = Cells(2, ctypes.c_uint)
        self._matrix = (ctypes.c_float * 6)()
        self._texts: list[_Text] = []
        self._shapes: list[_Shape] = []
        self._order = 0

    def over(self, page: Any) -> Seen:
        """What is on a pypdfium2 page."""
        where, seen, get = address(page.raw), self.seen, self._calls.Page_GetObject
        left, bottom, right, top = page.get_bbox()
        self._page = left - _MARGIN, bottom - _MARGIN, right + _MARGIN, top + _MARGIN
        seen.page = left, bottom, right, top
        seen.objects = self._calls.Page_CountObjects(where)
        for index in range(min(seen.objects, _OBJECTS)):
            self._look(get(where, index), _IDENTITY, 0)
        self._covered()
        seen.texts = len(self._texts)
        seen.grounds = [shape.box for shape in self._shapes if shape.colour < 0 or not _pale(shape.colour)]
        return seen

    def _look(self, item: int, matrix: Matrix, level: int) -> None:
        self._order += 1
        kind = self._calls.PageObj_GetType(item)
        if kind == _TEXT:
            self._text(item, matrix)
        elif kind == _IMAGE:
            self._image(item, matrix)
        elif kind == _FORM and level < _LEVELS:
            inner = _product(self._matrix_of(item), matrix)
            for index in range(self._calls.FormObj_CountObjects(item)):
                if self._order >= _OBJECTS:
                    return
                self._look(self._calls.FormObj_GetObject(item, index), inner, level + 1)
        elif kind == _PATH:
            self._path(item, matrix)

    def _text(self, item: int, matrix: Matrix) -> None:
        # Most objects are texts, and most of the walk's time is spent here.
        bounds, fill, mode, path = self._asked
        if matrix is _IDENTITY:
            bounds(item, *self._edges.at)
            one, two, three, four = self._edges.cells
            box = one.value, two.value, three.value, four.value
        else:
            box = self._bounds(item, matrix)
        colour = 0
        if fill(item, *self._rgba.at):
            red, green, blue, alpha = self._rgba.cells
            colour = -1 if alpha.value < 8 else red.value << 16 | green.value << 8 | blue.value
        why = "unseen" if mode(item) in _UNSEEN else self._suspicion(item, matrix, colour, box)
        if not why and self._calls.ClipPath_CountPaths(clip := path(item)) > 0 and self._clipped(item, clip):
            why = "clipped"
        if why:
            self.seen.suspects.append(Suspect(why, item, box))
        else:
            self._texts.append((self._order, item, box, colour))

    def _suspicion(self, item: int, matrix: Matrix, colour: int, box: Box) -> str:
        left, bottom, right, top = box
        page = self._page
        if left > page[2] or right < page[0] or bottom > page[3] or top < page[1]:
            return "off"
        if colour < 0:
            return "clear"
        if colour >= _PALEST and _pale(colour):
            return "pale"
        if self._layers and self._marked(item):
            return "layer"
        # A dash is low as well, so the box is not enough.
        if (top - bottom < _TINY or right - left < _TINY) and self._height(item, matrix) < _TINY:
            return "tiny"
        return ""

    def _height(self, item: int, matrix: Matrix) -> float:
        """Of the font, in points, whichever way it stands."""
        self._calls.TextObj_GetFontSize(item, self._two.at[0])
        _, _, c, d, _, _ = _product(self._matrix_of(item), matrix)
        return float(abs(self._two.cells[0].value)) * max(abs(c), abs(d))

    def _colour(self, item: int) -> int:
        """Red, green and blue in one number, -1 for what is transparent."""
        if not self._calls.PageObj_GetFillColor(item, *self._rgba.at):
            return 0
        red, green, blue, alpha = self._rgba.cells
        return -1 if alpha.value < 8 else red.value << 16 | green.value << 8 | blue.value

    def _marked(self, item: int) -> bool:
        name, size = (ctypes.c_ushort * 16)(), ctypes.c_ulong()
        for index in range(min(self._calls.PageObj_CountMarks(item), 8)):
            mark = self._calls.PageObj_GetMark(item, index)
            named = self._calls.PageObjMark_GetName(mark, ctypes.addressof(name), 32, ctypes.addressof(size))
            if named and bytes(name)[:6] == b"O\0C\0\0\0":
                return True
        return False

    def _clipped(self, item: int, path: int) -> bool:
        """A clip path that leaves the text's middle out, by the boxes of its parts."""
        box = self._bounds(item, _IDENTITY)
        parts = range(min(self._calls.ClipPath_CountPaths(path), 4))
        return any((clip := self._clip(path, index)) and not covers(clip, box) for index in parts)

    def _clip(self, path: int, index: int) -> Box | None:
        """The box of a simple part of a clip path."""
        segments = self._calls.ClipPath_CountPathSegments(path, index)
        if not 0 < segments <= 16:
            return None
        x, y = self._two.cells
        points = []
        for at in range(segments):
            self._calls.PathSegment_GetPoint(self._calls.ClipPath_GetPathSegment(path, index, at), *self._two.at)
            points.append((x.value, y.value))
        xs, ys = zip(*points, strict=True)
        return min(xs), min(ys), max(xs), max(ys)

    def _image(self, item: int, matrix: Matrix) -> None:
        box = self._bounds(item, matrix)
        self._calls.ImageObj_GetImagePixelSize(item, *self._sizes.at)
        self.seen.images.append(box)
        self.seen.pixels.append(self._sizes.cells[0].value * self._sizes.cells[1].value)
        self._shape(box, -1)

    def _path(self, item: int, matrix: Matrix) -> None:
        if len(self._shapes) < _COVERS and self._calls.Path_GetDrawMode(item, *self._sizes.at):
            colour = self._colour(item) if self._sizes.cells[0].value else -1
            if colour >= 0:
                self._shape(self._bounds(item, matrix), colour)

    def _shape(self, box: Box, colour: int) -> None:
        if len(self._shapes) < _COVERS and min(box[2] - box[0], box[3] - box[1]) > _THICK:
            self._shapes.append(_Shape(self._order, box, colour))

    def _covered(self) -> None:
        """Texts with a shape or an image drawn over them, or of the colour of a shape that they are drawn on."""
        if not self._shapes:
            return
        for order, item, box, colour in self._texts:
            over = [shape for shape in self._shapes if shape.order > order]
            alike = [shape for shape in self._shapes if shape.order < order and _near(shape.colour, colour)]
            for why, shapes in (("covered", over), ("alike", alike)):
                if any(covers(shape.box, box) for shape in shapes):
                    self.seen.suspects.append(Suspect(why, item, box))
                    break

    def _bounds(self, item: int, matrix: Matrix) -> Box:
        self._calls.PageObj_GetBounds(item, *self._edges.at)
        one, two, three, four = self._edges.cells
        left, bottom, right, top = one.value, two.value, three.value, four.value
        if matrix is _IDENTITY:
            return left, bottom, right, top
        a, b, c, d, e, f = matrix
        corners = [(a * x + c * y + e, b * x + d * y + f) for x in (left, right) for y in (bottom, top)]
        xs, ys = zip(*corners, strict=True)
        return min(xs), min(ys), max(xs), max(ys)

    def _matrix_of(self, item: int) -> Matrix:
        if not self._calls.PageObj_GetMatrix(item, ctypes.addressof(self._matrix)):
            return _IDENTITY
        a, b, c, d, e, f = self._matrix
        return a, b, c, d, e, f


def covers(box: Box, other: Box) -> bool:
    """The middle of `other` lies in `box`."""
    x, y = (other[0] + other[2]) / 2, (other[1] + other[3]) / 2
    return box[0] <= x <= box[2] and box[1] <= y <= box[3]


def _product(inner: Matrix, outer: Matrix) -> Matrix:
    """What is drawn by `inner` within what is drawn by `outer`."""
    a, b, c, d, e, f = inner
    p, q, r, s, t, u = outer
    return a * p + b * r, a * q + b * s, c * p + d * r, c * q + d * s, e * p + f * r + t, e * q + f * s + u


def _near(colour: int, other: int) -> bool:
    return colour >= 0 and all(abs((colour >> shift & 255) - (other >> shift & 255)) < 12 for shift in (0, 8, 16))


def _pale(colour: int) -> bool:
    return min(colour & 255, colour >> 8 & 255, colour >> 16) >= _PALE
