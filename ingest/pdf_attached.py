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
from unabridged.ingest.pdf_extra import safe_name
from unabridged.ingest.pdf_password import prepared
from unabridged.ingest.reading import Place, Reading, Source

_FAILED = "it cannot be taken out"


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
    `pdf_notes` found on the pages."""
    if document is None or _only_they_are_locked(data):
        found = _by_pypdf(data, passwords)
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
                name = safe_name(attachment.get_name()) or name
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
    except Exception:  # pypdf raises what the file makes it raise
        return False
    return bool(pages == "/Identity" and files != "/Identity")


def _reader(data: bytes) -> Any:
    import pypdf

    return pypdf.PdfReader(io.BytesIO(data))


def _by_pypdf(data: bytes, passwords: Iterable[str]) -> Iterator[Attached]:
    try:
        reader = _reader(data)
        locked = reader.is_encrypted and not any(
            reader.decrypt(form) for password in ("", *passwords) for form in {password, prepared(password)}
        )
        names = [str(name) for name in _names(reader)] if locked else []
    except Exception:  # as above: without a catalogue there are no attachments
        return
    for name in names:
        reason = "no password given opens it" if any(passwords) else "needs a password"
        yield Attached(safe_name(name) or "attachment", why=reason, status=Status.NEEDS_PASSWORD)
    if locked:
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
        yield from reader.attachment_list
    except Exception:  # a broken name tree: what came before is there
        return


def _names(reader: Any) -> list[str]:
    """Names of what is locked: they are strings, and those are not encrypted."""
    tree = reader.trailer["/Root"]["/Names"]["/EmbeddedFiles"]
    names: list[str] = []
    waiting = [tree]
    while waiting and len(names) < 1_000:
        node = waiting.pop().get_object()
        waiting += list(node.get("/Kids", []))[:1_000]
        names += [str(name) for name in node.get("/Names", [])[::2]]
    return names
