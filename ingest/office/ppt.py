"""A PowerPoint presentation of the old binary format (.ppt) to pages: a slide is a page, with notes and comments."""

from collections.abc import Iterator
from typing import Any

from unabridged.ingest.document import Closed, Item, Kind, PartKind, Status
from unabridged.ingest.office import labels
from unabridged.ingest.office.ole import stream
from unabridged.ingest.office.ole_encrypted import opened_again
from unabridged.ingest.office.ole_facts import facts
from unabridged.ingest.office.ppt_file import PptFile, Slide
from unabridged.ingest.reading import Place, Reading, Source, Unreadable
from unabridged.ingest.texts.pager import Pager

EXTRACTOR = "ppt 1"
_ENCRYPTED = bytes.fromhex("dfc4d1f3")  # in the stream that says who saved it last


def read_ole(container: Any, source: Source, reading: Reading, place: Place) -> Iterator[Item]:
    """The presentation. Raises Unreadable."""
    data = stream(container, "PowerPoint Document", reading.limits.file_bytes)
    user = stream(container, "Current User", 1 << 20)
    if not data:
        raise Unreadable(Status.DAMAGED, "a presentation whose slides are missing")
    if user[12:16] == _ENCRYPTED:
        yield from opened_again(source, reading, place)
        return
    ref = reading.ref()
    title, meta = facts(container)
    yield source.opened(ref, place, Kind.SLIDES, title, meta)
    pager = Pager(ref, reading.limits, EXTRACTOR, target=12_000)
    file = PptFile(data, int.from_bytes(user[16:20], "little"))
    slides = file.slides()
    reading.expect(ref, len(slides))
    for number, slide in enumerate(slides, 1):
        _page(number, slide, pager)
        yield from pager.take()
    if not slides:
        reason = "no slides found in it: of PowerPoint 95 or older, or damaged; save it as .pptx"
        yield Closed(ref=ref, status=Status.UNSUPPORTED, reason=reason)
    else:
        yield pager.ended([file.cut])


def _page(number: int, slide: Slide, pager: Pager) -> None:
    labels.slide(pager, number, slide.hidden)
    for text, title in sorted(slide.texts, key=lambda pair: not pair[1]):
        pager.add(f"# {text}" if title and "\n" not in text else text, "\n\n")
    if slide.notes:
        pager.aside(PartKind.NOTE, "Notes: " + "\n".join(slide.notes))
    for comment in slide.comments:
        pager.aside(PartKind.NOTE, comment)
    pager.close(empty=True)
