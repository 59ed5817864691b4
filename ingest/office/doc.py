"""A Word document of the old binary format (.doc) to pages: text, tables, notes, comments, headers and text boxes.

Hidden and deleted text is kept apart. The numbers of lists are not computed; "# " stands before headings.
"""

import re
import struct
from collections.abc import Iterator
from typing import Any

from unabridged.ingest.document import Closed, Item, Kind, PartKind, Status
from unabridged.ingest.office.doc_file import DELETED, HIDDEN, PAGE_BEFORE, ROW_END, DocFile, old_pieces
from unabridged.ingest.office.ole import stream
from unabridged.ingest.office.ole_encrypted import opened_again
from unabridged.ingest.office.ole_facts import facts
from unabridged.ingest.office.word import WordPages
from unabridged.ingest.reading import Place, Reading, Source, Unreadable
from unabridged.ingest.texts import charset
from unabridged.ingest.texts.normalise import one_line
from unabridged.ingest.texts.pager import Pager

EXTRACTOR = "doc 1"
_WORD_97 = 0x00C1
_ENCRYPTED, _TABLE_1, _FAST_SAVED, _MIXED = 0x0100, 0x0200, 0x0004, 0x1000
# Tables of places: where notes are cited, and where their text begins; bytes beside each place.
_NOTES = (("footnote", 2, 2, 3), ("comment", 4, 30, 5), ("endnote", 46, 2, 47))
_HEADERS = 11
_BEGIN, _SEPARATE, _END = "\x13", "\x14", "\x15"  # of a field
_GLYPHS = {"\x0b": "\n", "\x1e": "-", "\x1f": "", "\xa0": " ", "\t": "\t", "\x0e": "\n"}
_INSTRUCTION = re.compile("\x13[^\x13-\x15]*[\x14\x15]|[\x13-\x15]")
_DRAIN = 20_000  # characters


def read_ole(container: Any, source: Source, reading: Reading, place: Place) -> Iterator[Item]:
    """The document. Raises Unreadable."""
    data = stream(container, "WordDocument", reading.limits.file_bytes)
    if len(data) < 0x60:
        raise Unreadable(Status.DAMAGED, "a Word document whose text is missing")
    version, flags = struct.unpack_from("<H6xH", data, 2)
    if flags & _ENCRYPTED:
        yield from opened_again(source, reading, place)
        return
    ref = reading.ref()
    title, meta = facts(container)
    yield source.opened(ref, place, Kind.WORD, title, meta)
    pager = Pager(ref, reading.limits, EXTRACTOR)
    if version < _WORD_97 and flags & _FAST_SAVED and flags & _MIXED:
        reason = "a Word 95 document in pieces of one and of two bytes a character: save it as .docx"
        yield Closed(ref=ref, status=Status.UNSUPPORTED, reason=reason)
        return
    if version < _WORD_97:
        _old(data, bool(flags & _FAST_SAVED), pager)
    else:
        table = stream(container, "1Table" if flags & _TABLE_1 else "0Table", reading.limits.file_bytes)
        told = _Told(DocFile(data, table), pager)
        for _ in told.tell():
            yield from pager.take()
    pager.close()
    yield from pager.take()
    yield pager.ended()


def _old(data: bytes, fast_saved: bool, pager: Pager) -> None:
    """Word 6 and 95: text in a code page of Windows, in one stretch, or in pieces where it was saved fast."""
    begin, end = struct.unpack_from("<2I", data, 0x18)
    stretches = [(begin, end)]
    if fast_saved and len(data) >= 0x168:
        place, size = struct.unpack_from("<2I", data, 0x160)
        stretches = old_pieces(data[place : place + size])
    whole = b"".join(data[low:high] for low, high in stretches)
    for text in _INSTRUCTION.sub("", charset.decode(whole).text).split("\r"):
        pager.add("".join(_GLYPHS.get(char, char if char >= " " else " ") for char in text), "\n\n")


class _Fields:
    """The fields that are open, and whether the instruction of one of them is being read."""

    def __init__(self) -> None:
        self._instructions: list[bool] = []

    def take(self, char: str) -> bool:
        """Whether the next character is a field's mark, or of its instruction: no text."""
        if char == _BEGIN:
            self._instructions.append(True)
        elif char == _SEPARATE and self._instructions:
            self._instructions[-1] = False
        elif char == _END and self._instructions:
            self._instructions.pop()
        else:
            return any(self._instructions)
        return True


class _Told:
    """Tells a document's text to pages."""

    def __init__(self, file: DocFile, pager: Pager) -> None:
        self._file = file
        self._pager = pager
        self._pages = WordPages(pager)
        self._text = file.text()
        main, feet, heads, macros, comments, ends, boxes, *_ = file.counts
        self._main = min(main, len(self._text))
        starts = {"footnote": main, "comment": main + feet + heads + macros}
        starts["endnote"] = starts["comment"] + comments
        self._heads = (main + feet, main + feet + heads)
        self._boxes = (starts["endnote"] + ends, starts["endnote"] + ends + boxes)
        self._cited = {
            place: (kind, text)
            for kind, cited, width, told in _NOTES
            for place, text in self._notes(kind, cited, width, told, starts[kind])
        }

    def tell(self) -> Iterator[None]:
        """All of it; gives way now and then."""
        self._margins()
        line: list[str] = []
        unseen: dict[int, list[str]] = {HIDDEN: [], DELETED: []}
        row: list[str] = []
        fields = _Fields()
        begin = 0
        for position in range(self._main):
            char = self._text[position]
            if fields.take(char):
                continue
            if char in "\r\x07\x0c":
                self._end("".join(line), position, begin, char, row)
                self._apart(unseen)
                line, begin = [], position + 1
            elif char in "\x02\x05":
                line.append(self._note(position))
            else:
                self._put(char, position, line, unseen)
            if position % _DRAIN == 0:
                yield
        self._end("".join(line), max(0, self._main - 1), begin, "\r", row)
        if any(row):
            self._pages.row(row)
        self._apart(unseen)
        low, high = self._boxes
        for text in self._plain(low, high).split("\n"):
            self._pages.paragraph(text, 0, False)
        yield

    def _put(self, char: str, position: int, line: list[str], unseen: dict[int, list[str]]) -> None:
        shown = _GLYPHS.get(char, char if char >= " " else "")
        state = self._file.characters.at(self._file.offset(position)) if shown else 0
        if state & DELETED:
            unseen[DELETED].append(shown)
        elif state & HIDDEN:
            unseen[HIDDEN].append(shown)
        else:
            line.append(shown)

    def _apart(self, unseen: dict[int, list[str]]) -> None:
        for state, name in ((HIDDEN, "Hidden text"), (DELETED, "Deleted")):
            if text := "".join(unseen[state]).strip():
                self._pager.aside(PartKind.HIDDEN, f"{name}: {text}")
            unseen[state].clear()

    def _end(self, text: str, position: int, begin: int, mark: str, row: list[str]) -> None:
        """A paragraph, cell, row or page ends."""
        state = self._file.paragraphs.at(self._file.offset(position)) if self._file.pieces else 0
        if mark == "\x07" and state & ROW_END:
            if any(row):
                self._pages.row(row)
            row.clear()
        elif mark == "\x07":
            row.append(text.strip())
        elif row and mark == "\r" and not state & ROW_END:
            # A paragraph in a cell: the cell's mark ends the last of them.
            if text.strip():
                row.append(text.strip())
        else:
            if state & PAGE_BEFORE and begin:
                self._pages.page_break()
            if text.strip():
                self._pages.paragraph(text.strip(), min(6, state & 0xF), False)
            if mark == "\x0c":
                self._pages.page_break()

    def _note(self, position: int) -> str:
        kind, text = self._cited.pop(position, ("", ""))
        return self._pages.cite(kind, text) if text else ""

    def _notes(self, kind: str, cited: int, width: int, told: int, start: int) -> Iterator[tuple[int, str]]:
        """Where notes of a kind are cited, and what they say."""
        begins = [place for place, _ in self._file.plc(told, 0)]
        for n, (place, data) in enumerate(self._file.plc(cited, width)[:-1]):
            if n + 1 >= len(begins):
                return
            text = one_line(self._plain(start + begins[n], start + begins[n + 1]), 20_000)
            if kind == "comment":
                who = data[2:20].decode("utf-16-le", "replace")[: min(9, data[0] if data else 0)]
                text = f"Comment by {who}: {text}" if who else f"Comment: {text}"
            yield place, text

    def _margins(self) -> None:
        low, high = self._heads
        lines = [one_line(line) for line in self._plain(low, high).split("\n")]
        for line in dict.fromkeys(filter(None, lines)):
            self._pager.aside(PartKind.NOTE, f"Page header or footer: {line}")

    def _plain(self, low: int, high: int) -> str:
        """Characters as lines, without fields' instructions and marks."""
        out: list[str] = []
        fields = _Fields()
        for char in self._text[low:high]:
            if not fields.take(char):
                out.append("\n" if char in "\r\x07\x0c" else _GLYPHS.get(char, char if char >= " " else ""))
        return "".join(out)
