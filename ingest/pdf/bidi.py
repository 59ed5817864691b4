"""Lines with Hebrew, Arabic and their like: from the order in which they stand on the page to the order in which they
are read.

pdfium turns whole lines, and with them the Latin words and the numbers within, and takes ligatures apart the wrong way
round. Here a line is laid out anew by the places of its characters and turned run by run, the inverse of Unicode's
bidirectional algorithm without its explicit marks. Lines without such letters are left alone.
"""

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass

from unabridged.ingest.pdf.glyphs import Glyphs

RTL = re.compile("[\u0590-\u077f\u07c0-\u08ff\ufb1d-\ufdff\ufe70-\ufefe]")  # but Thaana, whose marks stand elsewhere
_LINE = re.compile(r"[^\s][^\r\n]*(?<!\s)")
_LAM = "\u0644"
_LONGEST = 2_000  # characters: what is longer is no line
_MIRRORED = str.maketrans("()[]{}<>«»", ")(][}{><»«")
_OPEN, _CLOSE = "([{", ")]}"
_RTL, _LTR, _NUMBER, _NEUTRAL, _SPACE = "R", "L", "N", "-", " "
_BESIDE = frozenset("%‰°$€£₪")  # belong to the number that they stand at
_IN_NUMBER = frozenset(".,:/-+%$€£₪")


@dataclass
class _Cluster:
    """Characters of one glyph, with the marks that stand on it, in reading order. A space has no width and comes to the
    left of what begins where it stands."""

    text: str
    x: float
    left: float
    right: float
    kind: str

    @property
    def place(self) -> tuple[float, bool]:
        """What sorts them from left to right: origins, since boxes of joined letters overlap."""
        return self.x, self.kind != _SPACE

    @property
    def middle(self) -> float:
        return (self.left + self.right) / 2


@dataclass(frozen=True)
class _Line:
    start: int
    end: int
    items: list[_Cluster]  # from left to right

    @property
    def left(self) -> float:
        return self.items[0].left

    @property
    def right(self) -> float:
        return self.items[-1].right

    @property
    def letters(self) -> tuple[int, int]:
        """Letters from left to right, and from right to left."""
        kinds = [item.kind for item in self.items]
        return kinds.count(_LTR), kinds.count(_RTL)


def logical(glyphs: Glyphs, text: str) -> str:
    """The text of a page with its right-to-left lines in reading order."""
    if not RTL.search(text):
        return text
    every = [*_LINE.finditer(text)]
    mixed = [found for found in every if RTL.search(found[0])]
    lines = [line for found in mixed if (line := _line(glyphs, found))]
    leftward = 2 * len(mixed) > len(every) and _leftward(lines)
    out, at = [], 0
    for line in lines:
        out += [text[at : line.start], _read(line, leftward)]
        at = line.end
    return "".join(out) + text[at:]


def _line(glyphs: Glyphs, found: re.Match[str]) -> _Line | None:
    """A line as it stands, None for one that is no level row of characters."""
    text, start = found[0], found.start()
    if len(text) > _LONGEST or not glyphs.upright(start):
        return None
    clusters: list[_Cluster] = []
    last = (0.0, 0.0)
    level = glyphs.box(start)
    for at, character in enumerate(text, start):
        box = glyphs.box(at)
        if character.isspace():
            last = (0.0, 0.0)
            clusters.append(_Cluster(" ", box.x, box.x, box.x, _SPACE))
        elif abs(box.y - level.y) > 0.7 * level.height:
            return None
        elif (box.x, box.y) == last:
            clusters[-1].text += character
        else:
            last = (box.x, box.y)
            clusters.append(_Cluster(character, box.x, box.left, box.right, _kind(character)))
    items = _marked(clusters)
    if not any(item.kind == _RTL for item in items):
        return None
    items.sort(key=lambda item: item.place)
    return _Line(start, found.end(), items)


def _marked(clusters: list[_Cluster]) -> list[_Cluster]:
    """The clusters, marks put upon the letters that they stand on, spaces between right-to-left letters where pdfium
    has them."""
    for cluster in clusters:
        if len(cluster.text) > 1 and any(_kind(character) == _RTL for character in cluster.text):
            cluster.kind = _RTL
            # pdfium turns the characters of one glyph too, unless the file had them the wrong way round: then it was
            # right to, and a ligature with lam begins with it.
            if cluster.text[0] != _LAM:
                cluster.text = cluster.text[::-1].strip()
    items = [cluster for cluster in clusters if not _is_mark(cluster)]
    letters = [item for item in items if item.kind != _SPACE]
    for mark in filter(_is_mark, clusters if letters else ()):
        min(letters, key=lambda letter: abs(letter.middle - mark.middle)).text += mark.text
    for before, space, after in zip(items, items[1:], items[2:], strict=False):
        if space.kind == _SPACE and before.kind == after.kind == _RTL and after.x < before.x:
            space.x = before.x
    return items


def _is_mark(cluster: _Cluster) -> bool:
    return all(unicodedata.category(character) == "Mn" for character in cluster.text)


def _kind(character: str) -> str:
    bidi = unicodedata.bidirectional(character)
    if bidi in ("R", "AL"):
        return _RTL
    return _LTR if bidi == "L" else _NUMBER if bidi in ("EN", "AN") else _NEUTRAL


def _leftward(lines: list[_Line]) -> bool:
    """Whether the page is set from right to left: most of these lines are, and the short ones end on the right."""
    if 2 * sum(rtl > ltr for ltr, rtl in (line.letters for line in lines)) <= len(lines):
        return False
    left, right = min(line.left for line in lines), max(line.right for line in lines)
    votes = 0
    for line in lines:
        if line.right - line.left < 0.85 * (right - left):
            votes += (right - line.right < line.left - left) - (right - line.right > line.left - left)
    return votes >= 0


def _read(line: _Line, leftward: bool) -> str:
    """The line in reading order."""
    strong = [item.kind for item in line.items if item.kind in (_LTR, _RTL)]
    ltr, rtl = line.letters
    latin = strong[0] == strong[-1] == _LTR
    if (latin and ltr > 3 * rtl) if leftward else (latin or (ltr > rtl and _LTR in (strong[0], strong[-1]))):
        items = [item for run, turned in _runs(line.items, _RTL) for item in (_turned(run) if turned else run)]
    else:
        items = _turned(line.items)
    return _mirrored("".join(item.text for item in items).strip())


def _turned(items: list[_Cluster]) -> list[_Cluster]:
    """A right-to-left stretch in reading order: Latin words and numbers within it keep their own."""
    runs = [*_runs(items, _LTR)]
    return [item for run, kept in reversed(runs) for item in (run if kept else reversed(run))]


def _runs(items: list[_Cluster], kind: str) -> Iterator[tuple[list[_Cluster], bool]]:
    """The items cut into runs of a direction, with what is between, and the rest. Numbers are runs from left to right
    whatever they stand in; several words of a language are one run."""
    at = 0
    while at < len(items):
        end = _run_end(items, at, kind)
        if end > at:
            yield items[at:end], True
            at = end
            continue
        rest = at
        while rest < len(items) and _run_end(items, rest, kind) == rest:
            rest += 1
        yield items[at:rest], False
        at = rest


def _run_end(items: list[_Cluster], start: int, kind: str) -> int:
    """Where the run that begins at `start` ends; `start` for none."""
    first = items[start].kind
    if kind == _LTR and first == _NEUTRAL and items[start].text in _BESIDE and start + 1 < len(items):
        return _run_end(items, start + 1, kind) if items[start + 1].kind == _NUMBER else start
    if first != kind and not (first == _NUMBER and kind == _LTR):
        return start
    end, letters = start + 1, first == kind
    for at in range(start + 1, len(items)):
        item = items[at]
        if item.kind == kind and (letters or _one_word(items[end:at])):
            end, letters = at + 1, True
        elif item.kind == _NUMBER and kind == _LTR and (letters or _one_word(items[end:at])):
            end = at + 1
        elif item.kind in (_LTR, _RTL):
            break
    while end < len(items) and items[end - 1].kind != _RTL and items[end].text in _BESIDE and not letters:
        end += 1
    return end


def _one_word(between: list[_Cluster]) -> bool:
    return all(item.text in _IN_NUMBER for item in between)


def _mirrored(text: str) -> str:
    """Brackets are mirrored where that makes pairs of them: producers disagree on which of the two they write."""
    turned = text.translate(_MIRRORED)
    return turned if _unpaired(turned) < _unpaired(text) else text


def _unpaired(text: str) -> int:
    waiting, bad = 0, 0
    for character in text:
        if character in _OPEN:
            waiting += 1
        elif character in _CLOSE:
            bad += waiting == 0
            waiting = max(0, waiting - 1)
    return bad + waiting
