"""The XML of a Word document's text, told to a `Teller` as paragraphs, table rows, notes and page breaks.

One `Story` reads the body, another the footnotes, comments, headers and footers: the same elements in all of them.
Text boxes come in front of the paragraph that they are anchored in. What was deleted with changes tracked, and what is
formatted as hidden, is told apart; what was inserted is text.
"""

from collections.abc import Callable

from unabridged.ingest.office.docx_parts import Change, Grid, Paragraph
from unabridged.ingest.office.docx_styles import Lists, Styles, number
from unabridged.ingest.office.opc import on
from unabridged.ingest.office.word import Teller
from unabridged.ingest.office.xmlfeed import attribute

_TINY = 4  # half points: two points cannot be read
_NOTES = {"footnoteReference": "footnote", "endnoteReference": "endnote", "commentReference": "comment"}
_HYPHENS = {"noBreakHyphen": "-", "softHyphen": "", "tab": "\t", "cr": "\n", "ptab": "\t"}


class Story:
    """Reads one part of a document."""

    def __init__(self, teller: Teller, styles: Styles, lists: Lists) -> None:
        self._teller = teller
        self._styles = styles
        self._lists = lists
        self._skipped = 0  # levels into what is not read
        self._properties = 0  # levels into a paragraph's properties
        self._paragraphs: list[Paragraph] = []
        self._grid = Grid()
        self._changes: list[Change] = []
        self._open = False
        self._pieces: list[str] = []
        self._hidden = False
        self._unseen: list[str] = []
        self._break = False  # a page broke within the row
        self._starts: dict[str, Callable[[dict[str, str]], None]] = {
            "p": lambda _: self._paragraphs.append(Paragraph()),
            "pPr": self._begin_properties,
            "r": self._begin_run,
            "t": self._begin_text,
            "delText": self._begin_text,
            "vanish": self._vanish,
            "sz": self._size,
            "rStyle": self._run_style,
            "pStyle": self._paragraph_style,
            "outlineLvl": self._outline,
            "numId": self._list_id,
            "ilvl": self._list_level,
            "br": self._line_break,
            "lastRenderedPageBreak": lambda _: self._page_break(),
            "pageBreakBefore": lambda attributes: self._page_break() if on(attributes) else None,
            "sectPr": self._section,
            "type": self._section_type,
            "del": self._begin_change,
            "moveFrom": self._begin_change,
            "tr": lambda _: self._grid.begin_row(),
            "tc": lambda _: self._grid.begin_cell(),
            "sym": self._symbol,
            "docPr": self._described,
        }
        self._ends: dict[str, Callable[[], None]] = {
            "p": self._end_paragraph,
            "pPr": self._end_properties,
            "t": self._end_text,
            "delText": self._end_text,
            "del": self._end_change,
            "moveFrom": self._end_change,
            "tr": self._end_row,
            "tc": self._grid.end_cell,
        }

    def start(self, name: str, attributes: dict[str, str]) -> None:
        if self._skipped or name == "Fallback":
            # What stands in for a newer form of the same thing, which was read.
            self._skipped += 1
        elif begin := self._starts.get(name):
            begin(attributes)
        elif name in _HYPHENS and not self._properties:
            self._say(_HYPHENS[name])
        elif name in _NOTES:
            self._say(self._teller.note(_NOTES[name], attribute(attributes, "id") or ""))

    def end(self, name: str) -> None:
        if self._skipped:
            self._skipped -= 1
        elif finish := self._ends.get(name):
            finish()

    def text(self, data: str) -> None:
        if self._open:
            self._pieces.append(data)

    def finish(self) -> None:
        """Tells what was being read when the part ended early."""
        self._end_text()
        while self._paragraphs:
            self._end_paragraph()
        while self._grid.open:
            self._grid.end_cell()
            self._end_row()

    def _say(self, piece: str) -> None:
        """Text of the run, to where it belongs."""
        if self._changes:
            self._changes[-1].pieces.append(piece)
        elif self._hidden:
            self._unseen.append(piece)
        elif self._paragraphs:
            self._paragraphs[-1].pieces.append(piece)

    def _end_paragraph(self) -> None:
        if not self._paragraphs:
            return
        self._tell()
        paragraph = self._paragraphs.pop()
        if unseen := "".join(self._unseen).strip():
            self._teller.hidden(f"Hidden text: {unseen}")
        self._unseen.clear()
        if paragraph.section_break and not self._grid.in_cell:
            self._teller.page_break()

    def _tell(self) -> None:
        """Tells what the paragraph has so far."""
        paragraph = self._paragraphs[-1]
        body, item = "".join(paragraph.pieces).strip(" \n"), False
        paragraph.pieces.clear()
        if not body.strip():
            return
        if not paragraph.numbered:
            paragraph.numbered = True
            mark = self._number(paragraph)
            item = bool(mark)
            body = f"{mark} {body}" if mark else body
        if self._grid.in_cell:
            self._grid.add(body)
            return
        level = self._styles.heading(paragraph.style)
        if paragraph.outline is not None:
            level = min(6, paragraph.outline + 1) if paragraph.outline < 9 else 0
        self._teller.paragraph(body, level, item)

    def _number(self, paragraph: Paragraph) -> str:
        list_id, level = self._styles.numbering(paragraph.style)
        list_id = list_id if paragraph.list_id is None else paragraph.list_id
        level = level if paragraph.list_level is None else paragraph.list_level
        mark = self._lists.next(list_id, level) if list_id not in ("", "0") else ""
        return "  " * level + mark if mark and mark.count(".") < 2 else mark

    def _begin_properties(self, _: dict[str, str]) -> None:
        self._properties += 1

    def _end_properties(self) -> None:
        self._properties -= 1

    def _begin_run(self, _: dict[str, str]) -> None:
        self._hidden = bool(self._paragraphs) and self._styles.hidden(self._paragraphs[-1].style)

    def _begin_text(self, _: dict[str, str]) -> None:
        self._open = True

    def _end_text(self) -> None:
        self._open = False
        if self._pieces:
            self._say("".join(self._pieces))
            self._pieces.clear()

    def _vanish(self, attributes: dict[str, str]) -> None:
        if not self._properties:
            self._hidden = on(attributes)

    def _size(self, attributes: dict[str, str]) -> None:
        if not self._properties and 0 < number(attribute(attributes, "val") or "") < _TINY:
            self._hidden = True

    def _run_style(self, attributes: dict[str, str]) -> None:
        if not self._properties and self._styles.hidden(attribute(attributes, "val") or ""):
            self._hidden = True

    def _paragraph_style(self, attributes: dict[str, str]) -> None:
        if self._paragraphs:
            self._paragraphs[-1].style = attribute(attributes, "val") or ""

    def _outline(self, attributes: dict[str, str]) -> None:
        if self._paragraphs:
            self._paragraphs[-1].outline = number(attribute(attributes, "val") or "")

    def _list_id(self, attributes: dict[str, str]) -> None:
        if self._paragraphs and self._properties:
            self._paragraphs[-1].list_id = attribute(attributes, "val") or ""

    def _list_level(self, attributes: dict[str, str]) -> None:
        if self._paragraphs and self._properties:
            self._paragraphs[-1].list_level = number(attribute(attributes, "val") or "")

    def _line_break(self, attributes: dict[str, str]) -> None:
        if attribute(attributes, "type") == "page":
            self._page_break()
        else:
            self._say("\n")

    def _page_break(self) -> None:
        if self._grid.in_cell:
            self._break = True
        elif len(self._paragraphs) <= 1 and not self._changes:
            if self._paragraphs:
                self._tell()
            self._teller.page_break()

    def _section(self, _: dict[str, str]) -> None:
        if self._paragraphs and self._properties:
            self._paragraphs[-1].section_break = True

    def _section_type(self, attributes: dict[str, str]) -> None:
        if self._paragraphs and attribute(attributes, "val") == "continuous":
            self._paragraphs[-1].section_break = False

    def _begin_change(self, attributes: dict[str, str]) -> None:
        who = ", ".join(
            filter(None, (attribute(attributes, "author"), (attribute(attributes, "date") or "").partition("T")[0]))
        )
        self._changes.append(Change(who))

    def _end_change(self) -> None:
        change = self._changes.pop() if self._changes else Change("")
        if text := "".join(change.pieces).strip():
            self._teller.hidden(f"Deleted ({change.who}): {text}" if change.who else f"Deleted: {text}")

    def _symbol(self, attributes: dict[str, str]) -> None:
        code = number(attribute(attributes, "char") or "", 16)
        self._say(chr(code) if 0x20 < code < 0xD800 else "")  # what lies beyond is a picture of a symbol font

    def _described(self, attributes: dict[str, str]) -> None:
        """What a picture shows, as its author says it."""
        if text := (attribute(attributes, "descr") or "").strip():
            self._say(f"[picture: {text}]")

    def _end_row(self) -> None:
        row = self._grid.end_row()
        if row is None:
            return
        if self._break:
            self._break = False
            self._teller.page_break()
        if len(row) == 1:
            for text in row[0]:
                self._teller.paragraph(text, 0, False)
        elif any(row):
            self._teller.row([" ".join(cell) for cell in row])
