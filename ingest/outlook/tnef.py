"""Outlook's container winmail.dat ([MS-OXTNEF]) to a `mapi.Record`. Bounded by its own size; never raises.

What a length claims is believed only as far as bytes are there; a container that is cut short gives what it has, and a
note that says so.
"""

from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

from unabridged.ingest.limits import Limits
from unabridged.ingest.outlook import mapi
from unabridged.ingest.outlook.mapi import Record

MAGIC = b"\x78\x9f\x3e\x22"
_SUBJECT, _BODY, _CODEPAGE, _CLASS = 0x8004, 0x800C, 0x9007, 0x8008
_PROPERTIES, _RECIPIENTS, _ATTACHMENT_PROPERTIES = 0x9003, 0x9004, 0x9005
_NEW_ATTACHMENT, _TITLE, _FILE = 0x9002, 0x8010, 0x800F
_TEXT = {_SUBJECT: 0x0037, _CLASS: 0x001A, _BODY: 0x1000}
_SIZES = {mapi.INTEGER16: 2, mapi.INTEGER: 4, 0x0004: 4, 0x0005: 8, 0x0006: 8, 0x0007: 8, 0x000A: 4, mapi.BOOLEAN: 2}
_SIZES |= {mapi.INTEGER64: 8, mapi.TIME: 8, 0x0048: 16, 0x0000: 0, 0x0001: 4}
_VARIABLE = frozenset({mapi.STRING8, mapi.UNICODE, mapi.BINARY, mapi.OBJECT})
_MOST = 20_000  # properties of one object, values of one property
_OBJECT_ID = 16  # bytes in front of an embedded object


class _Attribute(NamedTuple):
    id: int
    data: bytes
    whole: bool


def record(data: bytes, limits: Limits) -> Record:
    """The message in a container."""
    message = Record()
    target: Record | None = None
    for attribute in _attributes(data):
        if not attribute.whole:
            message.notes.append("winmail.dat is cut short")
        if attribute.id == _NEW_ATTACHMENT:
            target = None
            if len(message.attachments) < limits.parts:
                target = Record()
                message.attachments.append(target)
            else:
                message.notes.append(f"winmail.dat holds more than {limits.parts:,} attachments")
        elif attribute.id in (_TITLE, _FILE, _ATTACHMENT_PROPERTIES):
            if target is not None:
                _put_attachment(target, attribute, limits)
        else:
            _put(message, attribute)
    for one in message.attachments:
        one.inherit(message)
    message.notes = list(dict.fromkeys(message.notes))
    return message


def _attributes(data: bytes) -> Iterator[_Attribute]:
    """Level, number, length, content and checksum, one after the other."""
    at = 6
    while at + 9 <= len(data):
        number = int.from_bytes(data[at + 1 : at + 3], "little")
        size = int.from_bytes(data[at + 5 : at + 9], "little")
        if data[at] not in (1, 2):
            return
        content = data[at + 9 : at + 9 + size]
        yield _Attribute(number, content, len(content) == size)
        at += 9 + size + 2


def _put(message: Record, attribute: _Attribute) -> None:
    """An attribute of the message."""
    number, data = attribute.id, attribute.data
    if number == _PROPERTIES:
        _fill(message, _Reader(data))
    elif number == _RECIPIENTS:
        reader = _Reader(data)
        for _ in range(min(reader.number(4), _MOST)):
            one = Record()
            if not _fill(one, reader):
                return
            message.recipients.append(one)
    elif number == _CODEPAGE:
        message.properties[0x3FFD] = (mapi.INTEGER, data[:4])
    elif number in _TEXT:
        message.properties.setdefault(_TEXT[number], (mapi.STRING8, data))


def _put_attachment(one: Record, attribute: _Attribute, limits: Limits) -> None:
    if attribute.id == _TITLE:
        one.properties.setdefault(0x3704, (mapi.STRING8, attribute.data))
        return
    if attribute.id == _FILE:
        one.properties[mapi.DATA] = (mapi.BINARY, attribute.data)
        if not attribute.whole:
            one.notes.append("is cut short")
        return
    _fill(one, _Reader(attribute.data))
    kind, data = one.properties.get(mapi.DATA, (0, b""))
    if kind == mapi.OBJECT:
        content = data[_OBJECT_ID:]
        one.properties[mapi.DATA] = (mapi.BINARY, content)
        if content.startswith(MAGIC):
            one.inner = partial(record, content, limits)


class _Reader:
    """Takes numbers and values off a stretch of bytes."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def ended(self) -> bool:
        """Nothing is left."""
        return self.at >= len(self.data)

    def number(self, size: int) -> int:
        """An unsigned number of `size` bytes."""
        return int.from_bytes(self.take(size), "little")

    def take(self, size: int) -> bytes:
        """The next bytes, fewer at the end."""
        found = self.data[self.at : self.at + size]
        self.at += size
        return found

    def padded(self, size: int) -> bytes:
        """The next bytes; they fill a multiple of four."""
        found = self.take(size)
        self.at += -size % 4
        return found


def _fill(target: Record, reader: _Reader) -> bool:
    """Reads a list of properties. False where it is damaged: what follows cannot be found."""
    for _ in range(min(reader.number(4), _MOST)):
        if reader.ended():
            return False
        kind, number = reader.number(2), reader.number(2)
        name = _name(reader) if number >= mapi.NAMED else None
        values = _values(kind, reader)
        if values is None:
            return False
        value = (kind, b"\0\0".join(values) if kind & mapi.MULTIPLE else b"".join(values[:1]))
        if name is not None:
            target.named.setdefault(name, value)
        else:
            target.properties[number] = value
    return reader.at <= len(reader.data)


def _name(reader: _Reader) -> int | str:
    """What a named property is: a number, or a name."""
    reader.take(16)
    if reader.number(4) == 0:
        return reader.number(4)
    return reader.padded(reader.number(4)).decode("utf-16-le", "replace").rstrip("\0")


def _values(kind: int, reader: _Reader) -> list[bytes] | None:
    """The values of a property, None for a type that is none."""
    single = kind & ~mapi.MULTIPLE
    count = reader.number(4) if kind & mapi.MULTIPLE or single in _VARIABLE else 1
    if single not in _VARIABLE and single not in _SIZES:
        return None
    values: list[bytes] = []
    for _ in range(min(count, _MOST)):
        if reader.ended() and single in _VARIABLE:
            return None
        size = reader.number(4) if single in _VARIABLE else _SIZES[single]
        values.append(reader.padded(size))
    return values
