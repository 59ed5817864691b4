"""The parts of a Word document of the old binary format ([MS-DOC]): its characters, and what is said of them.

Characters lie in pieces all over the file; formatting is said of places in the file, notes of places in the text. All
tables are bounded by the streams that they lie in; one that is damaged is empty.
"""

import struct
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

_PAIRS = 0x9A  # where the list of tables begins: offset and length of each, in the table stream
_CLX, _CHARACTERS, _PARAGRAPHS = 33, 12, 13
# What is said of characters; and of paragraphs, beside the level of a heading in the low bits.
HIDDEN, DELETED = 1, 2
ROW_END, PAGE_BEFORE = 0x10, 0x20
_PAGE = 512
_COMPRESSED = 0x4000_0000
_OPERANDS = (1, 1, 2, 4, 2, 2, 0, 3)  # bytes, by the kind that a property's number has
_VANISH, _DELETED, _ROW_END, _PAGE_BEFORE = 0x083C, 0x0800, 0x2417, 0x2407
_ELSEWHERE = (0x6645, 0x6646)
_HEADINGS = range(1, 10)  # styles of these numbers are "heading 1" to "heading 9" in every document
_CP1252 = [bytes((byte,)).decode("cp1252", "ignore") or chr(byte) for byte in range(256)]


@dataclass(frozen=True)
class Piece:
    """Characters `start:end` of the text, in the file from `offset` on, `width` bytes each."""

    start: int
    end: int
    offset: int
    width: int


@dataclass
class Runs:
    """Stretches of the file with what holds in them, in order."""

    starts: list[int] = field(default_factory=list)
    values: list[int] = field(default_factory=list)

    def at(self, offset: int) -> int:
        """What holds at a place of the file, 0 for nothing."""
        found = bisect_right(self.starts, offset) - 1
        return self.values[found] if found >= 0 else 0


_Value = Callable[[bytes, int], int]


class DocFile:
    """An open document: `data` is its main stream, `table` the one beside it."""

    def __init__(self, data: bytes, table: bytes) -> None:
        self.data = data
        self.table = table
        self.counts = [max(0, n) for n in struct.unpack_from("<8i", data.ljust(0x6C, b"\0"), 0x4C)]
        self.pieces = self._pieces()
        self._begins = [piece.start for piece in self.pieces]
        self.characters = self._runs(_CHARACTERS, 1, self._character)
        self.paragraphs = self._runs(_PARAGRAPHS, 13, self._paragraph)

    def text(self) -> str:
        """All characters: the text, then footnotes, headers, macros, comments, endnotes and text boxes."""
        return "".join(self._decoded(piece) for piece in self.pieces)

    def offset(self, position: int) -> int:
        """The place in the file of a character of the text."""
        found = bisect_right(self._begins, position) - 1
        piece = self.pieces[max(0, found)]
        return piece.offset + (position - piece.start) * piece.width

    def plc(self, index: int, width: int) -> list[tuple[int, bytes]]:
        """A table of places in the text, each with `width` bytes of data; the last place has none."""
        data = self._table(index)
        count = max(0, (len(data) - 4) // (4 + width))
        places = struct.unpack_from(f"<{count + 1}I", data) if len(data) >= 4 else ()
        base = 4 * (count + 1)
        return [(place, data[base + n * width : base + (n + 1) * width]) for n, place in enumerate(places)]

    def _table(self, index: int) -> bytes:
        at = _PAIRS + 8 * index
        if at + 8 > len(self.data):
            return b""
        offset, length = struct.unpack_from("<2I", self.data, at)
        return self.table[offset : offset + length]

    def _pieces(self) -> list[Piece]:
        pieces: list[Piece] = []
        for place, stated in _stated(self._table(_CLX)):
            width = 1 if place & _COMPRESSED else 2
            offset = (place & ~_COMPRESSED) // 2 if width == 1 else place
            # No more characters than the file has bytes for, whatever is claimed.
            most = max(0, len(self.data) - offset) // width
            length = min(stated, most)
            begin = pieces[-1].end if pieces else 0
            if length:
                pieces.append(Piece(begin, begin + length, offset, width))
            if begin > len(self.data):
                break
        return pieces

    def _decoded(self, piece: Piece) -> str:
        data = self.data[piece.offset : piece.offset + (piece.end - piece.start) * piece.width]
        if piece.width == 2:
            # One character for each two bytes, whatever they are: places in the text must stay right.
            return "".join(map(chr, struct.unpack(f"<{len(data) // 2}H", data)))
        return "".join(_CP1252[byte] for byte in data)

    def _runs(self, index: int, width: int, value: _Value) -> Runs:
        """Formatting by places in the file: pages of 512 bytes, found by a table, each with runs of its own."""
        runs = Runs()
        data = self._table(index)
        count = max(0, (len(data) - 4) // 8)
        for n in range(count):
            (number,) = struct.unpack_from("<I", data, 4 * (count + 1) + 4 * n)
            page = self.data[(number & 0x3FFFFF) * _PAGE : (number & 0x3FFFFF) * _PAGE + _PAGE]
            if len(page) < _PAGE:
                continue
            total = page[-1]
            if 4 * (total + 1) + total * width > _PAGE:
                continue
            places = struct.unpack_from(f"<{total + 1}I", page)
            for run in range(total):
                where = 2 * page[4 * (total + 1) + run * width]
                if not runs.starts or places[run] >= runs.starts[-1]:
                    runs.starts.append(places[run])
                    runs.values.append(value(page, where) if where else 0)
        return runs

    def _character(self, page: bytes, at: int) -> int:
        found = dict(properties(page[at + 1 : at + 1 + page[at]]))
        return (HIDDEN if found.get(_VANISH, 0) & 1 else 0) | (DELETED if found.get(_DELETED, 0) & 1 else 0)

    def _paragraph(self, page: bytes, at: int) -> int:
        length = 2 * page[at] - 1
        if length < 0:
            at += 1
            length = 2 * page[at] if at < _PAGE else 0
        body = page[at + 1 : at + 1 + length]
        style = int.from_bytes(body[:2], "little")
        found = dict(properties(body[2:]))
        value = style if style in _HEADINGS else 0
        # Properties too long for their page lie elsewhere: in practice those of a row, at its end.
        row = found.get(_ROW_END) or any(number in found for number in _ELSEWHERE)
        return value | (ROW_END if row else 0) | (PAGE_BEFORE if found.get(_PAGE_BEFORE) else 0)


def properties(data: bytes) -> Iterator[tuple[int, int]]:
    """The properties of a run: number and first byte of the operand."""
    at = 0
    while at + 3 <= len(data):
        number = int.from_bytes(data[at : at + 2], "little")
        size = _OPERANDS[number >> 13]
        value = data[at + 2]
        if not size:
            size = 1 + value if number != 0xD608 else 1 + int.from_bytes(data[at + 2 : at + 4], "little")
        yield number, value
        at += 2 + size


def old_pieces(clx: bytes) -> list[tuple[int, int]]:
    """Where the pieces of a document of Word 6 or 95 lie in its stream: one byte a character."""
    return [(place, place + length) for place, length in _stated(clx)]


def _stated(clx: bytes) -> Iterator[tuple[int, int]]:
    """The pieces as their table has them: place in the file, and number of characters."""
    at = 0
    while at + 3 <= len(clx) and clx[at] == 1:
        at += 3 + int.from_bytes(clx[at + 1 : at + 3], "little")
    plc = clx[at + 5 :] if clx[at : at + 1] == b"\x02" else b""
    count = max(0, (len(plc) - 4) // 12)
    starts = struct.unpack_from(f"<{count + 1}I", plc) if count else ()
    for n in range(count):
        (place,) = struct.unpack_from("<I", plc, 4 * (count + 1) + 8 * n + 2)
        yield place, max(0, starts[n + 1] - starts[n])
