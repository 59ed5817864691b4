"""Source code, data and logs: text in pages that end at empty lines, each labelled with its lines."""

from collections.abc import Iterator

from unabridged.ingest.document import Closed, Flag, Item, Kind, Page, Status
from unabridged.ingest.reading import Place, Reading, Source
from unabridged.ingest.texts import pages, text

EXTRACTOR = "code 1"


def read(source: Source, reading: Reading, place: Place, kind: Kind) -> Iterator[Item]:
    """The document of a text file whose lines count. Raises Unreadable for what is no text."""
    whole, meta = text.plain(source)
    ref = reading.ref()
    yield source.opened(ref, place, kind, meta=meta)
    limits = reading.limits
    line = 1
    for number, body in enumerate(pages.cut(whole[: limits.document_chars], text.PAGE), 1):
        last = line + body.rstrip("\n").count("\n")
        label = f"lines {line}-{last}" if last > line else f"line {line}"
        flags = () if body.strip() else (Flag.EMPTY,)
        yield Page(ref=ref, number=number, text=body, label=label, flags=flags, extractor=EXTRACTOR)
        line += body.count("\n")
    if not whole.strip():
        yield Closed(ref=ref, status=Status.NO_TEXT, reason="no text in it, only white space")
    elif len(whole) > limits.document_chars:
        left = len(whole) - limits.document_chars
        reason = f"longer than {limits.document_chars:,} characters: the last {left:,} were not read"
        yield Closed(ref=ref, status=Status.PARTIAL, reason=reason)
    else:
        yield Closed(ref=ref, status=Status.READ)
