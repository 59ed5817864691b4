"""What a PDF holds beside its pages' text: who made it, its printed page numbers, form values, notes, attachments.

Read through pdfium, which copes with more damage than others here. Nothing in this module raises for a broken entry:
the entry is left out, its document is not.
"""

import ctypes
import re
from collections.abc import Iterator
from typing import Any

from unabridged.ingest.document import PartKind
from unabridged.ingest.normalise import normalise, one_line

_NOTES = 2_000  # annotations of one page
_WIDGET, _LINK, _POPUP = 20, 2, 16
_DATE = re.compile(r"D?:?\s*(\d{4})(\d\d)?(\d\d)?(\d\d)?(\d\d)?(\d\d)?\s*(?:([+-])(\d\d)'?(\d\d)?|(Z))?")
_BUTTON = frozenset({"", "Off"})


def metadata(found: dict[str, str]) -> tuple[str, dict[str, str]]:
    """Title and the other facts of a document information dictionary ("Title", "Author", "CreationDate", ...)."""
    meta = {}
    for key, name in (("Author", "author"), ("Subject", "subject"), ("Keywords", "keywords")):
        if value := one_line(found.get(key) or ""):
            meta[name] = value
    for key, name in (("CreationDate", "created"), ("ModDate", "modified")):
        if value := iso_date(found.get(key) or ""):
            meta[name] = value
    return one_line(found.get("Title") or ""), meta


def iso_date(text: str) -> str:
    """ "D:20100802090958-05'00'" as "2010-08-02T09:09:58-05:00"; as much of it as is there, "" for none."""
    match = _DATE.match(text.strip())
    if not match:
        return ""
    year, month, day, hour, minute, second, sign, off_hour, off_minute, zulu = match.groups()
    if not (month and day):
        return "-".join(filter(None, (year, month)))
    if not (1 <= int(month) <= 12 and 1 <= int(day) <= 31):
        return ""
    zone = "+00:00" if zulu else f"{sign}{off_hour}:{off_minute or '00'}" if sign else ""
    return f"{year}-{month}-{day}" + (f"T{hour}:{minute or '00'}:{second or '00'}{zone}" if hour else "")


def notes(page: Any) -> list[tuple[PartKind, str]]:
    """Field values and annotations of a page, each a line: ("form", "Name: Ada"), ("note", "Reviewer: check this")."""
    import pypdfium2.raw as raw

    found = []
    for index in range(min(raw.FPDFPage_GetAnnotCount(page.raw), _NOTES)):
        annotation = raw.FPDFPage_GetAnnot(page.raw, index)
        if not annotation:
            continue
        kind = raw.FPDFAnnot_GetSubtype(annotation)
        if kind not in (_LINK, _POPUP):
            note = _field(raw, page, annotation) if kind == _WIDGET else _note(raw, annotation)
            if note[1]:
                found.append(note)
        raw.FPDFPage_CloseAnnot(annotation)
    return list(dict.fromkeys(found))


def _field(raw: Any, page: Any, annotation: Any) -> tuple[PartKind, str]:
    """A form field's name and value; unset buttons and empty fields are none."""
    form = page.formenv.raw if page.formenv else None
    if form:
        value = _wide(lambda *to: raw.FPDFAnnot_GetFormFieldValue(form, annotation, *to))
        name = _wide(lambda *to: raw.FPDFAnnot_GetFormFieldAlternateName(form, annotation, *to))
        name = name or _wide(lambda *to: raw.FPDFAnnot_GetFormFieldName(form, annotation, *to))
    else:
        value, name = _string(raw, annotation, b"V"), _string(raw, annotation, b"T")
    if value in _BUTTON:
        return PartKind.FORM, ""
    return PartKind.FORM, f"{one_line(name)}: {normalise(value).strip()}" if name else normalise(value).strip()


def _note(raw: Any, annotation: Any) -> tuple[PartKind, str]:
    text = normalise(_string(raw, annotation, b"Contents")).strip()
    author = one_line(_string(raw, annotation, b"T"), 100)
    return PartKind.NOTE, f"{author}: {text}" if text and author else text


def _string(raw: Any, annotation: Any, key: bytes) -> str:
    return _wide(lambda *to: raw.FPDFAnnot_GetStringValue(annotation, key, *to))


def _wide(call: Any) -> str:
    """A UTF-16 string of pdfium's, asked for twice: its length, then itself."""
    size = call(None, 0)
    if size <= 2:
        return ""
    buffer = (ctypes.c_ushort * (size // 2))()
    call(buffer, size)
    return bytes(buffer)[: size - 2].decode("utf-16-le", "replace")


def attachments(document: Any, limit: int) -> Iterator[tuple[str, bytes | None]]:
    """Names and contents of embedded files, at most `limit`; None for one that cannot be read."""
    from pypdfium2 import PdfiumError

    for index in range(min(document.count_attachments(), limit)):
        try:
            attachment = document.get_attachment(index)
            name = safe_name(attachment.get_name()) or f"attachment {index + 1}"
        except PdfiumError:
            yield f"attachment {index + 1}", None
            continue
        try:
            yield name, bytes(attachment.get_data())
        except (PdfiumError, ValueError):
            yield name, None


def safe_name(name: str) -> str:
    """A name without the folders that it may claim to lie in."""
    last = re.split(r"[/\\]", normalise(name).strip())[-1]
    return one_line(last, 200).strip(". ") if set(last) <= {"."} else one_line(last, 200)
