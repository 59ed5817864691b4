"""The objects of a PDF, found without its cross-reference table: by looking for them in the bytes, and in what object
streams pack. Where an object is defined twice the last definition counts. Shallow: only dictionaries are taken apart,
one level deep. Bounded in time and memory by the size of the file and `_UNPACKED`; nothing here raises for a file.
"""

import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field

_HEADER = re.compile(rb"%PDF-\d")
_OBJECT = re.compile(rb"(?<!\d)(\d{1,8})[\s\0]{1,20}(\d{1,5})[\s\0]{1,20}obj(?![A-Za-z])")
_NUMBER = re.compile(rb"(?<!\d)(\d{1,8})\s{1,20}\d{1,5}\s{1,20}obj\s{1,20}(\d{1,10})\s{1,20}endobj")
_BODY_END = re.compile(rb"endobj|stream(?:\r\n|\n|\r)|(?<!\d)\d{1,8}\s{1,20}\d{1,5}\s{1,20}obj(?![A-Za-z])")
_TOKEN = re.compile(
    rb"[\s\0]+|%[^\r\n]*|<<|>>|[\[\]]|<[^<>]*>|/[^\s\0()<>\[\]{}/%]*|[^\s\0()<>\[\]{}/%]+|[\s\S]", re.ASCII
)
_STRING_END = re.compile(rb"\\[\s\S]|[()]")
REFERENCE = re.compile(rb"(\d{1,8})\s+\d{1,5}\s+R(?![A-Za-z])")
_HIGHEST = 4_000_000  # pdfium knows no objects beyond
_DICTIONARY = 1 << 20  # bytes: what is longer is no page and no catalogue
_UNPACKED = 256 << 20  # bytes from object streams, together


@dataclass
class Objects:
    """`data` begins at the header. An object is where it stands in `data`, or the bytes that an object stream has."""

    data: bytes
    places: dict[int, tuple[int, int]] = field(default_factory=dict)  # number: generation, offset of "7 0 obj"
    packed: dict[int, bytes] = field(default_factory=dict)
    cut: bool = False  # the last object has no end
    _order: dict[int, None] = field(default_factory=dict)

    def body(self, number: int) -> bytes:
        """What stands between "obj" and the object's end or stream, at most 1 MiB; b"" for none."""
        if number in self.packed:
            return self.packed[number]
        if number not in self.places:
            return b""
        found = _OBJECT.match(self.data, self.places[number][1])
        return _head(self.data, found.end())[0] if found else b""

    def entries(self, number: int) -> dict[bytes, bytes]:
        """The object's dictionary: keys with their slash, values as they are written. Empty for what is none."""
        return entries(self.body(number))

    def numbers(self) -> Iterator[int]:
        """All objects, in the order of the file."""
        yield from self._order

    def __len__(self) -> int:
        return len(self._order)

    def put(self, number: int, place: tuple[int, int] | None, body: bytes = b"") -> None:
        """A definition that replaces any before it."""
        self.places.pop(number, None)
        self.packed.pop(number, None)
        self._order.pop(number, None)
        self._order[number] = None
        if place is None:
            self.packed[number] = body
        else:
            self.places[number] = place


def find(data: bytes) -> Objects:
    """All objects of a file that is not encrypted; of an encrypted one those that are in no object stream."""
    header = _HEADER.search(data, 0, 1 << 20)
    data = data[header.start() :] if header else b"%PDF-1.7\n" + data
    objects = Objects(data)
    lengths = {int(number): int(value) for number, value in _NUMBER.findall(data)}
    left = 0 if b"/Encrypt" in data else _UNPACKED
    at = 0
    while found := _OBJECT.search(data, at):
        number = int(found[1])
        head, after, stream = _head(data, found.end())
        at = after
        objects.cut = after == found.end()
        if stream >= 0:
            end = _stream_end(data, head, stream, lengths)
            objects.cut = end < 0
            at = max(stream, end)
        if number <= _HIGHEST:
            objects.put(number, (int(found[2]), found.start()))
        if stream >= 0 and left > 0 and b"ObjStm" in head:
            left -= _unpack(objects, head, data[stream : end if end >= 0 else len(data)], left)
    return objects


def _head(data: bytes, start: int) -> tuple[bytes, int, int]:
    """An object up to its end or stream; where to look on; where its stream begins, -1 without one."""
    end = _BODY_END.search(data, start, start + _DICTIONARY)
    if end is None:
        return data[start : start + _DICTIONARY], start, -1
    if end[0].startswith(b"stream"):
        return data[start : end.start()], end.end(), end.end()
    return data[start : end.start()], end.start(), -1


def _stream_end(data: bytes, head: bytes, start: int, lengths: dict[int, int]) -> int:
    """Where a stream ends, -1 for a stream that is cut off. Its length is believed where "endstream" follows: the data
    may hold a whole PDF."""
    value = entries(head).get(b"/Length", b"")
    reference = REFERENCE.fullmatch(value)
    length = lengths.get(int(reference[1]), -1) if reference else int(value) if value.isdigit() else -1
    if length >= 0 and b"endstream" in data[start + length : start + length + 20]:
        return start + length
    return data.find(b"endstream", start)


def _unpack(objects: Objects, head: bytes, stream: bytes, limit: int) -> int:
    """Takes an object stream apart, as far as it goes. Bytes unpacked."""
    stated = entries(head)
    plain = inflate(stream, limit) if b"FlateDecode" in stated.get(b"/Filter", b"") else stream[:limit]
    first = stated.get(b"/First", b"")
    if stated.get(b"/Type") != b"/ObjStm" or not first.isdigit():
        return len(plain)
    pairs = [int(n) for n in plain[: int(first)].split() if n.isdigit()]
    starts = [int(first) + offset for offset in pairs[1::2]]
    for number, start, end in zip(pairs[0::2], starts, [*starts[1:], len(plain)], strict=False):
        body = plain[start:end]
        # The last one of a stream that was cut has no end.
        if number <= _HIGHEST and body.count(b"<<") == body.count(b">>") and body.strip():
            objects.put(number, None, body)
    return len(plain)


def inflate(stream: bytes, limit: int) -> bytes:
    """As much of a compressed stream as can be had, at most `limit` bytes."""
    engine = zlib.decompressobj()
    out = bytearray()
    try:
        for at in range(0, len(stream), 1 << 14):
            out += engine.decompress(stream[at : at + (1 << 14)], max(1, limit - len(out)))
            if engine.eof or len(out) >= limit:
                break
    except zlib.error:
        pass  # damaged from here on: what came before counts
    return bytes(out)


def entries(body: bytes) -> dict[bytes, bytes]:
    """The first dictionary of some bytes, one level deep."""
    start = body.find(b"<<")
    if start < 0:
        return {}
    found: dict[bytes, bytes] = {}
    items: list[tuple[int, int]] = []
    depth, at, begun = 1, start + 2, 0
    while depth and (token := _TOKEN.match(body, at)):
        text, here, at = token[0], at, token.end()
        if text == b"(":
            at = _string_end(body, at)
        elif text in (b"<<", b"["):
            depth += 1
            begun = here if depth == 2 else begun
            continue
        elif text in (b">>", b"]"):
            depth -= 1
            here = begun
        elif text[:1].isspace() or text[:1] in (b"\0", b"%"):
            continue
        if depth == 1:
            items.append((here, at))
    values = [body[a:b] for a, b in items]
    index = 0
    while index < len(values) - 1:
        if not values[index].startswith(b"/"):
            index += 1
            continue
        refers = values[index + 3 : index + 4] == [b"R"]
        found[values[index]] = b" ".join(values[index + 1 : index + 4]) if refers else values[index + 1]
        index += 4 if refers else 2
    return found


def _string_end(body: bytes, at: int) -> int:
    depth = 1
    for found in _STRING_END.finditer(body, at):
        depth += {b"(": 1, b")": -1}.get(found[0], 0)
        if not depth:
            return found.end()
    return len(body)
