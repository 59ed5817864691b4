"""A mailbox file to messages, in one pass over its bytes: memory is bounded by the largest message.

All dialects: a "From " line counts only at the start or behind an empty line, with a date or an address, and in front
of a header; a Content-Length is honoured where a message really ends there; ">From " loses one ">". A message's offset
is kept, so that it can be found again in place.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from io import BytesIO
from typing import BinaryIO

from unabridged.ingest import mail
from unabridged.ingest.document import Closed, Item, Kind, Opened, Status
from unabridged.ingest.extract import guarded
from unabridged.ingest.reading import Place, Reading, Source

_FROM = re.compile(rb"From (?:-|.*\d{1,2}:\d{2}|\S+@\S+|MAILER[-_]DAEMON)")
_STRICT = re.compile(rb"From (?:-(?: [^\r\n]*)?|\S+ +(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun),? [^\r\n]*\d{4})\s*$")
_NEXT = re.compile(
    rb"(?:from|to|cc|subject|date|received|return-path|message-id|mime-version|content-[a-z-]+|delivered-to|reply-to"
    rb"|sender|status|x-[!-9;-~]+|>?from [^\r\n]*|[a-z]+-[!-9;-~]+)[ \t]*:|>from ",
    re.I,
)
_LENGTH = re.compile(rb"content-length[ \t]*:[ \t]*(\d{1,12})", re.I)
_LINE = 1 << 20
_ESCAPED = re.compile(rb"^>(>*From )", re.M)


@dataclass(frozen=True)
class Raw:
    """One message: where its "From " line begins, its bytes behind that line, and how many of them were left out."""

    offset: int
    data: bytes
    left_out: int


def read(source: Source, reading: Reading, place: Place) -> Iterator[Item]:
    """The mailbox and its messages."""
    ref = reading.ref()
    size = source.size
    yield Opened(
        ref=ref,
        parent=place.parent,
        name=source.name,
        kind=Kind.MAILBOX,
        meta=place.meta,
        sha256=source.sha256 if size <= reading.limits.file_bytes else "",
        size=size,
    )
    file: BinaryIO = source.file or BytesIO(source.data)
    skip = reading.skip if place.parent is None else 0
    number = 0
    for number, raw in enumerate(split(file, reading.limits.message_bytes), 1):
        if number <= skip:
            continue
        reading.fresh()
        inner = Source(str(number), raw.data, kind=Kind.MESSAGE)
        where = Place(parent=ref, depth=place.depth + 1, meta={"offset": str(raw.offset)})
        yield from guarded(partial(_message, raw), inner, reading, where, Kind.MESSAGE)
    if number:
        yield Closed(ref=ref, status=Status.READ)
    else:
        yield Closed(ref=ref, status=Status.DAMAGED, reason="no message found in it")


def _message(raw: Raw, source: Source, reading: Reading, place: Place) -> Iterator[Item]:
    """The items of one message; one that was cut says so at its end."""
    own = None
    for item in mail.read(source, reading, place):
        if isinstance(item, Opened) and own is None:
            own = item.ref
        if raw.left_out and isinstance(item, Closed) and item.ref == own:
            reason = f"longer than {len(raw.data) >> 20:,} MB: the last {raw.left_out:,} bytes were not read"
            item = Closed(ref=item.ref, status=Status.PARTIAL, reason="; ".join(filter(None, (reason, item.reason))))
        yield item


def split(file: BinaryIO, limit: int) -> Iterator[Raw]:
    """The messages of a mailbox. Of one longer than `limit` bytes the rest is left out, and counted."""
    file.seek(3 if file.read(3) == b"\xef\xbb\xbf" else 0)
    yield from _Splitter(file, limit).messages()


class _Splitter:
    """Reads line by line, two lines ahead where a "From " line has to be judged by the next."""

    def __init__(self, file: BinaryIO, limit: int) -> None:
        self.file = file
        self.limit = limit
        self.at = file.tell()  # of the line in hand
        self.ahead: list[bytes] = []
        self._new(-1)

    def _new(self, begin: int) -> None:
        self.begin = begin
        self.lines: list[bytes] = []
        self.size = 0
        self.left_out = 0
        self.in_header = True
        self.length = -1
        self.counted = False  # its end was found by Content-Length: nothing in it is escaped

    def messages(self) -> Iterator[Raw]:
        """The messages in order."""
        blank, line = True, self._next()
        while line:
            if line.startswith(b"From ") and self._begins(line, blank):
                yield from self._whole()
                self._new(self.at)
                self.at += len(line)
                blank, line = False, self._next()
                continue
            self._take(line)
            blank = not line.strip()
            self.at += len(line)
            if self.in_header and self._header(line, blank):
                blank = True
            line = self._next()
        yield from self._whole()

    def _next(self) -> bytes:
        return self.ahead.pop(0) if self.ahead else self.file.readline(_LINE)

    def _begins(self, line: bytes, blank: bool) -> bool:
        """Whether a "From " line begins a message. Without an empty line before it, it must be of the strictest form
        and stand before two lines of a header."""
        if not (_FROM if blank else _STRICT).match(line):
            return False
        while len(self.ahead) < 2:
            self.ahead.append(self.file.readline(_LINE))
        first, second = self.ahead
        if blank:
            return _NEXT.match(first) is not None or (self.at == 0 and not first.strip())
        return _NEXT.match(first) is not None and (_NEXT.match(second) is not None or second[:1] in b" \t")

    def _take(self, line: bytes) -> None:
        if self.size + len(line) > self.limit:
            self.left_out += len(line)
            return
        self.lines.append(line)
        self.size += len(line)

    def _header(self, line: bytes, blank: bool) -> bool:
        """Watches the header for a length; at its end jumps over a body of that length if a message ends there."""
        if match := _LENGTH.match(line):
            self.length = int(match[1])
        self.in_header = not blank
        if not blank or self.length <= 0 or not self._ends_at(self.at + self.length):
            return False
        left = self.length
        while left and (piece := self.file.read(min(left, _LINE))):
            self._take(piece)
            left -= len(piece)
        self.at += self.length - left
        self.counted = True
        return True

    def _ends_at(self, end: int) -> bool:
        """Whether a message begins at `end`, or the file ends there. Leaves the file where it was."""
        self.file.seek(end - 1)
        probe = self.file.read(16)
        self.ahead.clear()
        self.file.seek(self.at)
        return bool(probe) and (not probe[1:].strip() or re.match(rb".\r?\n?\r?\n?From ", probe, re.S) is not None)

    def _whole(self) -> Iterator[Raw]:
        if self.begin < 0 and not any(line.strip() for line in self.lines):
            return
        if self.lines and not self.lines[-1].strip():
            self.lines.pop()
        data = b"".join(self.lines)
        if b">From " in data and not self.counted:
            data = _ESCAPED.sub(rb"\1", data)
        yield Raw(max(self.begin, 0), data, self.left_out)
