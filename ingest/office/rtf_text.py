"""What RTF holds between its words: the state of a group, and the paragraphs, rows and notes that its text becomes."""

from collections.abc import Callable
from dataclasses import dataclass, field

from unabridged.ingest.office.word import Teller


@dataclass
class Group:
    """What holds in a group and, until they say otherwise, in the groups within it."""

    skipped: bool = False
    codec: str = ""
    fallback: int = 1  # characters behind \\u that stand in for it
    hidden: bool = False
    deleted: bool = False
    info: bool = False
    fonts: bool = False
    styles: bool = False
    mark: bool = False  # the number or bullet of an item
    object: bool = False
    # Of this group alone:
    note: bool = False
    fact: str = ""
    optional: bool = False  # begun with \\*


@dataclass
class Note:
    kind: str
    who: str
    pieces: list[str] = field(default_factory=list)


class Collector:
    """Gathers text and tells it, paragraph by paragraph. `facts` are filled on the way."""

    def __init__(self, teller: Teller, cite: Callable[[str, str], str]) -> None:
        self.facts: dict[str, str] = {}
        self.in_table = False
        self.level = 0
        self.listed = False
        self._teller = teller
        self._cite = cite
        self._line: list[str] = []
        self._unseen: dict[str, list[str]] = {"Hidden text": [], "Deleted": []}
        self._fact: list[str] = []
        self._row: list[str] = []
        self._notes: list[Note] = []
        self._author = ""

    @property
    def in_note(self) -> bool:
        """A note is being read."""
        return bool(self._notes)

    @property
    def in_line(self) -> bool:
        """The paragraph has text already."""
        return bool(self._line)

    def begin_note(self, kind: str) -> None:
        """A note begins."""
        self._notes.append(Note(kind, self._author))
        self._author = ""

    def end_fact(self, name: str) -> None:
        """What was gathered is a fact of the document, or the author of a comment that comes."""
        text = "".join(self._fact).strip()
        self._fact.clear()
        if name == "atnauthor":
            self._author = text
        else:
            self.facts.setdefault(name, text)

    def put(self, text: str, group: Group) -> None:
        """Text of a group."""
        if group.fact:
            self._fact.append(text)
        elif group.info:
            return
        elif self._notes:
            self._notes[-1].pieces.append(text)
        elif group.hidden or group.deleted:
            self._unseen["Deleted" if group.deleted else "Hidden text"].append(text)
        else:
            self._line.append(text)

    def end_paragraph(self) -> None:
        """A paragraph ends; within a cell or a note, a line."""
        if self._notes:
            self._notes[-1].pieces.append("\n")
            return
        if self.in_table:
            self._line.append("\n")
            return
        self.end_row()
        text = "".join(self._line).strip()
        self._line.clear()
        if text:
            self._teller.paragraph(text.replace("\t", " ", 1) if self.listed else text, self.level, self.listed)
        self.listed = False
        self._tell_unseen()

    def _tell_unseen(self) -> None:
        for name, pieces in self._unseen.items():
            if text := "".join(pieces).strip():
                self._teller.hidden(f"{name}: {text}")
            pieces.clear()

    def end_cell(self) -> None:
        """A cell ends."""
        if self._notes:
            self._notes[-1].pieces.append("\t")
        elif self._line:
            self._row.append(" ".join("".join(self._line).split()))
            self._line.clear()
        else:
            self._row.append("")

    def end_row(self) -> None:
        """A row ends."""
        row, self._row = self._row, []
        if any(row):
            self._teller.row(row)
        self._tell_unseen()

    def end_note(self, group: Group) -> None:
        """The note that was begun last ends; `group` cites it."""
        note = self._notes.pop()
        text = " ".join("".join(note.pieces).split())
        if not text:
            return
        if note.kind == "comment":
            self._cite("comment", f"Comment by {note.who}: {text}" if note.who else f"Comment: {text}")
        elif note.kind == "footnote":
            self.put(self._cite("footnote", text), group)
        else:
            self._cite("comment", f"{note.kind}: {text}")
