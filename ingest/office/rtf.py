"""A document in Rich Text Format to pages. Hidden and deleted text is kept apart, embedded documents are children."""

from collections.abc import Iterator

from unabridged.ingest.document import Item, Kind, Opened
from unabridged.ingest.magic import OLE
from unabridged.ingest.office.embedded import content
from unabridged.ingest.office.rtf_story import Story, TooDeep
from unabridged.ingest.office.word import WordPages
from unabridged.ingest.reading import Place, Reading, Source
from unabridged.ingest.texts.normalise import one_line
from unabridged.ingest.texts.pager import Pager

EXTRACTOR = "rtf 1"


def read(source: Source, reading: Reading, place: Place) -> Iterator[Item]:
    """The document and what is embedded in it."""
    ref = reading.ref()
    pager = Pager(ref, reading.limits, EXTRACTOR)
    teller = WordPages(pager)
    story = Story(teller, teller.cite)
    steps = story.read(source.data)
    notes: list[str] = []
    opened = False
    try:
        for _ in steps:
            if pager.ready and not opened:
                opened = True
                yield _opened(ref, source, place, story)
            yield from pager.take()
    except TooDeep:
        notes.append("groups nested too deeply: read as far as they go")
    if not opened:
        yield _opened(ref, source, place, story)
    pager.close()
    yield from pager.take()
    for number, data in enumerate(story.objects, 1):
        yield from _embedded(number, data, reading, Place(parent=ref, depth=place.depth + 1), notes)
    yield pager.ended(notes)


def text(data: bytes) -> str:
    """The visible text of RTF, for those who have no pages: bodies of messages."""
    lines = _Lines()
    try:
        for _ in Story(lines, lambda kind, note: f"[{note}]").read(data):
            pass
    except TooDeep:
        lines.found.append("[groups nested too deeply: the rest was not read]")
    return "\n".join(lines.found)


class _Lines:
    """Gathers paragraphs as lines."""

    def __init__(self) -> None:
        self.found: list[str] = []

    def paragraph(self, text: str, level: int, item: bool) -> None:
        self.found.append(text)

    def row(self, cells: list[str]) -> None:
        self.found.append("\t".join(cells))

    def hidden(self, text: str) -> None:
        pass

    def note(self, kind: str, mark: str) -> str:
        return ""

    def page_break(self) -> None:
        self.found.append("")


def _opened(ref: int, source: Source, place: Place, story: Story) -> Opened:
    facts = {key: one_line(value) for key, value in story.facts.items() if value}
    return source.opened(ref, place, Kind.WORD, facts.pop("title", ""), facts)


def _embedded(number: int, data: bytes, reading: Reading, place: Place, notes: list[str]) -> Iterator[Item]:
    """The document in an object: behind a header of OLE 1, whose length varies."""
    at = data.find(OLE, 0, 4_096)
    name = f"embedded object {number}"
    if at < 0:
        if data:
            notes.append(f"{name} not read: of an unknown form")
        return
    if why := reading.refuses(len(data), place.depth):
        notes.append(f"{name} not read: {why}")
        return
    yield from reading.child(Source(*content(name, data[at:])), reading, place)
