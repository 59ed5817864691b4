"""Scans made in code: pages of text, drawn, turned, and put into PDFs and image files as pictures alone."""

import io
import math
from typing import Any

import numpy as np
import pypdfium2
from pypdf import PdfWriter
from tests.ingest.made import data, entries, line, pdf, stream

from unabridged.ingest.ocr.image import Gray

LINES = (
    "The harbour committee met on Tuesday to review",
    "the dredging contract of the northern basin.",
    "Spending on the quay rose by eleven percent",
    "and the auditors asked for receipts of 4821 euros.",
)

Pixels = np.ndarray[Any, np.dtype[np.uint8]]


def drawn(lines: tuple[str, ...] = LINES, dpi: int = 200) -> Pixels:
    """A page with these lines of 14 points."""
    content = "".join(line(text, 700 - 30 * number, 14) for number, text in enumerate(lines))
    document = pypdfium2.PdfDocument(data(pdf(content)))
    bitmap = document[0].render(scale=dpi / 72, grayscale=True)
    pixels: Pixels = bitmap.to_numpy().reshape(bitmap.height, bitmap.width).copy()
    document.close()
    return pixels


def turned(pixels: Pixels, degrees: float) -> Pixels:
    """Turned to the left about its middle, on white."""
    height, width = pixels.shape
    angle = math.radians(degrees)
    y, x = np.mgrid[0:height, 0:width] - np.array([height / 2, width / 2]).reshape(2, 1, 1)
    from_x = np.rint(x * math.cos(angle) - y * math.sin(angle) + width / 2).astype(int)
    from_y = np.rint(x * math.sin(angle) + y * math.cos(angle) + height / 2).astype(int)
    inside = (from_x >= 0) & (from_x < width) & (from_y >= 0) & (from_y < height)
    out = np.full_like(pixels, 255)
    out[inside] = pixels[from_y[inside], from_x[inside]]
    return out


def gray(pixels: Pixels, dpi: int = 200) -> Gray:
    """As recognition takes it."""
    return Gray(pixels.shape[1], pixels.shape[0], np.ascontiguousarray(pixels).tobytes(), dpi)


def scanned(*pages: Pixels, text: str = "", dpi: int = 200) -> bytes:
    """A PDF with a picture on each page, and `text` as a content stream on top of the first."""
    writer = pdf(*([text] + [""] * (len(pages) - 1)))
    for page, pixels in zip(writer.pages, pages, strict=True):
        _put(writer, page, pixels, dpi)
    return data(writer)


def _put(writer: PdfWriter, page: Any, pixels: Pixels, dpi: int) -> None:
    height, width = pixels.shape
    picture = stream(np.ascontiguousarray(pixels).tobytes()).flate_encode()
    picture.update(entries(Type="/XObject", Subtype="/Image", Width=width, Height=height))
    picture.update(entries(ColorSpace="/DeviceGray", BitsPerComponent=8))
    page["/Resources"].update(entries(XObject=entries(I=writer._add_object(picture))))
    size = width * 72 / dpi, height * 72 / dpi
    before = page["/Contents"].get_object().get_data()
    content = stream(f"q {size[0]} 0 0 {size[1]} 0 0 cm /I Do Q\n".encode() + before)
    page.update(entries(MediaBox=(0, 0, *map(round, size)), Contents=writer._add_object(content)))


def png(pixels: "np.ndarray[Any, Any]", **options: Any) -> bytes:
    """A PNG file of it, or another format by name."""
    from PIL import Image

    out = io.BytesIO()
    Image.fromarray(pixels).save(out, options.pop("format", "PNG"), **options)
    return out.getvalue()
