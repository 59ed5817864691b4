"""A PowerPoint presentation (.pptx, .ppsx, .pptm) to pages: a slide is a page, with its notes and comments.

A slide that is hidden says so in its label; shapes that are hidden or lie off the slide are kept apart.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from unabridged.ingest.archives.zipfiles import Zip
from unabridged.ingest.document import Item, Kind, PartKind, Status
from unabridged.ingest.office import labels
from unabridged.ingest.office.embedded import children
from unabridged.ingest.office.opc import Drawing, Package
from unabridged.ingest.office.pptx_slide import Remarks, Slide
from unabridged.ingest.office.xmlfeed import Quiet
from unabridged.ingest.reading import Place, Reading, Source, Unreadable
from unabridged.ingest.texts.pager import Pager

EXTRACTOR = "pptx 1"
_SLIDES = 10_000
_SLIDE_CHARS = 12_000  # a slide is one page unless it is made to hold a book


@dataclass
class _Presentation(Quiet):
    """Reads ppt/presentation.xml: the slides in order, and their size."""

    slides: list[str] = field(default_factory=list)
    width: int = 0
    height: int = 0

    def start(self, name: str, attributes: dict[str, str]) -> None:
        if name == "sldId" and len(self.slides) < _SLIDES:
            ids = [value for key, value in attributes.items() if key.endswith(" id")]
            self.slides.append(ids[0] if ids else "")
        elif name == "sldSz":
            size = [attributes.get(key, "") for key in ("cx", "cy")]
            self.width, self.height = (int(side) if side.isdecimal() else 0 for side in size)


def read_zip(archive: Zip, source: Source, reading: Reading, place: Place) -> Iterator[Item]:
    """The presentation, and what is embedded in it."""
    package = Package(archive)
    main = package.main("ppt/presentation.xml")
    show = _Presentation()
    package.read(main, show)
    targets = {relation.id: relation.target for relation in package.relations(main)}
    slides = [targets[slide] for slide in show.slides if slide in targets]
    if not slides:
        names = [member.name for member in archive.members if member.name.lower().startswith("ppt/slides/slide")]
        slides = sorted(names, key=lambda name: (len(name), name))[:_SLIDES]
        if slides:
            package.notes.append("its list of slides is damaged: they come in the order of their files")
    if not slides and package.notes:
        raise Unreadable(Status.DAMAGED, "; ".join(["a presentation without slides", *package.notes]))
    ref = reading.ref()
    title, meta = package.metadata()
    yield source.opened(ref, place, Kind.SLIDES, title, meta)
    reading.expect(ref, len(slides))
    pager = Pager(ref, reading.limits, EXTRACTOR, target=_SLIDE_CHARS)
    for number, part in enumerate(slides, 1):
        _slide(package, number, part, Slide(show.width, show.height), pager)
        yield from pager.take()
    yield from children(package, "ppt", reading, Place(parent=ref, depth=place.depth + 1))
    yield pager.ended(package.notes)


def _slide(package: Package, number: int, part: str, slide: Slide, pager: Pager) -> None:
    package.read(part, slide)
    labels.slide(pager, number, slide.hidden)
    for shape in slide.ordered():
        if shape.unseen:
            pager.aside(PartKind.HIDDEN, f"Not visible on the slide: {shape.text}")
        else:
            pager.add(f"# {shape.text}" if shape.title else shape.text, "\n\n")
    for relation in package.relations(part):
        if relation.kind in ("diagramData", "chart", "chartEx"):
            drawing = Drawing()
            package.read(relation.target, drawing)
            pager.add("\n".join(drawing.lines), "\n\n")
        elif relation.kind == "notesSlide":
            notes = Slide(0, 0)
            package.read(relation.target, notes)
            if text := notes.spoken():
                pager.aside(PartKind.NOTE, f"Notes: {text}")
        elif relation.kind == "comments":
            remarks = Remarks()
            package.read(relation.target, remarks)
            for text in remarks.found:
                pager.aside(PartKind.NOTE, f"Comment: {text}")
    pager.close(empty=True)
