"""What kind of document a ZIP file is, by what lies in it, and the reader for it. Its name decides nothing."""

import io
from collections.abc import Callable, Iterator
from importlib import import_module

from unabridged.ingest.archives.zipfiles import Zip, ZipError
from unabridged.ingest.document import Item, Status
from unabridged.ingest.reading import Place, Reading, Source, Unreadable

Inner = Callable[[Zip, Source, Reading, Place], Iterator[Item]]

_HEAD = 1 << 20  # bytes of a list of contents that are looked at
# What the list of an Office package says its main part is: reader, or what it is called and the way out.
_OFFICE = (
    (b"wordprocessingml", "office.docx"),
    (b"spreadsheetml", "office.xlsx"),
    (b"presentationml", "office.pptx"),
    (b"ms-word", "office.docx"),
    (b"ms-excel.sheet.binary", "Excel binary workbook (.xlsb): save it as .xlsx"),
    (b"ms-excel", "office.xlsx"),
    (b"ms-powerpoint", "office.pptx"),
    (b"ms-visio", "Visio drawing: export it as PDF"),
    (b"ms-package.xps", "XPS document: print it as PDF"),
)
_USUAL = (
    ("word/document.xml", "office.docx"),
    ("xl/workbook.xml", "office.xlsx"),
    ("ppt/presentation.xml", "office.pptx"),
)
_MIME = (
    (b"application/epub+zip", "office.epub"),
    (b"opendocument.text", "office.odf"),
    (b"opendocument.spreadsheet", "office.odf"),
    (b"opendocument.presentation", "office.odf"),
    (b"opendocument.graphics", "office.odf"),
    (b"application/vnd.oasis.opendocument", "OpenDocument file of a kind that is not read: export it as PDF"),
)
_OTHERS = (
    ("META-INF/MANIFEST.MF", "Java archive (a program)"),
    ("AndroidManifest.xml", "Android program"),
    ("Index/Document.iwa", "Apple iWork document: export it as PDF or to Office"),
    ("Index.zip", "Apple iWork document: export it as PDF or to Office"),
    ("FixedDocSeq.fdseq", "XPS document: print it as PDF"),
)


def read(source: Source, reading: Reading, place: Place) -> Iterator[Item]:
    """The document that the file is, or the files of an archive. Raises Unreadable."""
    archive = Zip(source.file or io.BytesIO(source.data), reading.passwords)
    if archive.damage and not archive.members:
        raise Unreadable(Status.DAMAGED, "damaged: it begins as no file of its name does, and holds no part of one")
    name = sort(archive)
    if " " in name:
        raise Unreadable(Status.UNSUPPORTED, f"{name}: not read")
    reader: Inner = import_module(f"unabridged.ingest.{name}").read_zip
    yield from reader(archive, source, reading, place)


def sort(archive: Zip) -> str:
    """The reader's module, or what the file is where there is none (recognised by its spaces)."""
    if listed := _peek(archive, "[Content_Types].xml"):
        main = next((line for line in listed.split(b"<") if b"main+xml" in line or b".main" in line), b"")
        if found := next((name for mark, name in _OFFICE if mark in main), ""):
            return found
        if found := next((name for mark, name in _OFFICE if mark in listed and " " in name), ""):
            return found
    for part, name in _USUAL:
        if archive.find(part):
            return name
    mime = _peek(archive, "mimetype") or _peek(archive, "META-INF/manifest.xml")
    if found := next((name for mark, name in _MIME if mark in mime), ""):
        return found
    if archive.find("META-INF/container.xml"):
        return "office.epub"
    if archive.find("content.xml") and archive.find("META-INF/manifest.xml"):
        return "office.odf"
    return next((name for part, name in _OTHERS if archive.find(part)), "archives.archive")


def _peek(archive: Zip, name: str) -> bytes:
    """The beginning of a member, as much as can be had."""
    member = archive.find(name)
    data = b""
    if member is None:
        return data
    try:
        for piece in archive.pieces(member):
            data += piece
            if len(data) >= _HEAD:
                break
    except ZipError:
        return data  # what is wrong with it is said by the reader
    return data
