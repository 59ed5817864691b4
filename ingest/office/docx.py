"""A Word document (.docx, .docm) to pages: as Word broke them when it last laid the document out, where it says so.

Footnotes, endnotes and comments stand on the page that cites them. A page's label is the printed page where Word's
breaks are known, else the heading that it lies under.
"""

import posixpath
from collections.abc import Iterator
from dataclasses import dataclass, field

from unabridged.ingest.archives.zipfiles import Zip, ZipError
from unabridged.ingest.document import Item, Kind, PartKind, Status
from unabridged.ingest.office.docx_story import Story
from unabridged.ingest.office.docx_styles import Lists, Styles
from unabridged.ingest.office.embedded import children
from unabridged.ingest.office.opc import Drawing, Package
from unabridged.ingest.office.word import Teller, WordPages
from unabridged.ingest.office.xmlfeed import attribute
from unabridged.ingest.reading import Place, Reading, Source, Unreadable
from unabridged.ingest.texts.normalise import one_line
from unabridged.ingest.texts.pager import Pager

EXTRACTOR = "docx 1"
_RENDERED = b"lastRenderedPageBreak"
_DRAWINGS = ("chart", "diagramData")


def read_zip(archive: Zip, source: Source, reading: Reading, place: Place) -> Iterator[Item]:
    """The document and what is embedded in it."""
    package = Package(archive)
    main = package.main("word/document.xml")
    if archive.find(main) is None:
        raise Unreadable(Status.DAMAGED, "; ".join(filter(None, [archive.damage, f"its text ({main}) is missing"])))
    ref = reading.ref()
    title, meta = package.metadata()
    yield source.opened(ref, place, Kind.WORD, title, meta)
    pager = Pager(ref, reading.limits, EXTRACTOR)
    yield from _body(package, main, pager)
    yield from pager.take()
    yield from children(package, posixpath.dirname(main), reading, Place(parent=ref, depth=place.depth + 1))
    yield pager.ended(package.notes)


def _body(package: Package, main: str, pager: Pager) -> Iterator[Item]:
    styles, lists = Styles(), Lists()
    for handler, kind in ((styles, "styles"), (lists, "numbering")):
        for part in package.related(main, kind)[:1]:
            package.read(part, handler)
    printed = _is_laid_out(package, main)
    body = _Body(pager, printed, _notes(package, main, styles))
    _margins(package, main, styles, body)
    story = Story(body, styles, lists)
    for _ in package.feed(main, story):
        yield from pager.take()
    story.finish()
    for kind in _DRAWINGS:
        for part in package.related(main, kind)[:200]:
            drawing = Drawing()
            package.read(part, drawing)
            pager.aside(PartKind.NOTE, " ".join(drawing.lines))
    body.rest()
    pager.close()


def _is_laid_out(package: Package, main: str) -> bool:
    """Whether Word has written down where its pages end."""
    member = package.zip.find(main)
    try:
        return member is not None and any(_RENDERED in piece for piece in package.zip.pieces(member))
    except ZipError:
        return False  # said when it is read


class _Body(WordPages):
    """Puts the text into pages, and the notes where they are cited."""

    def __init__(self, pager: Pager, printed: bool, notes: dict[tuple[str, str], str]) -> None:
        super().__init__(pager, printed)
        self._notes = notes

    def note(self, kind: str, mark: str) -> str:
        text = self._notes.pop((kind, mark), None)
        return "" if text is None else self.cite(kind, text)

    def rest(self) -> None:
        """What nothing cites."""
        for text in self._notes.values():
            self.pager.aside(PartKind.NOTE, text)


@dataclass
class _Notes(Teller):
    """Gathers the text of notes by their mark, or of a header."""

    found: list[str] = field(default_factory=list)

    def paragraph(self, text: str, level: int, item: bool) -> None:
        self.found.append(text)

    def row(self, cells: list[str]) -> None:
        self.found.append("\t".join(cells))

    def hidden(self, text: str) -> None:
        self.found.append(text)

    def note(self, kind: str, mark: str) -> str:
        return ""

    def page_break(self) -> None:
        pass


class _NoteStory(Story):
    """Reads footnotes.xml, endnotes.xml or comments.xml."""

    def __init__(self, styles: Styles) -> None:
        self.teller = _Notes()
        super().__init__(self.teller, styles, Lists())
        self.notes: dict[str, str] = {}
        self._mark = self._who = ""

    def start(self, name: str, attributes: dict[str, str]) -> None:
        if name in ("footnote", "endnote", "comment"):
            self.teller.found.clear()
            self._mark = attribute(attributes, "id") or ""
            if name == "comment":
                who = one_line(attribute(attributes, "author") or "unknown", 100)
                day = (attribute(attributes, "date") or "").partition("T")[0]
                self._who = f"Comment by {who}{', ' + day if day else ''}: "
        super().start(name, attributes)

    def end(self, name: str) -> None:
        super().end(name)
        if name in ("footnote", "endnote", "comment") and (text := "\n".join(self.teller.found).strip()):
            self.notes[self._mark] = self._who + text


def _notes(package: Package, main: str, styles: Styles) -> dict[tuple[str, str], str]:
    found: dict[tuple[str, str], str] = {}
    for kind in ("footnote", "endnote", "comment"):
        for part in package.related(main, f"{kind}s")[:1]:
            story = _NoteStory(styles)
            package.read(part, story)
            found.update({(kind, mark): text for mark, text in story.notes.items()})
    return found


def _margins(package: Package, main: str, styles: Styles, body: _Body) -> None:
    """What stands at the head and foot of pages, once, as notes of the first."""
    said: list[str] = []
    for kind, name in (("header", "Page header"), ("footer", "Page footer")):
        for part in package.related(main, kind)[:100]:
            teller = _Notes()
            story = Story(teller, styles, Lists())
            package.read(part, story)
            story.finish()
            if text := " ".join(one_line(line) for line in teller.found):
                said.append(f"{name}: {text}")
    for line in dict.fromkeys(said):
        body.pager.aside(PartKind.NOTE, line)
