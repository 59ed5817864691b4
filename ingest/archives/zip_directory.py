"""Where the members of a ZIP file lie: by its directory, or by the headers in front of each where that is lost.

`directory` and `salvage` read any file object; neither unpacks more than it takes to find where a member ends.
"""

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import BinaryIO

from unabridged.ingest.archives import unpack

_END = struct.Struct("<4s4H2LH")
_END64 = struct.Struct("<4sQ2H2L4Q")
_LOCATOR = struct.Struct("<4sLQL")
_CENTRAL = struct.Struct("<4s6H3L5H2L")
_LOCAL = struct.Struct("<4s5H3L2H")
_DIRECTORY_BYTES = 256 << 20
_STREAMED = 0x8
_FULL = 0xFFFFFFFF
_PIECE = 1 << 20


@dataclass(frozen=True)
class Entry:
    """A member as its header has it. `crc` is None where it is not known; `time` is needed to check a password."""

    name: bytes
    offset: int
    packed: int
    size: int
    method: int
    flags: int
    crc: int | None
    time: int
    extra: bytes
    unicode_name: str = ""


@dataclass
class Entries:
    """The members that were found, and how many there are in all."""

    found: list[Entry] = field(default_factory=list)
    total: int = 0


def directory(file: BinaryIO, limit: int) -> tuple[Entries | None, str]:
    """The members by the directory at the end, None where there is none; and what is wrong with it, if anything."""
    found = _end(file)
    if found is None:
        return None, "cut off or damaged: its directory is missing, files were found by their own headers"
    start, size, stated, shift = found
    file.seek(start)
    data = file.read(min(size, _DIRECTORY_BYTES))
    entries = Entries()
    at = 0
    while at + _CENTRAL.size <= len(data) and data[at : at + 4] == b"PK\x01\x02":
        entries.total += 1
        if len(entries.found) < limit:
            entries.found.append(_central(data, at, shift))
        fields = _CENTRAL.unpack_from(data, at)
        at += _CENTRAL.size + fields[10] + fields[11] + fields[12]
    if not entries.found and stated:
        return None, "its directory is damaged: files were found by their own headers"
    if stated not in (entries.total, entries.total & 0xFFFF):
        return entries, f"its directory names {entries.total:,} of {stated:,} files"
    return entries, ""


def _end(file: BinaryIO) -> tuple[int, int, int, int] | None:
    """Begin and size of the directory, the number of members it states, and how far all offsets are shifted by
    something that was put in front of the file."""
    whole = file.seek(0, 2)
    tail_at = max(0, whole - 65_535 - _END.size)
    file.seek(tail_at)
    tail = file.read()
    at = tail.rfind(b"PK\x05\x06")
    while at >= 0:
        if at + _END.size <= len(tail):
            fields = _END.unpack_from(tail, at)
            stated, size, offset = fields[4], fields[5], fields[6]
            end = tail_at + at
            if (large := _end64(file, end)) is not None:
                stated, size, offset, end = large
            start = end - size
            if start >= 0 and _is_directory(file, start, stated):
                return start, size, stated, start - offset
            if offset < whole and _is_directory(file, offset, stated):
                return offset, size, stated, 0
        at = tail.rfind(b"PK\x05\x06", 0, at)
    return None


def _end64(file: BinaryIO, end: int) -> tuple[int, int, int, int] | None:
    if end < _LOCATOR.size:
        return None
    file.seek(end - _LOCATOR.size)
    locator = file.read(_LOCATOR.size)
    if not locator.startswith(b"PK\x06\x07"):
        return None
    at = min(_LOCATOR.unpack(locator)[2], max(0, end - _LOCATOR.size - _END64.size))
    for place in (at, end - _LOCATOR.size - _END64.size):
        if place < 0:
            continue
        file.seek(place)
        record = file.read(_END64.size)
        if len(record) == _END64.size and record.startswith(b"PK\x06\x06"):
            fields = _END64.unpack(record)
            return fields[7], fields[8], fields[9], place
    return None


def _is_directory(file: BinaryIO, at: int, stated: int) -> bool:
    if not stated:
        return True
    file.seek(at)
    return file.read(4) == b"PK\x01\x02"


def _central(data: bytes, at: int, shift: int) -> Entry:
    fields = _CENTRAL.unpack_from(data, at)
    flags, method, time, crc, packed, size = fields[3], fields[4], fields[5], fields[7], fields[8], fields[9]
    name_length, extra_length, offset = fields[10], fields[11], fields[16]
    name = data[at + _CENTRAL.size : at + _CENTRAL.size + name_length]
    extra = data[at + _CENTRAL.size + name_length : at + _CENTRAL.size + name_length + extra_length]
    unicode_name = ""
    for kind, value in extras(extra):
        if kind == 1:
            numbers = iter(struct.unpack_from(f"<{len(value) // 8}Q", value))
            size = next(numbers, size) if size == _FULL else size
            packed = next(numbers, packed) if packed == _FULL else packed
            offset = next(numbers, offset) if offset == _FULL else offset
        elif kind == 0x7075 and value[:1] == b"\x01" and value[1:5] == zlib.crc32(name).to_bytes(4, "little"):
            unicode_name = value[5:].decode("utf-8", "replace")
    return Entry(name, offset + shift, packed, size, method, flags, crc, time, extra, unicode_name)


def extras(extra: bytes) -> Iterator[tuple[int, bytes]]:
    """The fields of a header's extra block."""
    at = 0
    while at + 4 <= len(extra):
        kind, length = struct.unpack_from("<2H", extra, at)
        yield kind, extra[at + 4 : at + 4 + length]
        at += 4 + length


def salvage(file: BinaryIO, limit: int) -> Entries:
    """The members by the headers in front of them, up to where the file ends."""
    entries = Entries()
    at = _next(file, 0)
    while at is not None:
        entry, end = _local(file, at)
        if entry is not None:
            entries.total += 1
            if len(entries.found) < limit:
                entries.found.append(entry)
        at = _next(file, end)
    return entries


def _next(file: BinaryIO, at: int) -> int | None:
    """The next header from `at` on."""
    while True:
        file.seek(at)
        piece = file.read(_PIECE)
        found = piece.find(b"PK\x03\x04")
        if found >= 0:
            return at + found
        if len(piece) < _PIECE:
            return None
        at += len(piece) - 3


def _local(file: BinaryIO, at: int) -> tuple[Entry | None, int]:
    """The member whose header lies at `at`, and where to look for the next."""
    file.seek(at)
    header = file.read(_LOCAL.size)
    if len(header) < _LOCAL.size:
        return None, at + 4
    _, _, flags, method, time, _, crc, packed, size, name_length, extra_length = _LOCAL.unpack(header)
    name, extra = file.read(name_length), file.read(extra_length)
    begin = at + _LOCAL.size + name_length + extra_length
    if method not in unpack.METHODS and method != 99:
        return None, at + 4
    if flags & _STREAMED and not packed:
        packed = _length(file, begin, method)
        return Entry(name, at, packed, size, method, flags, None, time, extra), begin + packed
    return Entry(name, at, packed, size, method, flags, crc, time, extra), begin + packed


def _length(file: BinaryIO, begin: int, method: int) -> int:
    """Stored bytes of a member that does not say it: deflate knows its own end, others go on to the next header."""
    if method != 8:
        after = _next(file, begin)
        return (file.seek(0, 2) if after is None else after) - begin
    inflate = zlib.decompressobj(-15)
    taken = 0
    file.seek(begin)
    while not inflate.eof and (piece := file.read(1 << 16)):
        taken += len(piece)
        try:
            while piece and not inflate.eof:
                inflate.decompress(piece, 1 << 20)
                piece = inflate.unconsumed_tail
        except zlib.error:
            return taken
    return taken - len(inflate.unused_data)
