"""What a Word document's styles and lists add to its paragraphs: which are headings, hidden, or numbered, and how.

People cite "clause 4.2(b)", and Word does not store that number: `Lists` counts as Word does.
"""

import re
from dataclasses import dataclass, field

from unabridged.ingest.office.opc import on
from unabridged.ingest.office.xmlfeed import Quiet, attribute

_HEADING = re.compile(r"heading (\d)$", re.I)
_LEVELS = 9
_CHAIN = 20
_PLACE = re.compile(r"%(\d)")
_ROMAN = ((1000, "m"), (900, "cm"), (500, "d"), (400, "cd"), (100, "c"), (90, "xc"), (50, "l"), (40, "xl"), (10, "x"))
_ROMAN_SMALL = ((9, "ix"), (5, "v"), (4, "iv"), (1, "i"))


@dataclass
class Style:
    """One style; None where it says nothing itself."""

    name: str = ""
    base: str = ""
    outline: int | None = None
    hidden: bool | None = None
    list_id: str = ""
    list_level: int | None = None


@dataclass
class Styles(Quiet):
    """Reads word/styles.xml."""

    styles: dict[str, Style] = field(default_factory=dict)
    _style: Style = field(default_factory=Style)

    def start(self, name: str, attributes: dict[str, str]) -> None:
        style = self._style
        if name == "style":
            self._style = self.styles[attribute(attributes, "styleId") or ""] = Style()
            return
        value = attribute(attributes, "val") or ""
        if name == "name":
            style.name = value
        elif name == "basedOn":
            style.base = value
        elif name == "outlineLvl":
            style.outline = number(value)
        elif name == "vanish":
            style.hidden = on(attributes)
        elif name == "numId":
            style.list_id = value
        elif name == "ilvl":
            style.list_level = number(value)

    def end(self, name: str) -> None:
        if name == "style":
            self._style = Style()

    def heading(self, style_id: str) -> int:
        """1 to 6 for a heading's style, 0 for another."""
        for style in self._chain(style_id):
            if match := _HEADING.match(style.name):
                return min(6, max(1, int(match[1])))
            if style.name.casefold() == "title":
                return 1
            if style.outline is not None:
                return min(6, style.outline + 1) if 0 <= style.outline < _LEVELS else 0
        return 0

    def hidden(self, style_id: str) -> bool:
        """Whether what has the style is not shown."""
        return next((style.hidden for style in self._chain(style_id) if style.hidden is not None), False)

    def numbering(self, style_id: str) -> tuple[str, int]:
        """List and level of a style, "" for none."""
        chain = list(self._chain(style_id))
        list_id = next((style.list_id for style in chain if style.list_id), "")
        level = next((style.list_level for style in chain if style.list_level is not None), 0)
        return list_id, level

    def _chain(self, style_id: str) -> "list[Style]":
        chain: list[Style] = []
        while (style := self.styles.get(style_id)) is not None and len(chain) < _CHAIN:
            chain.append(style)
            style_id = style.base
        return chain


@dataclass
class _Level:
    """How one level of a list is numbered."""

    form: str = "decimal"
    text: str = ""
    start: int = 1


@dataclass
class Lists(Quiet):
    """Reads word/numbering.xml, then numbers paragraphs in the order in which they are asked for."""

    _abstract: dict[str, dict[int, _Level]] = field(default_factory=dict)
    _lists: dict[str, str] = field(default_factory=dict)
    _starts: dict[tuple[str, int], int] = field(default_factory=dict)
    _counts: dict[str, list[int | None]] = field(default_factory=dict)
    _begun: set[str] = field(default_factory=set)
    _levels: dict[int, _Level] = field(default_factory=dict)
    _level: _Level = field(default_factory=_Level)
    _list: str = ""
    _index: int = 0

    def start(self, name: str, attributes: dict[str, str]) -> None:
        value = attribute(attributes, "val") or ""
        if name == "abstractNum":
            self._levels = self._abstract[attribute(attributes, "abstractNumId") or ""] = {}
        elif name == "num":
            self._list = attribute(attributes, "numId") or ""
            self._levels = {}
        elif name == "abstractNumId":
            self._lists[self._list] = value
        elif name in ("lvl", "lvlOverride"):
            self._index = number(attribute(attributes, "ilvl") or "")
            if name == "lvl":
                self._level = self._levels[self._index] = _Level()
        elif name == "startOverride":
            self._starts[self._list, self._index] = number(value)
        elif name == "start":
            self._level.start = number(value)
        elif name == "numFmt":
            self._level.form = value
        elif name == "lvlText":
            self._level.text = value

    def next(self, list_id: str, index: int) -> str:
        """The number of the list's next paragraph at a level: "4.2", "(b)", "-"; "" for none."""
        abstract = self._lists.get(list_id)
        levels = self._abstract.get(abstract or "")
        if abstract is None or not levels or not 0 <= index < _LEVELS:
            return ""
        level = levels.get(index, _Level())
        if level.form == "bullet":
            return "-"
        counts = self._counts.setdefault(abstract, [None] * _LEVELS)
        if list_id not in self._begun:
            self._begun.add(list_id)
            for (owner, at), start in self._starts.items():
                if owner == list_id and 0 <= at < _LEVELS:
                    counts[at] = start - 1
        for at in range(index):
            counts[at] = levels.get(at, _Level()).start if counts[at] is None else counts[at]
        before = counts[index]
        counts[index] = level.start if before is None else before + 1
        counts[index + 1 :] = [None] * (_LEVELS - index - 1)
        if level.form == "none" or not level.text:
            return ""
        return _PLACE.sub(lambda place: self._shown(levels, counts, int(place[1]) - 1), level.text).strip()

    def _shown(self, levels: dict[int, _Level], counts: list[int | None], at: int) -> str:
        count = counts[at] if 0 <= at < _LEVELS else None
        return "" if count is None else numeral(count, levels.get(at, _Level()).form)


def numeral(value: int, form: str) -> str:
    """A number in one of Word's forms; decimal in those that are not known here."""
    if form in ("lowerLetter", "upperLetter") and value > 0:
        letters = chr(ord("a") + (value - 1) % 26) * min(20, (value - 1) // 26 + 1)
        return letters if form == "lowerLetter" else letters.upper()
    if form in ("lowerRoman", "upperRoman") and 0 < value < 4_000:
        roman, left = "", value
        for worth, letters in (*_ROMAN, *_ROMAN_SMALL):
            roman += letters * (left // worth)
            left %= worth
        return roman if form == "lowerRoman" else roman.upper()
    return f"{value:02}" if form == "decimalZero" else "" if form == "none" else str(value)


def number(text: str, base: int = 10) -> int:
    """A whole number, 0 for what is none."""
    try:
        return int(text[:10], base)
    except ValueError:
        return 0
