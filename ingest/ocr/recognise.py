"""Text out of images of pages, by what is installed for it: tesseract, or RapidOCR of the extra `[ocr]`.

    gray = Gray(width, height, rows, dpi)
    found = recognise(gray, limits)         # text in reading order, confidence, which engine

`recognise` never raises for an image: what went wrong is `failure`. Engines are looked for once a process, and loaded
with the first page. Where both are installed tesseract reads, and RapidOCR is asked for what it read badly. An image is
turned upright before: skew by `ocr.image`, quarter turns by the engines.
"""

import hashlib
import importlib.util
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from unabridged.ingest.limits import Limits
from unabridged.ingest.ocr.image import Gray

_SEEN = 256  # images
_NOISE = 0.35  # confidence below which what came out is no text
_NOTHING = "no text was found in the image"

INSTALL = "install Debian's tesseract-ocr or unabridged[ocr]"


class OcrFailed(Exception):
    """An image could not be recognised; the message says why, for people."""


@dataclass(frozen=True)
class Recognised:
    """What was found in an image. No text and no failure: the image is blank. `confidence` is the engine's own, 0 to
    1, by the length of words; `extractor` its name, version and languages. `doubtful`: for this engine that is little,
    so that another is asked and the page is reported."""

    text: str = ""
    confidence: float = 0.0
    extractor: str = ""
    doubtful: bool = False
    failure: str = ""


Engine = Callable[[Gray, Limits], Recognised]

# The same logo may hang on thousands of messages: what was found last is kept while the process lives.
_seen: dict[tuple[bytes, int, tuple[str, ...]], Recognised] = {}


def missing(limits: Limits) -> str:
    """Why no image is read here, with the way out; "" where images are."""
    if limits.ocr == "off":
        return "OCR is off: set ingest.ocr to auto"
    return "" if installed() else INSTALL


@cache
def installed() -> tuple[str, ...]:
    """The engines that are there, the first choice first."""
    found = []
    if shutil.which("tesseract"):
        found.append("tesseract")
    if importlib.util.find_spec("rapidocr") and importlib.util.find_spec("onnxruntime"):
        found.append("rapidocr")
    return tuple(found)


def recognise(image: Gray, limits: Limits) -> Recognised:
    """The text of an image. Takes seconds; at most `limits.ocr_seconds` of processor time for each engine."""
    if why := missing(limits):
        return Recognised(failure=why)
    key = hashlib.sha256(image.rows).digest(), image.width, limits.ocr_languages
    if key in _seen:
        return _seen[key]
    found = _recognised(image, limits)
    if found.failure in ("", _NOTHING):  # another failure may have been the machine's
        _seen[key] = found
        if len(_seen) > _SEEN:
            del _seen[next(iter(_seen))]
    return found


def _recognised(image: Gray, limits: Limits) -> Recognised:
    from unabridged.ingest.ocr.image import blank, straightened

    level = straightened(image)
    found = _best(level, limits)
    if level is not image and not found.failure and found.confidence < _NOISE:
        found = _best(image, limits)  # what was taken for lines were edges of a picture
    if found.failure or (found.text and found.confidence >= _NOISE):
        return found
    failure = "" if blank(image) else _NOTHING
    return Recognised(extractor=found.extractor, failure=failure)


def _best(image: Gray, limits: Limits) -> Recognised:
    """What the engines make of an image, by the first that reads it well."""
    best: Recognised | None = None
    for name in installed():
        found = _tried(name, image, limits)
        if found.text and not found.doubtful:
            return found
        if best is None or best.failure or len(found.text) * found.confidence > len(best.text) * best.confidence:
            best = found
    assert best is not None
    return best


def _tried(name: str, image: Gray, limits: Limits) -> Recognised:
    try:
        return _engine(name)(image, limits)
    except OcrFailed as error:
        return Recognised(failure=str(error), extractor=name)


def _engine(name: str) -> Engine:
    if name == "tesseract":
        from unabridged.ingest.ocr.tesseract import read

        return read
    from unabridged.ingest.ocr.rapid import read as read_rapid

    return read_rapid
