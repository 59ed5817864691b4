"""A saved Outlook message (.msg, [MS-OXMSG]) to items: an OLE container whose streams are the properties of a
`mapi.Record`. Embedded messages lie in storages within it and are opened when they are read."""

import re
from collections.abc import Iterator
from functools import partial
from typing import Any

from unabridged.ingest.document import Item
from unabridged.ingest.limits import Limits
from unabridged.ingest.outlook import mapi, mapi_letter
from unabridged.ingest.outlook.mapi import Record
from unabridged.ingest.reading import Place, Reading, Source

_PROPERTIES = "__properties_version1.0"
_NAMES = "__nameid_version1.0"
_STREAM = re.compile(r"__substg1\.0_([0-9A-Fa-f]{4})([0-9A-Fa-f]{4})(?:-([0-9A-Fa-f]{8}))?")
_ENTRY = 16  # bytes of a property in its table
_TOP, _EMBEDDED, _PART = 32, 24, 8  # bytes of the table's head
_MOST = 20_000  # properties of one object, values of a list
_MULTIPLE_FIXED = frozenset({0x1002, 0x1003, 0x1014, 0x1040, 0x1005})

Path = tuple[str, ...]


def read_ole(container: Any, source: Source, reading: Reading, place: Place) -> Iterator[Item]:
    """The message in an open OLE container."""
    tree = _Tree(container, reading.limits)
    yield from mapi_letter.items(tree.message((), _TOP), source, reading, place)


class _Tree:
    """The container's streams by the storage that they lie in."""

    def __init__(self, container: Any, limits: Limits) -> None:
        self._container = container
        self._limits = limits
        self._below: dict[Path, list[str]] = {}
        for entry in container.listdir(streams=True, storages=True):
            self._below.setdefault(tuple(entry[:-1]), []).append(entry[-1])
        self._names = self._named_ids()

    def message(self, at: Path, head: int) -> Record:
        """The message in a storage."""
        record = self._object(at, head)
        for name in sorted(self._below.get(at, ())):
            if name.startswith("__recip_version1.0") and len(record.recipients) < _MOST:
                record.recipients.append(self._object((*at, name), _PART))
            elif name.startswith("__attach_version1.0"):
                if len(record.attachments) >= self._limits.parts:
                    record.notes.append(f"more than {self._limits.parts:,} attachments")
                    break
                record.attachments.append(self._attachment((*at, name)))
        for one in (*record.recipients, *record.attachments):
            one.inherit(record)
        return record

    def _attachment(self, at: Path) -> Record:
        record = self._object(at, _PART)
        embedded = (*at, f"__substg1.0_{mapi.DATA:04X}{mapi.OBJECT:04X}")
        if _PROPERTIES in self._below.get(embedded, ()):
            record.inner = partial(self.message, embedded, _EMBEDDED)
        elif embedded in self._below:
            record.notes.append("is an object of another program and was not read")
        return record

    def _object(self, at: Path, head: int) -> Record:
        """The properties of one storage."""
        record = Record()
        for kind, number, value in self._table(at, head):
            record.put(number, kind, value, self._names)
        lists: dict[tuple[int, int], list[bytes]] = {}
        for name in sorted(self._below.get(at, ())):
            match = _STREAM.fullmatch(name)
            if not match or int(match[2], 16) == mapi.OBJECT:
                continue
            number, kind = int(match[1], 16), int(match[2], 16)
            data = self._stream((*at, name), record)
            if match[3] is None and (not kind & mapi.MULTIPLE or kind in _MULTIPLE_FIXED):
                record.put(number, kind, data, self._names)
            elif match[3] is not None and len(lists.setdefault((number, kind), [])) < _MOST:
                lists[number, kind].append(data.rstrip(b"\0") + b"\0" if kind & 0xFFF == mapi.STRING8 else data)
        for (number, kind), values in lists.items():
            record.put(number, kind, b"".join(values), self._names)
        return record

    def _table(self, at: Path, head: int) -> Iterator[tuple[int, int, bytes]]:
        """The properties of a fixed size: type, number, eight bytes."""
        data = self._stream((*at, _PROPERTIES), None)[head : head + _MOST * _ENTRY]
        for start in range(0, len(data) - _ENTRY + 1, _ENTRY):
            entry = data[start : start + _ENTRY]
            kind = int.from_bytes(entry[:2], "little")
            if kind in (mapi.INTEGER16, mapi.INTEGER, mapi.BOOLEAN, mapi.INTEGER64, mapi.TIME):
                yield kind, int.from_bytes(entry[2:4], "little"), entry[8:]

    def _stream(self, path: Path, record: Record | None) -> bytes:
        """The bytes of a stream; one that is damaged or too large leaves a note."""
        try:
            size: int = self._container.get_size(list(path))
            if size > self._limits.attachment_bytes:
                raise OSError(f"{size >> 20:,} MB")
            data: bytes = self._container.openstream(list(path)).read()
        except (OSError, ValueError, IndexError, TypeError) as error:
            if record is not None:
                record.notes.append(f"is damaged ({str(error)[:80]})")
            return b""
        return data

    def _named_ids(self) -> mapi.Names:
        """What the ids of named properties stand for."""
        entries = self._stream((_NAMES, "__substg1.0_00030102"), None)
        names = self._stream((_NAMES, "__substg1.0_00040102"), None)
        return mapi.names(entries, names)
