"""Recognition of PDF pages: which pages, drawn how, and how what was found joins the text layer.

A page is drawn as a reader sees it, so that broken text layers, scans in strips and pages of several images are all
alike. Pages of any size are drawn with at most `ocr.image.PIXELS`.
"""

import re
from dataclasses import replace
from typing import Any

from unabridged.ingest.document import Flag
from unabridged.ingest.ocr import recognise as ocr
from unabridged.ingest.ocr.image import PIXELS, Gray
from unabridged.ingest.ocr.recognise import Recognised
from unabridged.ingest.reading import Reading
from unabridged.ingest.texts.normalise import normalise

_DPI = 300
_PICTURE = 0.1  # share of a page under images: less is a logo
_KNOWN = 0.8  # share of a line's words that the text layer has too
_WORD = re.compile(r"\w+")


def wanted(flags: tuple[Flag, ...], covered: float, reading: Reading) -> bool:
    """Whether a page with these flags, so much of it under images, is to be recognised."""
    if reading.limits.ocr == "off":
        return False
    unusable = Flag.SCANNED in flags or Flag.GARBLED in flags
    return unusable or (reading.limits.ocr == "all" and covered >= _PICTURE)


def recognised(page: Any, reading: Reading) -> Recognised:
    """What stands on a page of pypdfium2, normalised."""
    if why := ocr.missing(reading.limits):
        return Recognised(failure=why)
    reading.allow(reading.limits.ocr_seconds)
    found = ocr.recognise(_drawn(page), reading.limits)
    text = normalise(found.text[: reading.limits.page_chars]).strip()
    return replace(found, text=text)


def _drawn(page: Any) -> Gray:
    import numpy as np

    width, height = page.get_size()
    scale = min(_DPI / 72, (PIXELS / max(1.0, width * height)) ** 0.5)
    bitmap = page.render(scale=scale, grayscale=True)
    try:
        pixels = np.ascontiguousarray(bitmap.to_numpy().reshape(bitmap.height, bitmap.width))
        return Gray(bitmap.width, bitmap.height, pixels.tobytes(), max(70, round(72 * scale)))
    finally:
        bitmap.close()


def added(layer: str, found: str) -> str:
    """The recognised lines that the text layer has not already."""
    known = set(_WORD.findall(layer.casefold()))
    lines = [line for line in found.splitlines() if not _has(known, line)]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()


def _has(known: set[str], line: str) -> bool:
    words = _WORD.findall(line.casefold())
    return bool(words) and sum(word in known for word in words) >= _KNOWN * len(words)
