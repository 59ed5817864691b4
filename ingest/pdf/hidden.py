"""Which texts of a page its reader does not see: those without which the page, drawn, looks the same.

`walk` names the suspects, and most pages have none. Where it has some the page is drawn small, with and without
them. Text that is drawn invisibly over the picture of its words, or below one that fills the page, is the text layer of
a scan, and is there to be read. Where a page cannot be drawn in bounds (its size, its images, its patterns, its time)
the places of shapes and images decide.
"""

import ctypes
import time
from typing import Any

from unabridged.ingest.pdf.calls import calls
from unabridged.ingest.pdf.walk import Box, Seen, Suspect, covers

_OUTRIGHT = frozenset({"tiny", "clear", "off"})
_POINTS = 4_000_000.0  # pixels that are drawn
_SCALE = 1.5  # pixels a point, as far as `_POINTS` goes
_COARSE = 0.4  # below it a line of text leaves no trace
_PIXELS = 60_000_000  # of the page's images together
_SECONDS = 2.0
_SCAN = 1_000_000  # pixels of an image that is the scan of a page
_DIFFERENCE = 20  # of 255, in a colour: less is not seen
_SUSPECTS = 2_000


def hidden(page: Any, seen: Seen, may_draw: bool = True) -> set[int]:
    """Addresses of the text objects that are hidden."""
    found = {suspect.item for suspect in seen.suspects if suspect.why in _OUTRIGHT}
    doubtful = [suspect for suspect in seen.suspects if suspect.why not in _OUTRIGHT]
    if not doubtful:
        return found
    if _text_of_a_scan(seen, doubtful):
        return found | {suspect.item for suspect in doubtful if not _on(seen.images, suspect)}
    drawn = _Drawing.of(page, seen) if may_draw else None
    for suspect in doubtful[:_SUSPECTS]:
        if drawn is None:
            grounds = {"pale": seen.grounds, "unseen": seen.images}.get(suspect.why)
            gone = grounds is not None and not _on(grounds, suspect)
        elif suspect.why == "unseen":
            gone = not (_on(seen.images, suspect) and drawn.inked(suspect.box))
        else:
            gone = not drawn.differs(suspect.box)
            if gone and suspect.why == "covered" and _on(_scans(seen), suspect):
                gone = not drawn.inked(suspect.box)
        if gone:
            found.add(suspect.item)
    return found


def _text_of_a_scan(seen: Seen, doubtful: list[Suspect]) -> bool:
    """A page of images as large as scans are, with nothing but an invisible text: it need not be drawn."""
    return (
        not seen.texts
        and bool(seen.pixels)
        and min(seen.pixels) >= _SCAN
        and all(suspect.why == "unseen" for suspect in doubtful)
    )


def _scans(seen: Seen) -> list[Box]:
    """Images that fill half of the page and more."""
    left, bottom, right, top = seen.page
    least = 0.5 * (right - left) * (top - bottom)
    return [box for box in seen.images if (box[2] - box[0]) * (box[3] - box[1]) >= least]


def _on(boxes: list[Box], suspect: Suspect) -> bool:
    return any(covers(box, suspect.box) for box in boxes)


class _Drawing:
    """The page drawn with all that is on it, and without the suspects."""

    def __init__(self, page: Box, scale: float, full: Any, bare: Any) -> None:
        self._left, _, _, self._top = page
        self._scale = scale
        self._full, self._bare = full, bare

    @classmethod
    def of(cls, page: Any, seen: Seen) -> "_Drawing | None":
        """None for a page that is too large to be drawn, or takes too long."""
        box = seen.page
        width, height = box[2] - box[0], box[3] - box[1]
        scale = min(_SCALE, (_POINTS / max(1.0, width * height)) ** 0.5)
        if scale < _COARSE or min(width, height) * scale < 2 or sum(seen.pixels) > _PIXELS:
            return None
        size = int(width * scale) + 1, int(height * scale) + 1
        full = _draw(page, size)
        if full is None:
            return None
        for suspect in seen.suspects:
            calls().PageObj_SetIsActive(suspect.item, 0)
        bare = _draw(page, size)
        for suspect in seen.suspects:
            calls().PageObj_SetIsActive(suspect.item, 1)
        return cls(box, scale, full, bare) if bare is not None else None

    def differs(self, box: Box) -> bool:
        """Whether the suspects make a difference that is seen there."""
        for y, left, right in self._lines(box):
            one, other = self._full[y, left:right], self._bare[y, left:right]
            if one != other and any(abs(a - b) > _DIFFERENCE for a, b in zip(one, other, strict=True)):
                return True
        return False

    def inked(self, box: Box) -> bool:
        """Whether anything is to be seen there but an even ground."""
        pixels = b"".join(self._bare[y, left:right] for y, left, right in self._lines(box))
        return any(max(pixels[at::4]) - min(pixels[at::4]) > _DIFFERENCE for at in range(3) if pixels[at::4])

    def _lines(self, box: Box) -> list[tuple[int, int, int]]:
        """Rows of pixels of a box, the bytes from where to where."""
        left, right = (max(0, int((x - self._left) * self._scale)) for x in (box[0], box[2] + 1))
        top, bottom = (max(0, int((self._top - y) * self._scale)) for y in (box[3], box[1] - 1))
        bottom = min(bottom, self._full.height)
        return [(y, 4 * min(left, self._full.width), 4 * min(right, self._full.width)) for y in range(top, bottom)]


class _Pixels:
    """A drawn page: `pixels[y, start:end]` are bytes of a row, four a pixel."""

    def __init__(self, data: bytes, width: int, height: int, stride: int) -> None:
        self.width, self.height = width, height
        self._data, self._stride = data, stride

    def __getitem__(self, at: tuple[int, slice]) -> bytes:
        y, part = at
        row = y * self._stride
        return self._data[row + part.start : row + part.stop]


def _draw(page: Any, size: tuple[int, int]) -> _Pixels | None:
    """The page on white, None where it takes too long."""
    import pypdfium2.raw as raw

    width, height = size
    bitmap = raw.FPDFBitmap_CreateEx(width, height, raw.FPDFBitmap_BGRx, None, 0)
    if not bitmap:
        return None
    end = time.monotonic() + _SECONDS
    pause = raw.IFSDK_PAUSE(version=1)
    late = type(pause.NeedToPauseNow)(lambda _: time.monotonic() > end)
    pause.NeedToPauseNow = late
    try:
        raw.FPDFBitmap_FillRect(bitmap, 0, 0, width, height, 0xFFFFFFFF)
        state = raw.FPDF_RenderPageBitmap_Start(bitmap, page.raw, 0, 0, width, height, 0, 0, pause)
        if state != raw.FPDF_RENDER_DONE:
            return None
        stride = raw.FPDFBitmap_GetStride(bitmap)
        data = ctypes.string_at(raw.FPDFBitmap_GetBuffer(bitmap), stride * height)
        return _Pixels(data, width, height, stride)
    finally:
        raw.FPDF_RenderPage_Close(page.raw)
        raw.FPDFBitmap_Destroy(bitmap)
