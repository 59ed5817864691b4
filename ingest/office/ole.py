"""Microsoft's older container (.doc, .xls, .ppt, .msg, encrypted .docx): which of them it is, by its streams.

Encrypted documents are opened with the passwords at hand and read as what they then are.
"""

import io
from collections.abc import Iterator
from importlib import import_module
from typing import Any, BinaryIO

from unabridged.ingest.document import Item, Status
from unabridged.ingest.reading import Place, Reading, Source, Unreadable
from unabridged.ingest.texts.normalise import one_line

_READERS = (
    ("EncryptedPackage", "office.ole_encrypted"),
    ("__properties_version1.0", "outlook.msg"),
    ("WordDocument", "office.doc"),
    ("Workbook", "office.xls"),
    ("Book", "office.xls"),
    ("PowerPoint Document", "office.ppt"),
)
_NAMED = (
    ("VisioDocument", "Visio drawing: export it as PDF"),
    ("Quill", "Publisher document: export it as PDF"),
    ("PSPContents", "Works document: save it as .docx"),
    ("Contents", "embedded object"),
)
_NATIVE = "\x01Ole10Native"
_WRAPPED = ("Package", "CONTENTS", "EmbeddedOdf")


def read(source: Source, reading: Reading, place: Place) -> Iterator[Item]:
    """The document in the container. Raises Unreadable."""
    container = opened(io.BytesIO(source.data))
    if container is None:
        raise Unreadable(Status.DAMAGED, "a Microsoft Office file of the old format whose directory is damaged")
    with container:
        name = next((reader for stream, reader in _READERS if container.exists(stream)), "")
        if not name:
            what = next(
                (what for stream, what in _NAMED if container.exists(stream)), "Microsoft file of the old format"
            )
            raise Unreadable(Status.UNSUPPORTED, f"{what}: not read")
        reader = import_module(f"unabridged.ingest.{name}").read_ole
        yield from reader(container, source, reading, place)


def opened(file: BinaryIO) -> Any:
    """The container, None where it is none. Damaged ones give what they have."""
    import olefile

    try:
        return olefile.OleFileIO(file, raise_defects=olefile.DEFECT_FATAL)
    except (OSError, ValueError, IndexError, AttributeError, TypeError, OverflowError):
        return None


def stream(container: Any, name: str, limit: int) -> bytes:
    """A stream's bytes, b"" where it is missing, longer than `limit` or damaged."""
    try:
        if not container.exists(name) or container.get_size(name) > limit:
            return b""
        data: bytes = container.openstream(name).read()
    except (OSError, ValueError, IndexError, TypeError):
        return b""
    return data


def unwrapped(file: BinaryIO) -> tuple[str, bytes] | None:
    """The file that an embedded object wraps, with its name; None where it wraps none."""
    container = opened(file)
    if container is None:
        return None
    with container:
        for name in _WRAPPED:
            if data := stream(container, name, 1 << 29):
                return name.lower(), data
        return _native(stream(container, _NATIVE, 1 << 29))


def _native(data: bytes) -> tuple[str, bytes] | None:
    """The Packager's own form: size, two names, a path, the file."""
    parts: list[bytes] = []
    at = 6
    for _ in range(2):
        end = data.find(b"\0", at)
        if end < 0:
            return None
        parts.append(data[at:end])
        at = end + 1
    at += 4
    at += 4 + int.from_bytes(data[at : at + 4], "little")
    size = int.from_bytes(data[at : at + 4], "little")
    content = data[at + 4 : at + 4 + size]
    name = one_line(parts[0].decode("cp1252", "replace"), 200) or "embedded file"
    return (name, content) if content else None
