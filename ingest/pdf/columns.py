"""Columns of prose that a page's content runs across: the text taken apart at the gutters, a column after the other.

A glance at where lines begin and at the gaps of a few of them tells whether there may be anything to do. Only then
every word is placed, and the page cut: at the longest gutter, then above, below and on both sides of it. A block is
turned only when most of both its sides is prose, so that tables keep their rows, and only when the content goes to and
fro between them, or has the right one first.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from unabridged.ingest.pdf.glyphs import Glyphs

HYPHEN = "\x02"  # ends a word that goes on in the next line
_LINE = re.compile(f"[^\r\n{HYPHEN}]*[^\\s{HYPHEN}][^\r\n{HYPHEN}]*{HYPHEN}?")
_WORD = re.compile(r"\S+")
_LINES = 10  # fewer are no columns
_MOST_LINES = 600
_LOOKED_AT = 12
_ROWS = 5  # that have text on both sides of a gutter
_WIDE = 0.75  # of a line's height: a gap that is more than a space
_AROUND = ".,;:!?-()[]\"'“”‘’«»%" + HYPHEN  # punctuation of prose
_DEEP = 6  # columns within columns
_FULL = 0.6  # of a column's width


@dataclass(frozen=True)
class _Word:
    start: int
    end: int
    left: float
    right: float
    y: float
    height: float


Row = list[_Word]  # words on one baseline, from left to right
Lines = list[Row]


def in_columns(glyphs: Glyphs, text: str) -> str | None:
    """The text with its columns one after the other, or None where it is right as it is."""
    lines = [(found.start(), found.end()) for found in _LINE.finditer(text)]
    if not (_LINES <= len(lines) <= _MOST_LINES and _suspect(glyphs, text, lines)):
        return None
    words = [*_words(glyphs, text, lines)]
    if len(words) < 40 or not glyphs.upright(words[len(words) // 2].start):
        return None
    blocks = [*_blocks(text, _rows(words))]
    return _put(text, words, blocks) if blocks else None


def _suspect(glyphs: Glyphs, text: str, lines: Sequence[tuple[int, int]]) -> bool:
    """Lines that begin now here, now there, or far above the last one, or with wide gaps inside."""
    begins = [glyphs.origin(start) for start, _ in lines]
    _, _, bottom, top = glyphs.edges(lines[len(lines) // 2][0])
    far = 8 * ((top - bottom) or 12.0)
    jumps = back = 0
    for (x, y), (next_x, next_y) in pairwise(begins):
        jumps += abs(next_x - x) > far
        back += x - next_x > far and next_y - y > far
    if 3 * jumps > len(lines) or back:
        return True
    step = max(1, len(lines) // _LOOKED_AT)
    looked = lines[step // 2 :: step][:_LOOKED_AT]
    places = Counter(place for line in looked[::3] for place in _gaps(glyphs, text, line))
    if not places:
        return False
    places.update(place for line in (*looked[1::3], *looked[2::3]) for place in _gaps(glyphs, text, line))
    return max(places.values()) >= max(3, len(looked) // 3)


def _gaps(glyphs: Glyphs, text: str, line: tuple[int, int]) -> set[int]:
    """Where wide gaps of a line end that have several words on both sides, in steps of 8 points, each twice because a
    gutter may lie on a border."""
    found = set()
    words = [word.span() for word in _WORD.finditer(text, *line)]
    for before, after in pairwise(words[1:-1]):
        _, right, bottom, top = glyphs.edges(before[1] - 1)
        left, *_ = glyphs.edges(after[0])
        if left - right > _WIDE * (top - bottom):
            found |= {int(left // 8), int(left // 8) + 1}
    return found


def _words(glyphs: Glyphs, text: str, lines: Sequence[tuple[int, int]]) -> Iterator[_Word]:
    for line in lines:
        for found in _WORD.finditer(text, *line):
            left, right, bottom, top = glyphs.edges(found.start())
            _, y = glyphs.origin(found.start())
            inner = found.end() - 1 - (text[found.end() - 1] == HYPHEN and found.end() - found.start() > 1)
            if inner > found.start():
                begins, ends, *_ = glyphs.edges(inner)
                left, right = min(left, begins), max(right, ends)
            yield _Word(found.start(), found.end(), left, right, y, top - bottom or 12.0)


def _rows(words: Sequence[_Word]) -> list[Row]:
    """The words by baseline, from the top; raised and lowered ones with those beside them."""
    rows: list[Row] = []
    for word in sorted(words, key=lambda word: -word.y):
        if rows and rows[-1][0].y - word.y < 0.35 * max(word.height, rows[-1][0].height):
            rows[-1].append(word)
        else:
            rows.append([word])
    for row in rows:
        row.sort(key=lambda word: word.left)
    return rows


def _blocks(text: str, rows: list[Row]) -> Iterator[list[Lines]]:
    """Stretches of the page with columns that the content does not follow, in the order in which they are read."""
    waiting = [rows]
    while waiting:
        rows = waiting.pop()
        if found := _gutter(rows):
            top, bottom, gutter = found
            columns = _sides(text, rows[top:bottom], gutter, _DEEP)
            if columns and _disordered(columns):
                yield columns
            waiting += [part for part in (rows[:top], rows[bottom:]) if len(part) >= _ROWS]


def _sides(text: str, rows: list[Row], gutter: float, deep: int) -> list[Lines]:
    """Both sides of a gutter, each in the order in which it is read; none when one is no prose."""
    found: list[Lines] = []
    for side in (
        [[word for word in row if word.right <= gutter + 2] for row in rows],
        [[word for word in row if word.right > gutter + 2] for row in rows],
    ):
        parts = _parts(text, [row for row in side if row], deep - 1)
        long = [part for part in parts if len(part) >= _ROWS]
        good = sum(len(part) for part in long if _prose(text, part))
        if not good or 2 * good < sum(map(len, long)):
            return []
        found += parts
    return found


def _parts(text: str, rows: list[Row], deep: int) -> list[Lines]:
    """A column as it is read: cut at gutters of its own, what is above and below these apart."""
    if deep == 0 or (found := _gutter(rows)) is None:
        return [rows] if rows else []
    top, bottom, gutter = found
    above, below = _parts(text, rows[:top], deep - 1), _parts(text, rows[bottom:], deep - 1)
    if inner := _sides(text, rows[top:bottom], gutter, deep):
        return [*above, *inner, *below]
    # No columns: what is above and below goes on in it.
    middle = [*(above.pop() if above else []), *rows[top:bottom], *(below.pop(0) if below else [])]
    return [*above, middle, *below]


def _gutter(rows: list[Row]) -> tuple[int, int, float] | None:
    """The longest stretch of rows with one gutter, and the gutter's place."""
    best: tuple[int, int, float] | None = None
    most = _ROWS - 1
    for x in _candidates(rows):
        start, count = 0, 0
        sides = [_side(row, x) for row in rows]
        for at, side in enumerate([*sides, "across"]):
            count += side == "both"
            if side == "across":
                if count > most:
                    most, best = count, (start, at, x)
                start, count = at + 1, 0
    return best


def _candidates(rows: list[Row]) -> list[float]:
    """Middles of wide gaps, the most frequent first."""
    votes = Counter(
        # The gutter ends where the next column begins: that is where lines agree.
        round((after.left - 2) / 4)
        for row in rows
        for before, after in pairwise(row)
        if after.left - before.right > _WIDE * before.height
    )
    return [4.0 * place for place, count in votes.most_common(12) if count >= 3]


def _side(row: Row, x: float) -> str:
    """Where a row lies of a gutter: "left", "right", "both", or "across" it."""
    left = [word for word in row if word.right <= x + 2]
    right = [word for word in row if word.left >= x - 2]
    if len(left) + len(right) < len(row):
        return "across"
    if left and right:
        gap = right[0].left - left[-1].right
        return "both" if gap > 0.5 * left[-1].height else "across"
    return "left" if left else "right"


def _prose(text: str, column: Lines) -> bool:
    """Lines that fill their column, of words rather than figures, that go on from one to the next."""
    left, right = min(row[0].left for row in column), max(row[-1].right for row in column)
    full = sum(row[-1].right - row[0].left > _FULL * (right - left) for row in column) / len(column)
    words = [text[word.start : word.end] for row in column for word in row]
    letters = "".join(words)
    figures = sum(map(str.isdigit, letters)) / max(1, len(letters))
    tight = sum(_tight(row) for row in column) / len(column)
    spoken = sum(word.strip(_AROUND).isalnum() for word in words) / len(words)
    cjk = sum(character > "\u2e7f" for character in letters) > len(letters) / 2
    if figures > 0.25 or spoken < 0.75 or full < 0.5 or tight < 0.7 or (len(words) < 3 * len(column) and not cjk):
        return False
    goes_on = sum(text[row[0].start].islower() for row in column) / len(column)
    return full >= 0.8 or goes_on >= 0.3


def _tight(row: Row) -> bool:
    """A line without gaps that a table has between its cells."""
    return all(b.left - a.right < 1.5 * a.height for a, b in pairwise(row))


def _disordered(columns: list[Lines]) -> bool:
    """The content goes to and fro between the columns, or has a right one first."""
    long = [column for column in columns if len(column) >= _ROWS]
    order = sorted((word.start, index) for index, column in enumerate(long) for row in column for word in row)
    turns = sum(a[1] != b[1] for a, b in pairwise(order)) - len(long)
    middles = [median(word.start for row in column for word in row) for column in long]
    return turns >= max(4, 0.4 * max(map(len, long))) or middles == sorted(middles, reverse=True)


def _put(text: str, words: Sequence[_Word], blocks: list[list[Lines]]) -> str:
    """The text anew: what is in no block as it was, each block where its first word was."""
    owner = {w.start: at for at, block in enumerate(blocks) for column in block for row in column for w in row}
    written: set[int] = set()
    out: list[str] = [text[: words[0].start]]
    for word, after in zip(words, [*words[1:], None], strict=True):
        block = owner.get(word.start)
        if block is None:
            out.append(text[word.start : after.start if after else len(text)])
        elif block not in written:
            written.add(block)
            out += ["\n", *(_text(text, column) for column in blocks[block]), "\n"]
    return "".join(out)


def _text(text: str, column: Lines) -> str:
    """A column's lines; words that are broken at a line's end are marked as pdfium does it."""
    out = ""
    for row in column:
        line = " ".join(text[word.start : word.end] for word in row)
        if out.endswith("-") and out[-2:-1].isalpha() and line[:1].islower():
            out = out[:-1] + HYPHEN
        out += line if out.endswith(HYPHEN) or not out else "\n" + line
    return out + "\n"
