"""The records of a PowerPoint presentation of the old binary format ([MS-PPT]): its slides in order, with their texts.

A file that was saved many times holds every state; the chain of edits says which records are the last ones.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field

_HEAD = struct.Struct("<HHI")
_RECORDS = 3_000_000
_DEPTH = 40
_EDITS = 10_000
_SLIDE, _NOTES, _LIST, _PERSIST = 0x03EE, 0x03F0, 0x0FF0, 0x03F3
_EDIT, _DIRECTORY = 0x0FF5, 0x1772
_KIND, _OUTLINE, _WIDE, _NARROW, _STRING = 0x0F9F, 0x0F9E, 0x0FA0, 0x0FA8, 0x0FBA
_COMMENT, _BLOB = 0x2EE0, 0x138B
_SLIDE_INFO, _NOTES_ATOM = 0x03F9, 0x03F1
_TITLES = frozenset({0, 6})
_HIDDEN = 0x04
_SLIDES, _NOTES_LIST = 0, 2


@dataclass
class Slide:
    """What stands on a slide, or on the page of its notes. `texts`: and whether it is the title."""

    texts: list[tuple[str, bool]] = field(default_factory=list)
    comments: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    hidden: bool = False
    of: int = 0  # the identifier of the slide that notes belong to


@dataclass(frozen=True)
class _Record:
    kind: int
    instance: int
    container: bool
    start: int
    end: int


@dataclass
class _Listed:
    """A slide as the list of slides has it."""

    persist: int
    identifier: int
    texts: list[tuple[str, bool]] = field(default_factory=list)


class PptFile:
    """An open presentation; `edit` is where its last edit is described."""

    def __init__(self, data: bytes, edit: int) -> None:
        self._data = data
        self._left = _RECORDS
        self._places = dict(self._directory(edit))

    @property
    def cut(self) -> str:
        """Why not all was read; "" when it was."""
        return "" if self._left > 0 else f"more than {_RECORDS:,} records: the rest was not read"

    def slides(self) -> list[Slide]:
        """The slides in order."""
        lists: dict[int, list[_Listed]] = {}
        loose: dict[int, list[_Record]] = {_SLIDE: [], _NOTES: []}
        for record in self._records(0, len(self._data)):
            if record.kind == 0x03E8:  # the last document counts
                lists = self._lists(record)
            elif record.kind in loose:
                loose[record.kind].append(record)
        slides, known = [], {}
        for listed in lists.get(_SLIDES, []):
            place = self._at(listed.persist, _SLIDE)
            slide = self._slide(place, listed.texts) if place else Slide(listed.texts)
            known[listed.identifier] = slide
            slides.append(slide)
        if not slides:
            slides = [self._slide(record, []) for record in loose[_SLIDE]]
        for listed in lists.get(_NOTES_LIST, []):
            if place := self._at(listed.persist, _NOTES):
                notes = self._slide(place, listed.texts)
                if notes.of in known:
                    known[notes.of].notes += [text for text, _ in notes.texts]
        return slides

    def _records(self, start: int, end: int) -> Iterator[_Record]:
        """The records of a stretch, one behind the other."""
        while start + _HEAD.size <= end and self._left > 0:
            self._left -= 1
            version, kind, length = _HEAD.unpack_from(self._data, start)
            body = start + _HEAD.size
            yield _Record(kind, version >> 4, version & 0xF == 0xF or kind == _BLOB, body, min(end, body + length))
            start = body + length

    def _within(self, record: _Record) -> Iterator[_Record]:
        """The records in a record, at any depth, in order."""
        stack = [self._records(record.start, record.end)]
        while stack:
            inner = next(stack[-1], None)
            if inner is None:
                stack.pop()
                continue
            yield inner
            if inner.container and len(stack) < _DEPTH and inner.kind != _COMMENT:
                stack.append(self._records(inner.start, inner.end))

    def _directory(self, edit: int) -> Iterator[tuple[int, int]]:
        """Where the objects lie: those of older edits first."""
        edits: list[int] = []
        before = len(self._data)
        while 0 < edit < before and len(edits) < _EDITS:
            before = edit
            record = next(self._records(edit, len(self._data)), None)
            if record is None or record.kind != _EDIT or record.end - record.start < 16:
                break
            edit, place = struct.unpack_from("<2I", self._data, record.start + 8)
            edits.append(place)
        for place in reversed(edits):
            record = next(self._records(place, len(self._data)), None)
            if record is not None and record.kind == _DIRECTORY:
                yield from self._entries(record)

    def _entries(self, record: _Record) -> Iterator[tuple[int, int]]:
        numbers = struct.unpack_from(f"<{(record.end - record.start) // 4}I", self._data, record.start)
        at = 0
        while at < len(numbers):
            first, count = numbers[at] & 0xFFFFF, numbers[at] >> 20
            yield from enumerate(numbers[at + 1 : at + 1 + count], first)
            at += 1 + count

    def _at(self, persist: int, kind: int) -> _Record | None:
        place = self._places.get(persist)
        record = None if place is None else next(self._records(place, len(self._data)), None)
        return record if record is not None and record.kind == kind else None

    def _lists(self, document: _Record) -> dict[int, list[_Listed]]:
        """The lists of slides and notes, with the texts that stand in them."""
        lists: dict[int, list[_Listed]] = {}
        for record in self._records(document.start, document.end):
            if record.kind != _LIST:
                continue
            entries = lists.setdefault(record.instance, [])
            title = False
            for inner in self._records(record.start, record.end):
                if inner.kind == _PERSIST and inner.end - inner.start >= 16:
                    persist, _, _, identifier = struct.unpack_from("<4I", self._data, inner.start)
                    entries.append(_Listed(persist, identifier))
                elif inner.kind == _KIND:
                    title = self._number(inner) in _TITLES
                elif entries and (text := self._text(inner)) is not None:
                    entries[-1].texts.append((text, title))
        return lists

    def _slide(self, record: _Record, outline: list[tuple[str, bool]]) -> Slide:
        """A slide's own texts, and those that only the list has."""
        slide = Slide()
        used: set[int] = set()
        title = False
        for inner in self._within(record):
            if inner.kind == _KIND:
                title = self._number(inner) in _TITLES
            elif inner.kind == _OUTLINE:
                index = self._number(inner)
                if 0 <= index < len(outline) and index not in used:
                    used.add(index)
                    slide.texts.append(outline[index])
            elif inner.kind == _SLIDE_INFO and inner.end - inner.start > 10:
                slide.hidden = bool(self._data[inner.start + 10] & _HIDDEN)
            elif inner.kind == _NOTES_ATOM:
                slide.of = self._number(inner)
            elif inner.kind == _COMMENT:
                slide.comments.append(self._comment(inner))
            elif (text := self._text(inner)) is not None:
                slide.texts.append((text, title))
        slide.texts += [pair for index, pair in enumerate(outline) if index not in used and pair not in slide.texts]
        return slide

    def _comment(self, record: _Record) -> str:
        said = {
            inner.instance: self._wide(inner)
            for inner in self._records(record.start, record.end)
            if inner.kind == _STRING
        }
        return f"Comment by {said[0]}: {said.get(1, '')}" if said.get(0) else f"Comment: {said.get(1, '')}"

    def _text(self, record: _Record) -> str | None:
        """The text of a text record, None for another; "*" stands for the number of the slide."""
        if record.kind == _WIDE:
            text = self._wide(record)
        elif record.kind == _NARROW:
            text = self._data[record.start : record.end].decode("latin-1")
        else:
            return None
        text = text.replace("\r", "\n").replace("\x0b", "\n").strip()
        return text if text not in ("", "*") else None

    def _wide(self, record: _Record) -> str:
        return self._data[record.start : record.end].decode("utf-16-le", "replace")

    def _number(self, record: _Record) -> int:
        return int.from_bytes(self._data[record.start : min(record.end, record.start + 4)], "little")
