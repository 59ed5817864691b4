"""A presentation or a drawing (.odp, .odg): a page of it is a page, with its notes."""

from unabridged.ingest.document import PartKind
from unabridged.ingest.office import labels
from unabridged.ingest.office.odf_styles import Styles
from unabridged.ingest.office.odf_teller import Teller
from unabridged.ingest.office.xmlfeed import attribute
from unabridged.ingest.texts.pager import Pager


class Slides(Teller):
    """Puts the text of each slide on its page."""

    def __init__(self, pager: Pager, styles: Styles) -> None:
        super().__init__(pager, styles)
        self._slide = 0
        self._in_notes = False
        self._lines: list[str] = []
        self._title = False
        self._row: list[str] | None = None

    def begin(self, name: str, attributes: dict[str, str]) -> None:
        if name == "page":
            self._slide += 1
            shown = self.styles.is_shown(attribute(attributes, "style-name") or "")
            labels.slide(self.pager, self._slide, not shown)
        elif name == "notes":
            self._in_notes, self._lines = True, []
        elif name == "frame":
            self._title = attribute(attributes, "class") == "title"
        elif name == "table-row":
            self._row = []

    def finish_element(self, name: str) -> None:
        if name == "notes":
            self._in_notes = False
            if self._lines:
                self.pager.aside(PartKind.NOTE, "Notes: " + "\n".join(self._lines))
        elif name == "page":
            self.pager.close(empty=True)
        elif name == "table-row" and self._row is not None:
            self.pager.add("\t".join(self._row))
            self._row = None

    def paragraph(self, text: str, level: int, style: str) -> None:
        if self._in_notes:
            self._lines.append(text)
        elif self._row is not None:
            self._row.append(text)
        else:
            self.pager.add(f"# {text}" if self._title else text, "\n\n" if self._title else "\n")
