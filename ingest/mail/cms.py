"""What an S/MIME envelope (CMS, RFC 5652) holds: signed content is taken out, encrypted content named.

Signatures are not verified: that a message was signed is a fact of it, that it is genuine is not claimed. Reads BER as
far as envelopes have it, without recursion, in time linear in its input; never raises.
"""

import zlib
from collections.abc import Iterator
from typing import NamedTuple

_PKCS7 = b"\x2a\x86\x48\x86\xf7\x0d\x01\x07"
_SMIME = b"\x2a\x86\x48\x86\xf7\x0d\x01\x09\x10\x01"
_ALGORITHMS = b"\x2a\x86\x48\x86\xf7\x0d\x01\x09\x10\x03"
_SIGNED = _PKCS7 + b"\x02"
_COMPRESSED = _SMIME + b"\x09"
_SEALED = frozenset({_PKCS7 + b"\x03", _PKCS7 + b"\x04", _PKCS7 + b"\x06", _SMIME + b"\x17"})
_SEQUENCE, _OID, _OCTETS, _TAGGED = 0x30, 0x06, 0x04, 0xA0
_CONSTRUCTED = 0x20
_NAMES = (".p7m", ".p7s", ".p7z")
_DEPTH = 64


class Opened(NamedTuple):
    """`kind` is "signed", "compressed", "encrypted" or "damaged". `content` is None where the envelope has none, as a
    signature that is sent beside what it signs."""

    kind: str
    content: bytes | None = None


class _Element(NamedTuple):
    tag: int
    start: int  # of the content
    end: int
    after: int


def is_envelope(data: bytes, name: str) -> bool:
    """Whether a file that is labelled as something else is an envelope."""
    head = data[:32]
    return head[:1] == b"\x30" and (_PKCS7 in head or _SMIME in head) and name.lower().endswith(_NAMES)


def opened(data: bytes, limit: int = 1 << 27) -> Opened:
    """The content of an envelope, at most `limit` bytes of one that is compressed."""
    outer = next(_elements(data, 0, len(data)), None)
    if outer is None or outer.tag != _SEQUENCE:
        return Opened("damaged")
    fields = list(_elements(data, outer.start, outer.end))[:2]
    if not fields or fields[0].tag != _OID:
        return Opened("damaged")
    kind = data[fields[0].start : fields[0].end]
    if kind in _SEALED:
        return Opened("encrypted")
    if kind not in (_SIGNED, _COMPRESSED) or len(fields) < 2:
        return Opened("damaged")
    found, content = _content(data, fields[1])
    if not found:
        return Opened("damaged")
    if kind == _SIGNED:
        return Opened("signed", content)
    return Opened("compressed", _inflated(content or b"", limit))


def _content(data: bytes, wrapped: _Element) -> tuple[bool, bytes | None]:
    """Whether the structure is there, and the content in it: [0] { SEQUENCE { ..., SEQUENCE { OID, [0] OCTETS } } }."""
    body = next(_elements(data, wrapped.start, wrapped.end), None)
    if body is None or body.tag != _SEQUENCE:
        return False, None
    for element in _elements(data, body.start, body.end):
        if element.tag != _SEQUENCE:
            continue
        inner = list(_elements(data, element.start, element.end))[:2]
        if not inner or inner[0].tag != _OID or data[inner[0].start : inner[0].end].startswith(_ALGORITHMS):
            continue  # the algorithm of compression
        return True, _octets(data, inner[1]) if len(inner) == 2 and inner[1].tag == _TAGGED else None
    return False, None


def _octets(data: bytes, wrapped: _Element) -> bytes:
    """An octet string, in one piece or in many."""
    pieces: list[bytes] = []
    stack = [_elements(data, wrapped.start, wrapped.end)]
    while stack:
        element = next(stack[-1], None)
        if element is None:
            stack.pop()
        elif element.tag == _OCTETS:
            pieces.append(data[element.start : element.end])
        elif element.tag == _OCTETS | _CONSTRUCTED and len(stack) < _DEPTH:
            stack.append(_elements(data, element.start, element.end))
    return b"".join(pieces)


def _inflated(content: bytes, limit: int) -> bytes | None:
    try:
        return zlib.decompressobj().decompress(content, limit)
    except zlib.error:
        return None


def _elements(data: bytes, start: int, end: int) -> Iterator[_Element]:
    """The elements that lie side by side in a stretch; what is cut short ends with the stretch."""
    while start + 2 <= end:
        element = _element(data, start, end)
        if element is None or (element.tag == 0 and element.start == element.end):
            return
        yield element
        start = element.after


def _element(data: bytes, at: int, end: int) -> _Element | None:
    tag, size, start = data[at], data[at + 1], at + 2
    if tag & 0x1F == 0x1F or (size == 0x80 and not tag & _CONSTRUCTED):
        return None  # tags of several bytes do not occur
    if size == 0x80:
        close = _close(data, start, end)
        return _Element(tag, start, close, min(close + 2, end))
    if size > 0x80:
        count = size & 0x7F
        if count > 8 or start + count > end:
            return None
        size = int.from_bytes(data[start : start + count], "big")
        start += count
    stop = min(start + size, end)
    return _Element(tag, start, stop, stop)


def _close(data: bytes, at: int, end: int) -> int:
    """Where the content of an element of indefinite length ends: at two zero bytes on its own level."""
    open_ends = 1
    while at + 2 <= end:
        if data[at] == 0 and data[at + 1] == 0:
            open_ends -= 1
            if not open_ends:
                return at
            at += 2
        elif data[at + 1] == 0x80 and data[at] & _CONSTRUCTED:
            open_ends += 1
            at += 2
        else:
            element = _element(data, at, end)
            if element is None:
                return end
            at = element.after
    return end
