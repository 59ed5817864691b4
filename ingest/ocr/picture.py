"""Image files to items: a page for each picture of a TIFF file, one of the others, with what is recognised in it.

PNG, JPEG, TIFF, WebP, GIF and BMP, opened by Pillow (extra `[ocr]`). Pictures are turned as their camera says and small
print is enlarged. Without OCR a picture is a page that is flagged SCANNED, with the way out in the reason.
"""

import io
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

from unabridged.ingest.document import Closed, Flag, Item, Kind, Page, Status
from unabridged.ingest.ocr import recognise as ocr
from unabridged.ingest.ocr.image import PIXELS, Gray
from unabridged.ingest.ocr.recognise import Recognised
from unabridged.ingest.pdf.extra import iso_date
from unabridged.ingest.reading import Place, Reading, Source, Unreadable, spoken
from unabridged.ingest.texts.normalise import normalise

_FORMATS = ("PNG", "JPEG", "TIFF", "WEBP", "GIF", "BMP")
_MOST_PIXELS = 300_000_000  # of one picture, in any colours: a plan of A0 at 400 dpi in gray
_ICON = 48 * 48  # pixels: no text has room in so few
_SMALL = 2_400  # pixels of the longer side: print on a page of so many is too small for engines
_SCAN_DPI = 200  # from here on print is large enough
_TAKEN, _CHANGED = 0x9003, 0x0132  # EXIF: when
_EXIF = 0x8769
_PILLOW = "pillow"
_DOUBT, _CUT = "recognised with doubt", "its end is missing"


def read(source: Source, reading: Reading, place: Place) -> Iterator[Item]:
    """The items of an image file. Raises Unreadable where it cannot be opened."""
    picture = _opened(source, reading)
    ref = reading.ref()
    yield source.opened(ref, place, Kind.IMAGE, meta=_meta(picture) if picture else None)
    total = min(_frames(picture), reading.limits.pages)
    reading.expect(ref, total)
    problems: dict[str, list[int]] = {}
    texts = 0
    for number in range(1, total + 1):
        found = _recognised(picture, number, reading)
        texts += bool(found.text)
        why = found.failure or (_DOUBT if found.doubtful else "")
        if why:
            problems.setdefault(why, []).append(number)
        yield _page(ref, number, found)
    yield _closed(ref, total, texts, problems)


def _opened(source: Source, reading: Reading) -> Any | None:
    """Pillow's image, None where nothing is to be recognised."""
    if ocr.missing(reading.limits):
        return None
    try:
        from PIL import Image, UnidentifiedImageError
    except ImportError:
        return None
    Image.MAX_IMAGE_PIXELS = None  # the limit here is ours, and an error
    try:
        picture = Image.open(io.BytesIO(source.data), formats=_FORMATS)
    except UnidentifiedImageError as error:
        raise Unreadable(Status.DAMAGED, "a damaged image: its header cannot be read") from error
    except Exception as error:  # Pillow raises what the file makes it raise
        raise Unreadable(Status.DAMAGED, f"a damaged image: {str(error)[:200]}") from error
    return picture


def _missing(reading: Reading) -> str:
    return ocr.missing(reading.limits) or "install unabridged[ocr]"


def _frames(picture: Any | None) -> int:
    """Pictures that are pages: those of a TIFF file. Of an animation it is the first."""
    if picture is None or picture.format != "TIFF":
        return 1
    with suppress(Exception):  # a broken chain of directories: what comes before is there
        return max(1, int(picture.n_frames))
    return 1


def _meta(picture: Any) -> dict[str, str]:
    meta = {"pixels": f"{picture.width} x {picture.height}"}
    with suppress(Exception):  # EXIF data are the least trustworthy part of an image
        exif = picture.getexif()
        when = exif.get_ifd(_EXIF).get(_TAKEN) or exif.get(_CHANGED) or ""
        if created := iso_date(str(when).replace(":", "").replace(" ", "")):
            meta["created"] = created
    return meta


def _recognised(picture: Any | None, number: int, reading: Reading) -> Recognised:
    if picture is None:
        return Recognised(failure=_missing(reading))
    if picture.width * picture.height < _ICON:
        return Recognised(extractor=_PILLOW)
    try:
        cut = _load(picture, number)
        gray = _gray(picture)
    except _TooLarge as error:
        return Recognised(failure=str(error), extractor=_PILLOW)
    except MemoryError:
        raise
    except Exception as error:
        return Recognised(failure=f"damaged: {str(error)[:200]}", extractor=_PILLOW)
    reading.allow(reading.limits.ocr_seconds)
    found = ocr.recognise(gray, reading.limits)
    return replace(found, failure=_CUT) if cut and not found.failure else found


class _TooLarge(Exception):
    """More pixels than are unpacked."""


def _load(picture: Any, number: int) -> bool:
    """Unpacks one picture, and tells whether its end is missing: what is there of it is read."""
    from PIL import ImageFile

    picture.seek(number - 1)
    if picture.width * picture.height > _MOST_PIXELS:
        raise _TooLarge(f"{picture.width:,} x {picture.height:,} pixels are more than are unpacked")
    ImageFile.LOAD_TRUNCATED_IMAGES = False
    try:
        picture.load()
    except OSError:
        ImageFile.LOAD_TRUNCATED_IMAGES = True
        picture.load()
        return True
    return False


def _gray(picture: Any) -> Gray:
    """The picture upright, in shades of gray on white, of a size at which print is read well."""
    from PIL import Image, ImageOps

    dpi = _dpi(picture)
    frame = ImageOps.exif_transpose(picture)
    if frame.has_transparency_data:
        frame = frame.convert("RGBA")
        white = Image.new("RGBA", frame.size, "white")
        white.alpha_composite(frame)
        frame = white
    if frame.mode.startswith(("I", "F")):  # 16 bits and more a pixel
        frame = _eight_bits(frame)
    frame = frame.convert("L")
    scale = _scale(frame.width, frame.height, dpi)
    if scale != 1:
        size = (max(1, round(frame.width * scale)), max(1, round(frame.height * scale)))
        frame = frame.resize(size, Image.Resampling.LANCZOS if scale < 1 else Image.Resampling.BICUBIC)
    return Gray(frame.width, frame.height, frame.tobytes(), min(600, max(70, round((dpi or 150) * scale))))


def _eight_bits(frame: Any) -> Any:
    import numpy as np
    from PIL import Image

    values = np.asarray(frame, dtype=np.float32)
    low, high = float(values.min()), float(values.max())
    return Image.fromarray(((values - low) * (255 / max(1.0, high - low))).astype(np.uint8))


def _scale(width: int, height: int, dpi: float) -> float:
    if width * height > PIXELS:
        return float((PIXELS / (width * height)) ** 0.5)
    return 2.0 if dpi < _SCAN_DPI and max(width, height) < _SMALL else 1.0


def _dpi(picture: Any) -> float:
    """Dots an inch, 0 where the file says none that can be."""
    with suppress(Exception):
        dpi = float(picture.info.get("dpi", (0, 0))[0])
        return dpi if 50 <= dpi <= 2_400 and dpi != 72 else 0.0
    return 0.0


def _page(ref: int, number: int, found: Recognised) -> Page:
    text = normalise(found.text).strip()
    if text:
        flags: tuple[Flag, ...] = (Flag.OCR,)
    else:
        flags = (Flag.SCANNED,) if found.failure else (Flag.EMPTY,)
    score = round(found.confidence, 3) if text else 0.0
    return Page(ref=ref, number=number, text=text, flags=flags, extractor=found.extractor, score=score)


def _closed(ref: int, total: int, texts: int, problems: dict[str, list[int]]) -> Closed:
    reasons = [f"{spoken(numbers)} {_said(why)}" if total > 1 else _said(why) for why, numbers in problems.items()]
    if not texts:
        return Closed(ref=ref, status=Status.NO_TEXT, reason="; ".join(reasons) or "a blank image")
    return Closed(ref=ref, status=Status.PARTIAL if reasons else Status.READ, reason="; ".join(reasons))


def _said(why: str) -> str:
    return why if why in (_DOUBT, _CUT) else f"not recognised: {why}"
