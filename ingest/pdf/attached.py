"""Files that are attached to a PDF: those of its list and those of its pages, once each.

    for file in attached(document, data, passwords, pinned, limit): file.name, file.data, file.why

pdfium reads them; pypdf where pdfium does not open the document, and where the attachments alone are encrypted (an
Identity crypt filter for everything else), which pdfium opens without asking and gives as they lie there.
"""

import hashlib
import io
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from unabridged.ingest.document import Closed, Item, Kind, Opened, Status
from unabridged.ingest.pdf.extra import safe_name
from unabridged.ingest.pdf.password import forms
from unabridged.ingest.pdf.wide import attachment_name
from unabridged.ingest.reading import Place, Reading, Source

_FAILED = "it cannot be taken out"
_NODES = 1_000  # of a tree of names

# pypdf raises what a file makes it raise, so that everything is caught where it is asked.


@dataclass(frozen=True)
class Attached:
    """A file, or why it is none: `status` and `why`."""

    name: str
    data: bytes = b""
    why: str = ""
    status: Status = Status.READ


def attached(
    document: Any | None, data: bytes, passwords: Iterable[str], pinned: Iterable[Any], limit: int
) -> Iterator[Attached]:
    """At most `limit` files. `document`: pypdfium2's, None where only pypdf opens the file; `pinned`: what
    `notes` found on the pages."""
    if document is None:
        found = _by_pypdf(data, passwords)
    elif _only_they_are_locked(data):
        found = _locked(document, data, tuple(passwords), limit)
    else:
        found = _by_pdfium([*_listed(document, limit), *pinned])
    seen: set[tuple[str, bytes]] = set()
    for number, file in enumerate(found):
        key = file.name, hashlib.sha256(file.data).digest()
        if len(seen) >= limit or number >= 2 * limit:
            return
        if key not in seen or file.why:
            seen.add(key)
            yield file


def children(files: Iterable[Attached], notes: list[str], ref: int, reading: Reading, place: Place) -> Iterator[Item]:
    """The items of files attached to the document `ref` at `place`. What is not read is said in `notes`; what is locked
    is a document that needs a password."""
    for file in files:
        why = file.why or reading.refuses(len(file.data), place.depth + 1)
        if file.status is Status.NEEDS_PASSWORD:
            child = reading.ref()
            yield Opened(ref=child, parent=ref, name=file.name, kind=Kind.OTHER)
            yield Closed(ref=child, status=file.status, reason=file.why)
        elif why:
            notes.append(f"attachment {file.name} not read: {why}")
        else:
            yield from reading.child(Source(file.name, file.data), reading, Place(parent=ref, depth=place.depth + 1))


def _listed(document: Any, limit: int) -> Iterator[Any]:
    from pypdfium2 import PdfiumError

    for index in range(min(document.count_attachments(), limit)):
        try:
            yield document.get_attachment(index)
        except PdfiumError:
            yield None


def _by_pdfium(attachments: Iterable[Any]) -> Iterator[Attached]:
    from pypdfium2 import PdfiumError

    for number, attachment in enumerate(attachments, 1):
        name = f"attachment {number}"
        try:
            if attachment is not None:
                name = safe_name(attachment_name(attachment)) or name
                yield Attached(name, bytes(attachment.get_data()))
                continue
        except (PdfiumError, ValueError):
            pass  # said below, by its name if it has one
        yield Attached(name, why=_FAILED, status=Status.DAMAGED)


def _only_they_are_locked(data: bytes) -> bool:
    """Attachments are encrypted, and pages are not."""
    if b"/EFF" not in data or b"/Encrypt" not in data:
        return False
    try:
        rules = _reader(data).trailer["/Encrypt"].get_object()
        pages, files = rules.get("/StmF", "/Identity"), rules.get("/EFF", "/Identity")
    except Exception:
        return False
    return bool(pages == "/Identity" and files != "/Identity")


def _reader(data: bytes) -> Any:
    import pypdf

    return pypdf.PdfReader(io.BytesIO(data))


def _opened(data: bytes, passwords: Iterable[str]) -> Any | None:
    """pypdf's reader, None where no password opens it. Raises what the file makes it raise."""
    reader = _reader(data)
    return reader if not reader.is_encrypted or any(map(reader.decrypt, ("", *forms(passwords)))) else None


def _locked(document: Any, data: bytes, passwords: tuple[str, ...], limit: int) -> Iterator[Attached]:
    """Attachments of their own encryption. Without the password their names are known, which are not encrypted."""
    try:
        reader = _opened(data, passwords)
    except Exception:
        reader = None
    if reader is not None:
        yield from _decrypted(reader)
        return
    reason = "no password given opens it" if passwords else "needs a password"
    for file in _by_pdfium(_listed(document, limit)):
        yield Attached(file.name, why=reason, status=Status.NEEDS_PASSWORD)


def _decrypted(reader: Any) -> Iterator[Attached]:
    """pypdf finds the key, and has the cipher, of attachments but does not use it: it is applied here."""
    for specification in _specifications(reader):
        name = "attachment"
        try:
            name = safe_name(str(specification.get("/UF") or specification.get("/F"))) or name
            entry = specification["/EF"]
            place = entry.raw_get("/F" if "/F" in entry else "/UF")
            stream = place.get_object()
            cipher = reader._encryption._make_crypt_filter(place.idnum, place.generation).ef_crypt
            stream._data = cipher.decrypt(stream._data)
            yield Attached(name, bytes(stream.get_data()))
        except Exception:
            yield Attached(name, why=_FAILED, status=Status.DAMAGED)


def _specifications(reader: Any) -> list[Any]:
    """The file specifications of the name tree."""
    try:
        waiting = [reader.trailer["/Root"]["/Names"]["/EmbeddedFiles"]]
        found: list[Any] = []
        for _ in range(_NODES):
            if not waiting:
                break
            node = waiting.pop().get_object()
            waiting += list(node.get("/Kids", []))[:_NODES]
            found += [one.get_object() for one in list(node.get("/Names", []))[1 : 2 * _NODES : 2]]
        return found
    except Exception:
        return []


def _by_pypdf(data: bytes, passwords: Iterable[str]) -> Iterator[Attached]:
    try:
        reader = _opened(data, passwords)
    except Exception:  # without a catalogue there are no attachments
        return
    for number, file in enumerate(_files(reader), 1):
        name = f"attachment {number}"
        try:
            name = safe_name(str(file.name)) or name
            yield Attached(name, bytes(file.content))
        except Exception:
            yield Attached(name, why=_FAILED, status=Status.DAMAGED)


def _files(reader: Any) -> Iterator[Any]:
    try:
        yield from reader.attachment_list if reader else ()
    except Exception:  # a broken name tree: what came before is there
        return
