"""Where the messages of a mailbox file lie: one pass over its bytes in windows, whatever its size.

The spans tile the file: every byte belongs to exactly one message, and reading again from a message's offset gives the
same message. All dialects: a "From " line counts only at the start or behind an empty line, with a date or an address,
and in front of a header; a Content-Length is honoured where a message really ends there; lines may end in LF, CRLF or
CR. Knows nothing of what a message says.
"""

import io
import re
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

_FROM_LIKE = re.compile(rb"From [^ \t\r\n]")
_FROM = re.compile(rb"From (?:-|[^\r\n]*\d{1,2}:\d{2}|\S+@\S+|MAILER[-_]DAEMON)")
_STRICT = re.compile(rb"From (?:-(?: [^\r\n]*)?|\S+ +(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun),? [^\r\n]*\d{4})\s*$")
_NEXT = re.compile(
    rb"(?:from|to|cc|subject|date|received|return-path|message-id|mime-version|content-[a-z-]+|delivered-to|reply-to"
    rb"|sender|status|x-[!-9;-~]+|>?from [^\r\n]*|[a-z]+-[!-9;-~]+)[ \t]*:|>from ",
    re.I,
)
_LENGTH = re.compile(rb"(?:\A|\n)content-length[ \t]*:[ \t]*(\d{1,12})")
_NEXT_MESSAGE = re.compile(rb".\r?\n?\r?\n?From ", re.S)
_BOM = b"\xef\xbb\xbf"
_WINDOW = 1 << 20
_LINES = 4_096  # bytes of a "From " line and the two behind it that are looked at
_HEADER = 1 << 18  # bytes of a header in which a length is looked for


class Span(NamedTuple):
    """One message: `start` to `end` are its bytes, its "From " line is at `offset` and its header at `head`. Only in
    the first do `start` and `offset` differ. `counted`: its end was found by its Content-Length."""

    start: int
    offset: int
    head: int
    end: int
    counted: bool


def spans(file: BinaryIO, begin: int = 0) -> Iterator[Span]:
    """The messages from the offset `begin` on, in order. None for a file of white space."""
    text = _Window(file)
    at = begin + (len(_BOM) if begin == 0 and text.get(0, len(_BOM)) == _BOM else 0)
    yield from _Splitter(text, at).run(begin)


class _Window:
    """A file of which a stretch is in memory."""

    def __init__(self, file: BinaryIO) -> None:
        self.file = file
        self.size = file.seek(0, io.SEEK_END)
        self._load(0, _WINDOW)

    def get(self, start: int, count: int) -> bytes:
        """`count` bytes from `start`, fewer at the end of the file."""
        at_end = len(self._data) < _WINDOW
        if start < self._from or not (at_end or start + count <= self._from + len(self._data)):
            self._load(start, count)
        return self._data[start - self._from : start - self._from + count]

    def peek(self, start: int, count: int) -> bytes:
        """As `get`, for a place that may be far away: the stretch in memory stays."""
        if self._from <= start and start + count <= self._from + len(self._data):
            return self.get(start, count)
        self.file.seek(start)
        return self.file.read(count)

    def find(self, mark: bytes, start: int) -> int:
        """Where `mark` stands at or behind `start`, -1 for nowhere."""
        self.get(start, len(mark))
        while (found := self._data.find(mark, start - self._from)) < 0:
            if len(self._data) < _WINDOW:
                return -1
            start = max(start, self._from + len(self._data) - len(mark) + 1)
            self._load(start, _WINDOW)
        return self._from + found

    def _load(self, start: int, count: int) -> None:
        self.file.seek(start)
        self._from, self._data = start, self.file.read(max(count, _WINDOW))


class _Splitter:
    """Finds the "From " lines that begin a message."""

    def __init__(self, text: _Window, top: int) -> None:
        self.text = text
        self.top = top
        head = text.get(0, 65_536)
        self.eol = b"\r" if b"\r" in head and b"\n" not in head else b"\n"

    def run(self, begin: int) -> Iterator[Span]:
        """The spans of the file from `begin` on."""
        start, offset = begin, self._next(self.top, self.top)
        end = offset if offset >= 0 else self.text.size
        if self._has_text(self.top, end):
            yield Span(start, self.top, self.top, end, False)
            start = end
        while offset >= 0:
            head = self._line_end(offset)
            counted = self._by_length(head)
            following = self._next(max(head, counted), counted)
            end = following if following >= 0 else self.text.size
            yield Span(start, offset, head, end, counted > 0)
            start, offset = end, following

    def _next(self, at: int, sure: int) -> int:
        """Where the next message begins, -1 for nowhere. `sure` is a place that needs no empty line before it."""
        if sure >= self.top and self.text.get(sure, 5) == b"From " and self._begins(sure, True):
            return sure
        while (found := self.text.find(self.eol + b"From ", at)) >= 0:
            at = found + 1
            if self._begins(at, self._behind_blank(at)):
                return at
        return -1

    def _begins(self, at: int, blank: bool) -> bool:
        """Whether a "From " line begins a message. Without an empty line before it, it must be of the strictest form
        and stand before two lines of a header."""
        lines = self.text.get(at, _LINES)
        if not _FROM_LIKE.match(lines):
            return False
        line, *after = lines.split(self.eol, 3)[:3]
        if not (_STRICT.match(line) or (blank and _FROM.match(line))):
            return False
        first = after[0] if after else b""
        if blank:
            return _NEXT.match(first) is not None or (at == self.top and not first.strip())
        return _NEXT.match(first) is not None and (
            len(after) < 2 or _NEXT.match(after[1]) is not None or after[1].startswith((b" ", b"\t"))
        )

    def _behind_blank(self, at: int) -> bool:
        """Whether the line before the one at `at` is empty."""
        start = max(self.top, at - 200)
        before = self.text.get(start, at - 1 - start)
        return not before.rpartition(self.eol)[2].strip()

    def _line_end(self, at: int) -> int:
        found = self.text.find(self.eol, at)
        return found + 1 if found >= 0 else self.text.size

    def _by_length(self, head: int) -> int:
        """Where the next message begins by the Content-Length of the one with its header at `head`; -1 for none, or one
        that lies."""
        count = _LINES
        while (end := _header_end(header := self.text.get(head, count))) < 0:
            if count >= _HEADER or len(header) < count:
                return -1
            count *= 8
        fields = header[:end].lower()
        match = _LENGTH.search(fields) if b"content-length" in fields else None
        if match is None or not int(match[1]):
            return -1
        return self._ends_at(head + end + int(match[1]))

    def _ends_at(self, end: int) -> int:
        """Where a message begins that stands right behind `end`, or the end of the file; -1 for neither."""
        probe = self.text.peek(end - 1, 16)
        if probe and len(probe) < 16 and not probe[1:].strip():
            return self.text.size
        match = _NEXT_MESSAGE.match(probe)
        return end - 1 + match.end() - len(b"From ") if match else -1

    def _has_text(self, start: int, end: int) -> bool:
        """Whether anything but white space lies between two places."""
        while start < end:
            piece = self.text.get(start, min(_WINDOW, end - start))
            if piece.strip() or not piece:
                return bool(piece)
            start += len(piece)
        return False


def _header_end(header: bytes) -> int:
    """Where the body begins behind the first empty line; -1 for no such line."""
    if header.startswith((b"\n", b"\r\n")):
        return header.index(b"\n") + 1
    ends = [found + len(end) for end in (b"\n\n", b"\n\r\n") if (found := header.find(end)) >= 0]
    return min(ends, default=-1)
