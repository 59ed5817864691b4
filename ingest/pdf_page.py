"""The text of one PDF page through pdfium: what a reader sees, and what was hidden from him, apart.

Knows pdfium's API and nothing of documents, items or limits but the number of objects that it looks at.
"""

import ctypes
from dataclasses import dataclass
from typing import Any

_TEXT, _PATH, _IMAGE, _SHADING, _FORM = 1, 2, 3, 4, 5
_INVISIBLE = 3  # text render mode "neither fill nor stroke"
_OBJECTS = 20_000  # a page of more is not searched for hidden text beyond them
_TINY = 1.0  # points: nobody reads it
_WHITE = 250

Box = tuple[float, float, float, float]  # left, bottom, right, top


@dataclass(frozen=True)
class PageText:
    """`unmapped` counts glyphs that the font gives no character for. Text is pdfium's, not yet normalised."""

    visible: str
    hidden: str
    images: int
    drawings: int
    unmapped: int


@dataclass
class _Seen:
    """What a walk over the page's objects found."""

    images: list[Box]
    fills: list[Box]  # of paths and shadings that are not white
    drawings: int
    suspects: dict[int, str]  # address of a text object: why it may be hidden
    boxes: dict[int, Box]


def page_text(page: Any) -> PageText:
    """The text of a pypdfium2 page. Turned pages are read as if upright, else their lines come in the wrong order."""
    if page.get_rotation():
        page.set_rotation(0)
    seen = _walk(page)
    textpage = page.get_textpage()
    try:
        text = textpage.get_text_range()
        hidden = _hidden(page, textpage, seen)
        visible, apart = _split(textpage, text, hidden) if hidden else (text, "")
        visible, unmapped = _hyphens(textpage, visible, exact=not hidden)
    finally:
        textpage.close()
    return PageText(visible, apart, len(seen.images), seen.drawings, unmapped)


def _walk(page: Any) -> _Seen:
    """One pass over the objects of the page itself."""
    import pypdfium2.raw as raw

    seen = _Seen([], [], 0, {}, {})
    rgba = [ctypes.c_uint() for _ in range(4)]
    size, matrix = ctypes.c_float(), raw.FS_MATRIX()
    for index in range(min(raw.FPDFPage_CountObjects(page.raw), _OBJECTS)):
        item = raw.FPDFPage_GetObject(page.raw, index)
        kind = raw.FPDFPageObj_GetType(item)
        if kind == _TEXT:
            why = _suspicion(raw, item, rgba, size, matrix)
            if why:
                address = ctypes.addressof(item.contents)
                seen.suspects[address] = why
                seen.boxes[address] = _bounds(raw, item)
        elif kind in (_IMAGE, _FORM):
            seen.images.append(_bounds(raw, item))
        elif kind in (_PATH, _SHADING):
            seen.drawings += 1
            if not _white(raw, item, rgba):
                seen.fills.append(_bounds(raw, item))
    return seen


def _suspicion(raw: Any, item: Any, rgba: list[Any], size: Any, matrix: Any) -> str:
    if raw.FPDFTextObj_GetTextRenderMode(item) == _INVISIBLE:
        return "invisible"
    if raw.FPDFPageObj_GetFillColor(item, *rgba):
        red, green, blue, alpha = (channel.value for channel in rgba)
        if alpha < 8:
            return "transparent"
        if min(red, green, blue) >= _WHITE:
            return "white"
    raw.FPDFTextObj_GetFontSize(item, size)
    raw.FPDFPageObj_GetMatrix(item, matrix)
    height = abs(size.value) * max(abs(matrix.c), abs(matrix.d))
    return "tiny" if height < _TINY else ""


def _white(raw: Any, item: Any, rgba: list[Any]) -> bool:
    if not raw.FPDFPageObj_GetFillColor(item, *rgba):
        return False
    red, green, blue, alpha = (channel.value for channel in rgba)
    return bool(min(red, green, blue) >= _WHITE or alpha < 8)


def _bounds(raw: Any, item: Any) -> Box:
    edges = [ctypes.c_float() for _ in range(4)]
    raw.FPDFPageObj_GetBounds(item, *edges)
    left, bottom, right, top = (edge.value for edge in edges)
    return left, bottom, right, top


def _covers(box: Box, other: Box) -> bool:
    """The middle of `other` lies in `box`."""
    x, y = (other[0] + other[2]) / 2, (other[1] + other[3]) / 2
    return box[0] <= x <= box[2] and box[1] <= y <= box[3]


def _hidden(page: Any, textpage: Any, seen: _Seen) -> set[int]:
    """Addresses of the text objects that a reader does not see; 0 stands for text off the page.

    Invisible text over an image is the text layer of a scan, white text over a dark shape is a table's head: both are
    there to be read.
    """
    hidden = set()
    for address, why in seen.suspects.items():
        box = seen.boxes[address]
        backing = [*seen.images, *seen.fills] if why == "white" else seen.images if why == "invisible" else []
        if not any(_covers(back, box) for back in backing):
            hidden.add(address)
    left, bottom, right, top = page.get_bbox()
    count = textpage.count_chars()
    if count and _outside(textpage, (left, bottom, right, top), count):
        hidden.add(0)
    return hidden


def _outside(textpage: Any, box: Box, count: int) -> bool:
    """Whether some text lies off the page: compares the visible characters in the box with all of them."""
    inside = textpage.get_text_bounded(*_grown(box))
    everything = textpage.get_text_range()
    return sum(map(str.isalnum, inside)) < sum(map(str.isalnum, everything)) and count > 0


def _grown(box: Box) -> Box:
    return box[0] - 2, box[1] - 2, box[2] + 2, box[3] + 2


def _split(textpage: Any, text: str, hidden: set[int]) -> tuple[str, str]:
    """The text taken apart character by character. Spaces and line ends that pdfium made up go with what is before."""
    import pypdfium2.raw as raw

    box = _grown(_page_box(textpage)) if 0 in hidden else None
    visible: list[str] = []
    apart: list[str] = []
    out = visible
    count = textpage.count_chars()
    same = len(text) == count
    for index in range(count):
        at = index if same else raw.FPDFText_GetTextIndexFromCharIndex(textpage.raw, index)
        if not 0 <= at < len(text):
            continue
        item = raw.FPDFText_GetTextObject(textpage.raw, index)
        if item:
            gone = ctypes.addressof(item.contents) in hidden or (box is not None and _off(raw, textpage, index, box))
            if (out is apart) != gone:
                out = apart if gone else visible
                if out and not out[-1].isspace():
                    out.append("\n")
        out.append(text[at])
    return "".join(visible), "".join(apart).strip()


def _page_box(textpage: Any) -> Box:
    left, bottom, right, top = textpage.page.get_bbox()
    return left, bottom, right, top


def _off(raw: Any, textpage: Any, index: int, box: Box) -> bool:
    x, y = ctypes.c_double(), ctypes.c_double()
    if not raw.FPDFText_GetCharOrigin(textpage.raw, index, x, y):
        return False
    return not (box[0] <= x.value <= box[2] and box[1] <= y.value <= box[3])


def _hyphens(textpage: Any, text: str, exact: bool) -> tuple[str, int]:
    """U+FFFE stands for a hyphen at a line's end, where the word is joined, or for a glyph without a character.

    The hyphen stays before a capital or a digit ("Navier-Stokes"). Unmapped glyphs become U+FFFD.
    """
    if "\ufffe" not in text:
        return text, 0
    import pypdfium2.raw as raw

    pieces = text.split("\ufffe")
    out, at, unmapped = [pieces[0]], len(pieces[0]), 0
    for piece in pieces[1:]:
        index = raw.FPDFText_GetCharIndexFromTextIndex(textpage.raw, at) if exact else -1
        joined = raw.FPDFText_IsHyphen(textpage.raw, index) == 1 if exact else piece[:1].isalpha()
        unmapped += not joined
        out.append(("-" if piece[:1].isupper() or piece[:1].isdigit() else "") if joined else "\ufffd")
        out.append(piece)
        at += 1 + len(piece)
    return "".join(out), unmapped
