"""Values of an XFA form, the XML that some PDF forms are instead of pages and fields.

pdfium does not draw such forms: their page says "Please wait". What was filled in lies in their packet "datasets"; its
values become lines "name: value" of the first page, as far as fields of the page do not say them.
"""

import ctypes
from collections.abc import Iterable, Iterator
from typing import Any

from unabridged.ingest.document import PartKind
from unabridged.ingest.office.xmlfeed import XmlError, feed
from unabridged.ingest.pdf.notes import Note
from unabridged.ingest.pdf.wide import octets
from unabridged.ingest.texts.normalise import normalise, one_line

_XFA = (2, 3)  # pdfium's types of forms
_DATA = b"datasets"
_BYTES = 8 << 20
_VALUES = 5_000
_PIECE = 1 << 16


def values(document: Any, known: Iterable[Note]) -> list[Note]:
    """The values that `known` does not hold yet, in the order of the form."""
    import pypdfium2.raw as raw

    if raw.FPDF_GetFormType(document.raw) not in _XFA:
        return []
    said = "\n".join(line for _, line in known)
    found = _read(_packet(raw, document))
    return [(PartKind.FORM, f"{name}: {value}") for name, value in dict.fromkeys(found) if value not in said]


def _packet(raw: Any, document: Any) -> bytes:
    for index in range(min(raw.FPDF_GetXFAPacketCount(document.raw), 100)):
        if octets(lambda *to, at=index: raw.FPDF_GetXFAPacketName(document.raw, at, *to)).rstrip(b"\0") != _DATA:
            continue
        length = ctypes.c_ulong()
        raw.FPDF_GetXFAPacketContent(document.raw, index, None, 0, length)
        if not 0 < length.value <= _BYTES:
            return b""
        content = ctypes.create_string_buffer(length.value)
        raw.FPDF_GetXFAPacketContent(document.raw, index, content, length.value, length)
        return content.raw
    return b""


class _Leaves:
    """Names and texts of the elements that hold no others."""

    def __init__(self) -> None:
        self.found: list[tuple[str, str]] = []
        self._text: list[str] = []
        self._leaf = False

    def start(self, name: str, attributes: dict[str, str]) -> None:
        """An element begins."""
        self._text, self._leaf = [], True

    def end(self, name: str) -> None:
        """An element ends."""
        value = normalise("".join(self._text)).strip()
        if self._leaf and value and len(self.found) < _VALUES:
            self.found.append((one_line(name, 100), value))
        self._leaf = False

    def text(self, data: str) -> None:
        """Characters between tags."""
        self._text.append(data)


def _read(packet: bytes) -> list[tuple[str, str]]:
    leaves = _Leaves()
    try:
        for _ in feed(_pieces(packet), leaves):
            pass
    except XmlError:
        return leaves.found  # what came before the damage
    return leaves.found


def _pieces(data: bytes) -> Iterator[bytes]:
    return (data[at : at + _PIECE] for at in range(0, len(data), _PIECE))
