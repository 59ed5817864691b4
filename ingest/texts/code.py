"""Source code, data and logs: text in pages that end at empty lines, each labelled with its lines."""

from collections.abc import Iterator

from unabridged.ingest.document import Flag, Item, Kind, Page
from unabridged.ingest.reading import Place, Reading, Source
from unabridged.ingest.texts import pages, text

EXTRACTOR = "code 1"


def read(source: Source, reading: Reading, place: Place, kind: Kind) -> Iterator[Item]:
    """The document of a text file whose lines count. Raises Unreadable for what is no text."""
    whole, meta = text.plain(source)
    ref = reading.ref()
    yield source.opened(ref, place, kind, meta=meta)
    limit = reading.limits.document_chars
    line = 1
    for number, body in enumerate(pages.cut(whole[:limit], pages.PAGE), 1):
        last = line + body.rstrip("\n").count("\n")
        label = f"lines {line}-{last}" if last > line else f"line {line}"
        flags = () if body.strip() else (Flag.EMPTY,)
        yield Page(ref=ref, number=number, text=body, label=label, flags=flags, extractor=EXTRACTOR)
        line += body.count("\n")
    yield text.ended(ref, whole, limit)
