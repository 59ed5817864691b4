"""A spreadsheet (.ods): its cells hold the text that they show, row by row."""

from unabridged.ingest.document import PartKind
from unabridged.ingest.office import labels
from unabridged.ingest.office.docx_styles import number
from unabridged.ingest.office.odf_styles import Styles
from unabridged.ingest.office.odf_teller import Teller
from unabridged.ingest.office.xmlfeed import attribute
from unabridged.ingest.texts.normalise import one_line
from unabridged.ingest.texts.pager import Pager
from unabridged.ingest.texts.table import Table

_REPEATS = 200  # equal rows that are written out
_COLUMNS = 16_384


class Sheets(Teller):
    """Puts the rows of each sheet into pages of its own."""

    def __init__(self, pager: Pager, styles: Styles) -> None:
        super().__init__(pager, styles)
        self._table: Table | None = None
        self._depth = 0
        self._row = 0
        self._repeat = self._columns = 1
        self._cells: list[str] = []
        self._cell: list[str] = []
        self._remarks: list[str] = []

    def begin(self, name: str, attributes: dict[str, str]) -> None:
        if name == "table":
            self._depth += 1
            if self._depth == 1:
                self._begin_sheet(attributes)
        elif name == "table-row":
            self._cells = []
            self._repeat = max(1, number(attribute(attributes, "number-rows-repeated") or "1"))
        elif name in ("table-cell", "covered-table-cell"):
            self._cell = []
            self._columns = max(1, number(attribute(attributes, "number-columns-repeated") or "1"))

    def finish_element(self, name: str) -> None:
        if name in ("table-cell", "covered-table-cell"):
            text = " ".join(self._cell)
            times = self._columns if text or len(self._cells) + self._columns < _COLUMNS else 0
            self._cells.extend([text] * min(times, _COLUMNS - len(self._cells)))
        elif name == "table-row" and self._table is not None:
            self._end_row(self._table)
        elif name == "table":
            self._depth -= 1
            if not self._depth:
                self._end_sheet()

    def paragraph(self, text: str, level: int, style: str) -> None:
        self._cell.append(text)

    def note(self, text: str) -> None:
        self._remarks.append(text)

    def finish(self) -> None:
        super().finish()
        self._end_sheet()

    def _begin_sheet(self, attributes: dict[str, str]) -> None:
        name = one_line(attribute(attributes, "name") or "", 100)
        shown = self.styles.is_shown(attribute(attributes, "style-name") or "")
        self._table, self._row = Table(self.pager, labels.sheet(self.pager, name, not shown)), 0

    def _end_row(self, table: Table) -> None:
        # Empty rows to the end of the sheet are one element; so may be equal ones.
        times = min(self._repeat, _REPEATS) if any(self._cells) else 0
        for at in range(times):
            table.add(self._row + 1 + at, self._cells)
        if times and times < self._repeat:
            self._remarks.append(
                f"Rows {self._row + times + 1}-{self._row + self._repeat}: the same as the row before."
            )
        self._row += self._repeat
        for remark in self._remarks:
            self.pager.aside(PartKind.NOTE, f"Row {self._row}: {remark}" if remark.startswith("Comment") else remark)
        self._remarks.clear()

    def _end_sheet(self) -> None:
        if self._table is not None:
            self._table.finish()
            self.pager.close()
        self._table = None
