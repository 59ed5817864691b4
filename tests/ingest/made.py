"""PDFs and messages made in code: the smallest files that show one fault each."""

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pypdf import PdfWriter
from pypdf.generic import (
    ArrayObject,
    DecodedStreamObject,
    DictionaryObject,
    FloatObject,
    NameObject,
    NumberObject,
    TextStringObject,
)

from unabridged.ingest.document import Closed, Item, Opened, Page
from unabridged.ingest.extract import read_source
from unabridged.ingest.limits import Limits
from unabridged.ingest.reading import Place, Reading, Source


def pdf(*contents: str) -> PdfWriter:
    """A document with one page for each content stream, Helvetica as /F1."""
    writer = PdfWriter()
    for content in contents:
        page = writer.add_blank_page(612, 792)
        font = entries(Type="/Font", Subtype="/Type1", BaseFont="/Helvetica", Encoding="/WinAnsiEncoding")
        page[NameObject("/Resources")] = entries(Font=entries(F1=font))
        page[NameObject("/Contents")] = writer._add_object(stream(content.encode("latin-1")))
    return writer


def entries(**values: Any) -> DictionaryObject:
    """A dictionary of a PDF. Text that begins with a slash is a name; numbers and lists are what they are."""
    return DictionaryObject({NameObject("/" + key): _object(value) for key, value in values.items()})


def stream(content: bytes, **values: Any) -> DecodedStreamObject:
    """A stream with the entries of its dictionary."""
    made = DecodedStreamObject()
    made.set_data(content)
    made.update(entries(**values))
    return made


def _object(value: Any) -> Any:
    if isinstance(value, str):
        return NameObject(value) if value.startswith("/") else TextStringObject(value)
    if isinstance(value, int):
        return NumberObject(value)
    if isinstance(value, float):
        return FloatObject(value)
    return ArrayObject(map(_object, value)) if isinstance(value, list | tuple) else value


def line(text: str, y: int = 700, size: int = 12) -> str:
    """A content stream that shows a line of text."""
    return f"BT /F1 {size} Tf 72 {y} Td ({text}) Tj ET\n"


def data(writer: PdfWriter) -> bytes:
    """The bytes of a document."""
    out = io.BytesIO()
    writer.write(out)
    return out.getvalue()


def read(
    name: str,
    content: bytes,
    limits: Limits | None = None,
    password: str | None = None,
    passwords: tuple[str, ...] = (),
) -> list[Item]:
    """The items of a file, read in this process."""
    several = (*passwords, *([password] if password else []))
    reading = Reading(limits or Limits(ocr="off"), read_source, passwords=several)
    return list(read_source(Source(name, content), reading, Place()))


def pages(items: list[Item], ref: int = 0) -> list[Page]:
    """The pages of one document."""
    return [item for item in items if isinstance(item, Page) and item.ref == ref]


def opened(items: list[Item]) -> list[Opened]:
    """The documents of a stream."""
    return [item for item in items if isinstance(item, Opened)]


def end(items: list[Item], ref: int = 0) -> Closed:
    """How a document ended."""
    return next(item for item in items if isinstance(item, Closed) and item.ref == ref)


def text(items: list[Item], ref: int = 0) -> str:
    """All the text of a document."""
    return "\n".join(page.text for page in pages(items, ref))


def sound(items: list[Item]) -> None:
    """The stream keeps its rules: unique refs, pages counted without a gap, each document closed, with a reason."""
    open_refs: dict[int, int] = {}
    seen: set[int] = set()
    for item in items:
        if isinstance(item, Opened):
            assert item.ref not in seen
            assert item.parent is None or item.parent in open_refs
            seen.add(item.ref)
            open_refs[item.ref] = 0
        elif isinstance(item, Page):
            open_refs[item.ref] += 1
            assert item.number == open_refs[item.ref]
            assert all(0 <= part.start <= part.end <= len(item.text) for part in item.parts)
        else:
            del open_refs[item.ref]
            assert item.reason or item.status == "read"
    assert not open_refs
    assert seen


def files(folder: Path) -> Iterator[Path]:
    """The files below a folder, in order."""
    return (path for path in sorted(folder.rglob("*")) if path.is_file())
