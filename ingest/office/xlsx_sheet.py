"""The parts of a workbook that hold its cells: texts that they share, formats, comments, and the rows themselves."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from unabridged.ingest.document import PartKind
from unabridged.ingest.office.number_formats import BUILT_IN, shown
from unabridged.ingest.office.xmlfeed import Quiet
from unabridged.ingest.texts.normalise import one_line
from unabridged.ingest.texts.pager import Pager
from unabridged.ingest.texts.table import Table, column

_COLUMNS = 16_384
_CELL = 32_767  # characters: Excel's own limit
_ROW = 500_000
_NAMED = 30  # stretches of hidden rows that are named


@dataclass
class SharedStrings:
    """Reads xl/sharedStrings.xml. Readings of Japanese characters (rPh) are no part of the text."""

    found: list[str] = field(default_factory=list)
    _pieces: list[str] = field(default_factory=list)
    _open: bool = False
    _phonetic: bool = False

    def start(self, name: str, attributes: dict[str, str]) -> None:
        if name == "t":
            self._open = not self._phonetic
        elif name == "rPh":
            self._phonetic = True

    def end(self, name: str) -> None:
        if name == "t":
            self._open = False
        elif name == "rPh":
            self._phonetic = False
        elif name == "si":
            self.found.append("".join(self._pieces))
            self._pieces.clear()

    def text(self, data: str) -> None:
        if self._open:
            self._pieces.append(data)


@dataclass
class Formats(Quiet):
    """Reads xl/styles.xml: the number format of each style of a cell."""

    from_1904: bool = False
    _codes: dict[str, str] = field(default_factory=dict)
    _styles: list[str] = field(default_factory=list)
    _cells: bool = False

    def start(self, name: str, attributes: dict[str, str]) -> None:
        if name == "numFmt":
            self._codes[attributes.get("numFmtId", "")] = attributes.get("formatCode", "")
        elif name == "cellXfs":
            self._cells = True
        elif name == "xf" and self._cells:
            self._styles.append(attributes.get("numFmtId", "0"))

    def end(self, name: str) -> None:
        if name == "cellXfs":
            self._cells = False

    def code(self, style: str | None) -> str:
        """The format code of a style's number, "" for the general one."""
        try:
            format_id = self._styles[int(style or 0)]
        except (ValueError, IndexError):
            return ""
        custom = self._codes.get(format_id)
        return BUILT_IN.get(int(format_id) if format_id.isdecimal() else 0, "") if custom is None else custom


@dataclass
class Comments:
    """Reads a sheet's comments: by row, in order."""

    found: dict[int, list[str]] = field(default_factory=dict)
    _authors: list[str] = field(default_factory=list)
    _pieces: list[str] = field(default_factory=list)
    _open: bool = False
    _ref: str = ""
    _author: str = ""

    def start(self, name: str, attributes: dict[str, str]) -> None:
        if name == "comment":
            self._ref = attributes.get("ref", "")
            author = attributes.get("authorId", "")
            known = author.isdecimal() and int(author) < len(self._authors)
            self._author = self._authors[int(author)] if known else ""
            self._pieces.clear()
        elif name == "author":
            self._pieces.clear()
        self._open = name in ("t", "author")

    def end(self, name: str) -> None:
        self._open = False
        text = one_line("".join(self._pieces), 5_000)
        if name == "author":
            self._authors.append(text)
        elif name == "comment" and text:
            row = int("".join(filter(str.isdecimal, self._ref)) or 0)
            who = f" by {self._author}" if self._author else ""
            self.found.setdefault(row, []).append(f"Comment on {self._ref}{who}: {text}")

    def text(self, data: str) -> None:
        if self._open:
            self._pieces.append(data)


class Rows:
    """Reads a sheet's XML and adds its rows to a table. `number` is the row that was read last."""

    def __init__(
        self, table: Table, pager: Pager, strings: Sequence[str], formats: Formats, comments: dict[int, list[str]]
    ) -> None:
        self.number = 0
        self._table = table
        self._pager = pager
        self._strings = strings
        self._formats = formats
        self._comments = comments
        self._codes: dict[str | None, str] = {}
        self._columns: dict[str, int] = {}
        self._cells: list[str] = []
        self._at = self._filled = 0
        self._type = self._style = ""
        self._value: list[str] = []
        self._formula: list[str] = []
        self._into: list[str] | None = None
        self._hidden_rows: list[list[int]] = []
        self._hidden_columns: list[str] = []

    def start(self, name: str, attributes: dict[str, str]) -> None:
        if name == "c":
            self._type, self._style = attributes.get("t", "n"), attributes.get("s", "")
            self._at = self._index(attributes.get("r", ""))
            self._value, self._formula = [], []
        elif name in ("v", "t"):
            self._into = self._value
        elif name == "f":
            self._into = self._formula
        elif name == "row":
            stated = attributes.get("r", "")
            self.number = int(stated) if stated.isdecimal() and len(stated) < 9 else self.number + 1
            self._cells, self._filled = [], 0
            if attributes.get("hidden") in ("1", "true"):
                self._hide(self.number)
        elif name == "col" and attributes.get("hidden") in ("1", "true"):
            self._hide_columns(attributes)

    def end(self, name: str) -> None:
        if name == "c":
            self._put()
        elif name in ("v", "t", "f"):
            self._into = None
        elif name == "row":
            self._table.add(self.number, self._cells)
            for note in self._comments.pop(self.number, ()):
                self._pager.aside(PartKind.NOTE, note)

    def text(self, data: str) -> None:
        if self._into is not None:
            self._into.append(data)

    def finish(self) -> None:
        """What is left to say of the sheet."""
        for notes in self._comments.values():
            for note in notes:
                self._pager.aside(PartKind.NOTE, note)
        self._comments.clear()
        if self._hidden_rows:
            spans = [str(a) if a == b else f"{a}-{b}" for a, b in self._hidden_rows[:_NAMED]]
            more = f" and {len(self._hidden_rows) - _NAMED} more" if len(self._hidden_rows) > _NAMED else ""
            self._pager.aside(PartKind.NOTE, f"Hidden rows: {', '.join(spans)}{more}")
        if self._hidden_columns:
            self._pager.aside(PartKind.NOTE, f"Hidden columns: {', '.join(self._hidden_columns[:_NAMED])}")
        self._table.finish()

    def _index(self, ref: str) -> int:
        """The column of a cell, from 0: by its name ("BC12"), else the next."""
        letters = ref.rstrip("0123456789")
        found = self._columns.get(letters)
        if found is None:
            found = 0
            for letter in letters.upper()[:4]:
                found = found * 26 + ord(letter) - 64 if "A" <= letter <= "Z" else _COLUMNS + 1
            if not 0 < found <= _COLUMNS:
                return min(len(self._cells), _COLUMNS - 1)
            self._columns[letters] = found
        return found - 1

    def _put(self) -> None:
        text = self._shown()[: _CELL + 1]
        self._filled += len(text)
        if len(text) > _CELL or self._filled > _ROW:
            # Made to harm: one text that is meant by thousands of cells.
            self._pager.left_out += len(text)
            return
        if not text:
            return
        cells = self._cells
        if self._at >= len(cells):
            cells.extend([""] * (self._at - len(cells)))
            cells.append(text)
        else:
            cells[self._at] = text

    def _shown(self) -> str:
        value = "".join(self._value)
        if self._type == "s":
            index = int(value) if value.strip().isdecimal() else -1
            return self._strings[index] if 0 <= index < len(self._strings) else ""
        if self._type == "b":
            return {"1": "TRUE", "0": "FALSE"}.get(value.strip(), value)
        if self._type != "n":
            return value
        if not value:
            return f"={''.join(self._formula)}" if self._formula else ""
        code = self._codes.get(self._style)
        if code is None:
            code = self._codes[self._style] = self._formats.code(self._style)
        try:
            return shown(float(value), code, self._formats.from_1904)
        except (ValueError, OverflowError):
            return value

    def _hide(self, row: int) -> None:
        if self._hidden_rows and self._hidden_rows[-1][1] == row - 1:
            self._hidden_rows[-1][1] = row
        else:
            self._hidden_rows.append([row, row])

    def _hide_columns(self, attributes: dict[str, str]) -> None:
        first, last = attributes.get("min", ""), attributes.get("max", "")
        if first.isdecimal() and last.isdecimal() and 0 < int(first) <= int(last) <= _COLUMNS:
            a, b = column(int(first) - 1), column(int(last) - 1)
            self._hidden_columns.append(a if a == b else f"{a}-{b}")
