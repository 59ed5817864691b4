"""tar archives and compressed files (.tar, .tgz, .gz, .bz2, .xz), read as a stream: what is packed is never whole in
memory. A compressed file that is no tar is a container of one.
"""

import io
import tarfile
from collections.abc import Iterator
from functools import partial
from itertools import chain

from unabridged.ingest.archives import unpack
from unabridged.ingest.archives.container import Container, Refused
from unabridged.ingest.archives.zipfiles import safe_path
from unabridged.ingest.document import Item, Status
from unabridged.ingest.magic import TAR_BLOCK, is_tar
from unabridged.ingest.reading import Place, Reading, Source, Unreadable
from unabridged.ingest.texts import charset

_MEMBERS = 100_000
_SUFFIXES = (".gz", ".bz2", ".xz", ".lzma", ".z")
_SMALL = 1 << 13  # of a file in a tar: where that is cut off, the piece that is cut is lost


def read(source: Source, reading: Reading, place: Place) -> Iterator[Item]:
    """The archive and its files, or the one file that is packed. Raises Unreadable."""
    stream = _Stream(_plain(source))
    container = Container(source, reading, place)
    yield container.open()
    if is_tar(stream.peek(TAR_BLOCK)):
        yield from _tar(stream, container)
    else:
        yield from container.member(_inner(source.name), 0, partial(_all, stream))
    if stream.broken:
        container.damage.append(stream.broken)
    yield container.close()


def _plain(source: Source) -> Iterator[bytes]:
    raw = _pieces(source)
    head = next(raw, b"")
    whole = chain([head], raw)
    if head.startswith(b"\x1f\x8b"):
        return unpack.inflated(whole, 31)
    if head.startswith(b"BZh"):
        return unpack.bunzipped(whole)
    if head.startswith((b"\xfd7zXZ", b"\x5d\x00\x00")):
        return unpack.unxzed(whole)
    if is_tar(head[:TAR_BLOCK]):
        return whole
    raise Unreadable(Status.UNSUPPORTED, "an archive of a kind that is not read")


def _pieces(source: Source) -> Iterator[bytes]:
    file = source.file or io.BytesIO(source.data)
    at = 0
    # Its place in the file is not ours alone: the digest is made in between.
    while file.seek(at) == at and (piece := file.read(_SMALL)):
        at += len(piece)
        yield piece


def _inner(name: str) -> str:
    lower = name.lower()
    return next((name[: -len(end)] for end in _SUFFIXES if lower.endswith(end) and len(name) > len(end)), "content")


class _Stream(io.RawIOBase):
    """Unpacked pieces as a file that can be read once. Damage ends it, and is remembered."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._buffer = bytearray()
        self.broken = ""

    def peek(self, size: int) -> bytes:
        """The next bytes, left where they are."""
        while len(self._buffer) < size and (piece := self._next()):
            self._buffer += piece
        return bytes(self._buffer[:size])

    def read(self, size: int = -1) -> bytes:
        """At most `size` bytes."""
        data = self.peek(size if size >= 0 else unpack.PIECE)
        del self._buffer[: len(data)]
        return data

    def readable(self) -> bool:
        return True

    def _next(self) -> bytes:
        try:
            return next(self._pieces, b"")
        except unpack.Broken as error:
            self.broken = str(error)
            return b""


def _all(stream: _Stream, limit: int) -> bytes:
    data = bytearray()
    while piece := stream.read(unpack.PIECE):
        data += piece
        if len(data) > limit:
            raise Refused(Status.TOO_LARGE, f"unpacks to more than {limit >> 20:,} MB: not read")
    if not data and stream.broken:
        raise Refused(Status.DAMAGED, stream.broken)
    return bytes(data)


def _tar(stream: _Stream, container: Container) -> Iterator[Item]:
    count = links = 0
    try:
        with tarfile.open(fileobj=stream, mode="r|", ignore_zeros=True, errors="surrogateescape") as tar:
            for member in tar:
                count += 1
                if count > _MEMBERS:
                    container.damage.append(f"more than {_MEMBERS:,} files: the rest was not read")
                    break
                links += member.issym() or member.islnk() or member.isdev()
                if member.isreg():
                    yield from container.member(_name(member.name), member.size, partial(_load, tar, member, container))
                tar.members = []  # type: ignore[attr-defined] # it would keep all headers
    except (tarfile.TarError, EOFError, ValueError, OverflowError) as error:
        container.damage.append(f"damaged behind file {count:,} ({error})")
    if links:
        container.damage.append(f"{links:,} links and devices left out")


def _name(name: str) -> str:
    raw = name.encode("utf-8", "surrogateescape")
    return safe_path(charset.decode(raw).text) or "unnamed"


def _load(tar: tarfile.TarFile, member: tarfile.TarInfo, container: Container, limit: int) -> bytes:
    data = bytearray()
    try:
        file = tar.extractfile(member)
        while file and len(data) <= limit and (piece := file.read(_SMALL)):
            data += piece
    except (tarfile.TarError, OSError, EOFError, ValueError) as error:
        if not data:
            raise Refused(Status.DAMAGED, f"damaged ({error})") from error
    if len(data) > limit:
        raise Refused(Status.TOO_LARGE, f"unpacks to more than {limit >> 20:,} MB: not read")
    if len(data) < member.size:
        container.damage.append(f"{_name(member.name)} is cut off: read as far as it goes")
    return bytes(data)
