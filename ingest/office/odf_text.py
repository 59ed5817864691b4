"""A text document (.odt): page breaks where its program laid them out or its author set them."""

from unabridged.ingest.office.docx_parts import Grid
from unabridged.ingest.office.odf_styles import Counter, Styles
from unabridged.ingest.office.odf_teller import Teller
from unabridged.ingest.office.word import WordPages
from unabridged.ingest.office.xmlfeed import attribute
from unabridged.ingest.texts.pager import Pager


class Text(Teller):
    """Puts headings, paragraphs, list items and table rows into pages."""

    def __init__(self, pager: Pager, styles: Styles) -> None:
        super().__init__(pager, styles)
        self._lists: list[str] = []
        self._counters: dict[str, Counter] = {}
        self._item = False  # the next paragraph begins an item
        self._grid = Grid()
        self._pages = WordPages(pager)

    def begin(self, name: str, attributes: dict[str, str]) -> None:
        if name == "list":
            own = attribute(attributes, "style-name") or ""
            self._lists.append(own or (self._lists[-1] if self._lists else ""))
        elif name == "list-item":
            self._item = True
        elif name == "table-row":
            self._grid.begin_row()
        elif name in ("table-cell", "covered-table-cell"):
            self._grid.begin_cell()
        elif name == "soft-page-break" and not self._grid.in_cell:
            self.pager.close()

    def finish_element(self, name: str) -> None:
        if name == "list" and self._lists:
            self._lists.pop()
        elif name == "list-item":
            self._item = False
        elif name in ("table-cell", "covered-table-cell"):
            self._grid.end_cell()
        elif name == "table-row":
            self._end_row()

    def begin_paragraph(self, style: str) -> None:
        if self.styles.breaks(style) and not self._grid.in_cell and len(self._paragraphs) == 1:
            self.pager.close()

    def paragraph(self, text: str, level: int, style: str) -> None:
        mark = ""
        if level:
            mark = self._counter("").next(level)
        elif self._item:
            self._item = False
            name = self._lists[-1] if self._lists else ""
            mark = self._counter(name or self.styles.list_of(style)).next(len(self._lists)) or "-"
        indent = "" if level or mark.count(".") > 1 else "  " * max(0, len(self._lists) - 1)
        text = f"{indent}{mark} {text}" if mark else text
        if self._grid.in_cell:
            self._grid.add(text)
            return
        self._pages.paragraph(text, min(6, level), bool(mark))

    def finish(self) -> None:
        super().finish()
        while self._grid.open:
            self._grid.end_cell()
            self._end_row()

    def _end_row(self) -> None:
        row = self._grid.end_row()
        if row is not None:
            self._pages.row([" ".join(cell) for cell in row])

    def _counter(self, name: str) -> Counter:
        return self._counters.setdefault(name, Counter(self.styles.lists.get(name, {})))
