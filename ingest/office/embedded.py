"""Files that are embedded in an Office document become its children. Pictures do not; they are part of its look."""

import io
import posixpath
from collections.abc import Iterator

from unabridged.ingest.archives.zipfiles import Member, ZipError
from unabridged.ingest.document import Item
from unabridged.ingest.magic import OLE
from unabridged.ingest.office.opc import Package
from unabridged.ingest.reading import Place, Reading, Source

_CHUNKS = (".htm", ".html", ".mht", ".rtf", ".docx", ".txt")


def children(package: Package, folder: str, reading: Reading, place: Place) -> Iterator[Item]:
    """The documents in `folder` of the package (embeddings), and pieces of other formats beside its text."""
    for member in package.zip.members:
        where, name = posixpath.split(member.name)
        chunk = where == folder and name.lower().endswith(_CHUNKS)
        if where != posixpath.join(folder, "embeddings") and not chunk:
            continue
        data = unpacked(package, member, name, reading, place)
        if data is not None:
            yield from reading.child(Source(*content(name, data)), reading, place)


def unpacked(package: Package, member: Member, name: str, reading: Reading, place: Place) -> bytes | None:
    """An embedded file, to be read at `place`; None where it is not read, which the package notes."""
    if why := reading.refuses(member.size, place.depth):
        package.notes.append(f"embedded file {name} not read: {why}")
        return None
    try:
        return package.zip.read(member, reading.limits.attachment_bytes)
    except ZipError as error:
        package.notes.append(f"embedded file {name} {error}")
        return None


def content(name: str, data: bytes) -> tuple[str, bytes]:
    """What lies in an embedded object: the file that OLE wraps, under its own name, or the object as it is."""
    if not data.startswith(OLE):
        return name, data
    from unabridged.ingest.office.ole import unwrapped

    return unwrapped(io.BytesIO(data)) or (name, data)
