"""The text of one PDF page through pdfium: what a reader sees, and what was hidden from him, apart.

Knows pdfium's API and nothing of documents, items or limits but the number of objects that it looks at.
"""

import ctypes
import re
from dataclasses import dataclass
from typing import Any

_TEXT, _PATH, _IMAGE, _SHADING, _FORM = 1, 2, 3, 4, 5
_INVISIBLE = 3  # text render mode "neither fill nor stroke"
_OBJECTS = 20_000  # a page of more is not searched for hidden text beyond them
_TINY = 1.0  # points: nobody reads it
_WHITE = 250
_LEVELS = 2
_HYPHEN = "\x02"
_LINE_END = re.compile("\x02(?=[A-ZÄÖÜ0-9])")

Box = tuple[float, float, float, float]  # left, bottom, right, top


@dataclass(frozen=True)
class PageText:
    """`objects` counts what is on the page, `covered` is the share of the page under images, `unmapped` counts glyphs
    that the font gives no character for. Text is pdfium's, not yet normalised."""

    visible: str
    hidden: str
    objects: int
    images: int
    covered: float
    unmapped: int


@dataclass
class _Seen:
    """What a walk over the page's objects found. Boxes of what lies in a form are those of the form."""

    objects: int
    images: list[Box]
    shapes: list[tuple[Any, Box | None]]  # paths and shadings, looked at only where white text may lie on them
    suspects: dict[int, tuple[str, Box]]  # address of a text object: why it may be hidden, and where it is


def page_text(page: Any) -> PageText:
    """The text of a pypdfium2 page. Turned pages are read as if upright, else their lines come in the wrong order."""
    if page.get_rotation():
        page.set_rotation(0)
    seen = _walk(page)
    textpage = page.get_textpage()
    try:
        text, unmapped = _told_apart(textpage, _units(textpage.get_text_range()))
        hidden = _hidden(page, textpage, text, seen)
        visible, apart = _split(textpage, text, hidden) if hidden else (text, "")
    finally:
        textpage.close()
    covered = _covered(page, seen.images)
    return PageText(_joined(visible), _joined(apart), seen.objects, len(seen.images), covered, unmapped)


def _covered(page: Any, images: list[Box]) -> float:
    if not images:
        return 0.0
    left, bottom, right, top = _page_box(page)
    area = max(1.0, (right - left) * (top - bottom))
    total: float = sum(max(0.0, r - x) * max(0.0, t - y) for x, y, r, t in images[:200])
    return min(1.0, total / area)


def _walk(page: Any) -> _Seen:
    """One pass over the objects of the page and, two levels deep, of its forms."""
    import pypdfium2.raw as raw

    seen = _Seen(raw.FPDFPage_CountObjects(page.raw), [], [], {})
    rgba = [ctypes.c_uint() for _ in range(4)]
    size, matrix = ctypes.c_float(), raw.FS_MATRIX()
    forms: list[tuple[Any, Box, int]] = []
    left = _OBJECTS

    def look(item: Any, form: Box | None, level: int) -> None:
        kind = raw.FPDFPageObj_GetType(item)
        if kind == _TEXT:
            if why := _suspicion(raw, item, rgba, size, matrix, form is None):
                seen.suspects[ctypes.addressof(item.contents)] = why, form or _bounds(raw, item)
        elif kind == _IMAGE:
            seen.images.append(form or _bounds(raw, item))
        elif kind == _FORM:
            forms.append((item, form or _bounds(raw, item), level + 1))
        else:
            seen.shapes.append((item, form))

    for index in range(min(seen.objects, left)):
        look(raw.FPDFPage_GetObject(page.raw, index), None, 0)
        left -= 1
    while forms and left > 0:
        form, box, level = forms.pop()
        count = raw.FPDFFormObj_CountObjects(form) if level <= _LEVELS else 0
        for index in range(min(count, left)):
            look(raw.FPDFFormObj_GetObject(form, index), box, level)
            left -= 1
    return seen


def _suspicion(raw: Any, item: Any, rgba: list[Any], size: Any, matrix: Any, measured: bool) -> str:
    if raw.FPDFTextObj_GetTextRenderMode(item) == _INVISIBLE:
        return "invisible"
    if raw.FPDFPageObj_GetFillColor(item, *rgba):
        if rgba[3].value < 8:
            return "transparent"
        if rgba[0].value >= _WHITE and rgba[1].value >= _WHITE and rgba[2].value >= _WHITE:
            return "white"
    if not measured:
        return ""
    raw.FPDFTextObj_GetFontSize(item, size)
    raw.FPDFPageObj_GetMatrix(item, matrix)
    height = abs(size.value) * max(abs(matrix.c), abs(matrix.d))
    return "tiny" if height < _TINY else ""


def _fills(seen: _Seen) -> list[Box]:
    """Where shapes lie that are not white."""
    import pypdfium2.raw as raw

    rgba = [ctypes.c_uint() for _ in range(4)]
    return [form or _bounds(raw, item) for item, form in seen.shapes if not _white(raw, item, rgba)]


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


def _hidden(page: Any, textpage: Any, text: str, seen: _Seen) -> set[int]:
    """Addresses of the text objects that a reader does not see; 0 stands for text off the page.

    Invisible text over an image is the text layer of a scan, white text over a dark shape is a table's head: both are
    there to be read.
    """
    hidden = set()
    fills = _fills(seen) if any(why == "white" for why, _ in seen.suspects.values()) else []
    for address, (why, box) in seen.suspects.items():
        backing = [*seen.images, *fills] if why == "white" else seen.images if why == "invisible" else []
        if not any(_covers(back, box) for back in backing):
            hidden.add(address)
    if text and _outside(page, textpage, text):
        hidden.add(0)
    return hidden


def _outside(page: Any, textpage: Any, text: str) -> bool:
    """Whether some text lies off the page."""
    inside = _units(textpage.get_text_bounded(*_grown(_page_box(page))))
    return len(inside) < len(text) and sum(map(str.isalnum, inside)) < sum(map(str.isalnum, text))


def _grown(box: Box) -> Box:
    return box[0] - 2, box[1] - 2, box[2] + 2, box[3] + 2


def _split(textpage: Any, text: str, hidden: set[int]) -> tuple[str, str]:
    """The text taken apart character by character. Spaces and line ends that pdfium made up go with what is before."""
    import pypdfium2.raw as raw

    box = _grown(_page_box(textpage.page)) if 0 in hidden else None
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
            gone = ctypes.addressof(item.contents) in hidden or (
                box is not None and _off(raw, textpage, item, index, box)
            )
            if (out is apart) != gone:
                out = apart if gone else visible
                if out and not out[-1].isspace():
                    out.append("\n")
        out.append(text[at])
    return "".join(visible), "".join(apart).strip()


def _page_box(page: Any) -> Box:
    left, bottom, right, top = page.get_bbox()
    return left, bottom, right, top


def _off(raw: Any, textpage: Any, item: Any, index: int, box: Box) -> bool:
    """The character is off the page, and so is all of its object: a line that runs over the edge stays whole."""
    x, y = ctypes.c_double(), ctypes.c_double()
    if not raw.FPDFText_GetCharOrigin(textpage.raw, index, x, y):
        return False
    if box[0] <= x.value <= box[2] and box[1] <= y.value <= box[3]:
        return False
    left, bottom, right, top = _bounds(raw, item)
    return left > box[2] or right < box[0] or bottom > box[3] or top < box[1]


def _units(text: str) -> str:
    """The text as UTF-16 units, which is how pdfium counts: characters beyond U+FFFF become surrogate pairs."""
    if not text or max(text) < "\U00010000":
        return text
    data = memoryview(text.encode("utf-16-le")).cast("H")
    return "".join(map(chr, data))


def _told_apart(textpage: Any, text: str) -> tuple[str, int]:
    """U+FFFE stands for a hyphen at a line's end, where pdfium joins the word, or for a glyph without a character.
    The first becomes _HYPHEN, the second U+FFFD and is counted; the length stays."""
    if "\ufffe" not in text:
        return text, 0
    import pypdfium2.raw as raw

    out, unmapped = list(text), 0
    at = text.find("\ufffe")
    while at >= 0:
        index = raw.FPDFText_GetCharIndexFromTextIndex(textpage.raw, at)
        joined = raw.FPDFText_IsHyphen(textpage.raw, index) == 1
        out[at] = _HYPHEN if joined else "\ufffd"
        unmapped += not joined
        at = text.find("\ufffe", at + 1)
    return "".join(out), unmapped


def _joined(text: str) -> str:
    """The hyphen goes, but stays before a capital or a digit ("Navier-Stokes")."""
    return _LINE_END.sub("-", text).replace(_HYPHEN, "") if _HYPHEN in text else text
