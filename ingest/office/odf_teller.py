"""What the texts of all OpenDocument files have in common: paragraphs, notes, comments, deletions, hidden text."""

from dataclasses import dataclass, field

from unabridged.ingest.document import PartKind
from unabridged.ingest.office.docx_styles import number
from unabridged.ingest.office.odf_styles import Styles
from unabridged.ingest.office.xmlfeed import attribute
from unabridged.ingest.texts.normalise import one_line
from unabridged.ingest.texts.pager import Pager

_UNTOLD = frozenset(
    {"svg:title", "svg:desc", "note-citation", "binary-data", "dc:creator", "dc:date", "creator-initials"}
)
_NOTES = frozenset({"note", "annotation", "changed-region"})


@dataclass
class _Paragraph:
    pieces: list[str] = field(default_factory=list)
    style: str = ""
    level: int = 0


@dataclass
class _Aside:
    """A note, annotation or deletion that is being read."""

    kind: str
    lines: list[str] = field(default_factory=list)
    who: str = ""
    day: str = ""
    deleted: bool = False


class Teller:
    """Reads content.xml. Its styles come first in it and are added to those of styles.xml."""

    def __init__(self, pager: Pager, styles: Styles) -> None:
        self.pager = pager
        self.styles = styles
        self._paragraphs: list[_Paragraph] = []
        self._spans: list[bool] = []
        self._asides: list[_Aside] = []
        self._unseen: list[str] = []
        self._untold = ""
        self._fact: list[str] = []
        self._head = False
        self._notes = 0

    def start(self, name: str, attributes: dict[str, str]) -> None:
        if self._head:
            self.styles.start(name, attributes)
        elif name == "automatic-styles":
            self._head = True
        elif self._untold:
            pass
        elif name in ("p", "h"):
            level = number(attribute(attributes, "outline-level") or "1") if name == "h" else 0
            self._paragraphs.append(_Paragraph([], attribute(attributes, "style-name") or "", level))
            self.begin_paragraph(self._paragraphs[-1].style)
        elif name == "span":
            self._spans.append(self.styles.is_hidden(attribute(attributes, "style-name") or ""))
        elif name == "s":
            self._say(" " * min(100, max(1, number(attribute(attributes, "c") or "1"))))
        elif name == "tab":
            self._say("\t")
        elif name == "line-break":
            self._say("\n")
        elif name in _NOTES:
            self._begin_aside(name)
        elif name == "deletion" and self._asides:
            self._asides[-1].deleted = True
        elif name in _UNTOLD:
            self._untold, self._fact = name, []
        else:
            self.begin(name, attributes)

    def end(self, name: str) -> None:
        if self._head:
            self._head = name != "automatic-styles"
            self.styles.end(name)
        elif self._untold:
            if name == self._untold:
                self._end_untold()
        elif name in ("p", "h"):
            self._end_paragraph()
        elif name == "span" and self._spans:
            self._spans.pop()
        elif name in _NOTES and self._asides:
            self._end_aside()
        else:
            self.finish_element(name)

    def text(self, data: str) -> None:
        if self._untold:
            self._fact.append(data)
        elif self._paragraphs and not self._head:
            self._say(data.replace("\n", " "))

    def finish(self) -> None:
        """What was being read when the file ended early."""
        while self._paragraphs:
            self._end_paragraph()

    def begin(self, name: str, attributes: dict[str, str]) -> None:
        """Another element begins."""

    def finish_element(self, name: str) -> None:
        """Another element ends."""

    def begin_paragraph(self, style: str) -> None:
        """A paragraph begins."""

    def paragraph(self, text: str, level: int, style: str) -> None:
        """A paragraph that is no part of a note; `level` from 1 for a heading."""

    def note(self, text: str) -> None:
        """A note, where it is anchored."""
        self.pager.aside(PartKind.NOTE, text)

    def _say(self, piece: str) -> None:
        if not self._paragraphs:
            return
        if any(self._spans):
            self._unseen.append(piece)
        else:
            self._paragraphs[-1].pieces.append(piece)

    def _end_paragraph(self) -> None:
        if not self._paragraphs:
            return
        paragraph = self._paragraphs.pop()
        text = "".join(paragraph.pieces).strip()
        if unseen := "".join(self._unseen).strip():
            self.pager.aside(PartKind.HIDDEN, f"Hidden text: {unseen}")
            self._unseen.clear()
        if not text:
            return
        if self._asides:
            self._asides[-1].lines.append(text)
        elif self.styles.is_hidden(paragraph.style):
            self.pager.aside(PartKind.HIDDEN, f"Hidden text: {text}")
        else:
            self.paragraph(text, paragraph.level, paragraph.style)

    def _begin_aside(self, name: str) -> None:
        if name == "note":
            self._notes += 1
            self._say(f"[^{self._notes}]")
        self._asides.append(_Aside(name))

    def _end_untold(self) -> None:
        fact = one_line("".join(self._fact), 200)
        if self._asides and self._untold == "dc:creator":
            self._asides[-1].who = fact
        elif self._asides and self._untold == "dc:date":
            self._asides[-1].day = fact.partition("T")[0]
        elif self._untold == "svg:desc" and fact:
            self._say(f"[picture: {fact}]")
        self._untold = ""

    def _end_aside(self) -> None:
        aside = self._asides.pop()
        text = "\n".join(aside.lines)
        who = ", ".join(filter(None, (aside.who, aside.day)))
        by = "".join((f" by {aside.who}" if aside.who else "", f", {aside.day}" if aside.day else ""))
        if not text:
            return
        if aside.kind == "note":
            self.note(f"[^{self._notes}] {text}")
        elif aside.kind == "annotation":
            self.note(f"Comment{by}: {text}")
        elif aside.deleted:
            self.pager.aside(PartKind.HIDDEN, f"Deleted ({who}): {text}" if who else f"Deleted: {text}")
