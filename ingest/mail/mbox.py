"""A mailbox file to messages, read in place: memory is bounded by the largest message.

Where they lie is for `mbox_split` to say. ">From " loses one ">". The meta of a message holds its offset, at which
`message_at` finds it again.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from io import BytesIO
from typing import BinaryIO

from unabridged.ingest.document import Closed, Item, Kind, Opened, Status
from unabridged.ingest.extract import guarded
from unabridged.ingest.mail import dates
from unabridged.ingest.mail import read as mail
from unabridged.ingest.mail.mbox_split import Span, spans
from unabridged.ingest.reading import Place, Reading, Source
from unabridged.ingest.texts import charset

_ESCAPED = re.compile(rb"^>(>*From )", re.M)


@dataclass(frozen=True)
class Raw:
    """One message: where its "From " line begins, that line, its bytes behind it, and how many of them were left
    out."""

    offset: int
    line: bytes
    data: bytes
    left_out: int


def read(source: Source, reading: Reading, place: Place) -> Iterator[Item]:
    """The mailbox and its messages."""
    ref = reading.ref()
    size = source.size
    file: BinaryIO = source.file or BytesIO(source.data)
    plain = _from_utf16(file) if size <= reading.limits.file_bytes else None
    yield Opened(
        ref=ref,
        parent=place.parent,
        name=source.name,
        kind=Kind.MAILBOX,
        meta={**place.meta, "offsets": "in its text as UTF-8"} if plain else place.meta,
        sha256=source.sha256 if size <= reading.limits.file_bytes else "",
        size=size,
    )
    file = plain or file
    skip = reading.skip if place.parent is None else 0
    number = 0
    for number, span in enumerate(spans(file), 1):
        if number <= skip:
            continue
        if place.depth <= 1:  # a mailbox on the disk, or in an archive there; deeper ones share what is left
            reading.fresh()
        raw = _raw(file, span, reading.limits.message_bytes)
        dated = (dates.iso(raw.line.decode("ascii", "replace"))[0], "mbox From line")
        inner = Source(str(number), raw.data, kind=Kind.MESSAGE, dated=(dated, *source.dated))
        where = Place(parent=ref, depth=place.depth + 1, meta=_meta(raw, place))
        yield from guarded(partial(_message, raw), inner, reading, where, Kind.MESSAGE)
    if number:
        yield Closed(ref=ref, status=Status.READ)
    else:
        yield Closed(ref=ref, status=Status.DAMAGED, reason="no message found in it")


def _from_utf16(file: BinaryIO) -> BinaryIO | None:
    """A mailbox that a program of Windows saved in UTF-16 as UTF-8, None for any other."""
    file.seek(0)
    head = file.read(4_096)
    if not (head.startswith((b"\xff\xfe", b"\xfe\xff")) or charset.utf16_order(head)):
        return None
    return BytesIO(charset.decode(head + file.read()).text.encode("utf-8", "replace"))


def _meta(raw: Raw, place: Place) -> dict[str, str]:
    """What the place of a message says of it."""
    folder = place.meta.get("folder")
    return {"offset": str(raw.offset), "folder": folder} if folder else {"offset": str(raw.offset)}


def _message(raw: Raw, source: Source, reading: Reading, place: Place) -> Iterator[Item]:
    """The items of one message; one that was cut says so at its end."""
    own = None
    for item in mail.read(source, reading, place):
        if isinstance(item, Opened) and own is None:
            own = item.ref
        if raw.left_out and isinstance(item, Closed) and item.ref == own:
            reason = f"longer than {len(raw.data) >> 20:,} MB: the last {raw.left_out:,} bytes were not read"
            item = Closed(ref=item.ref, status=Status.PARTIAL, reason="; ".join(filter(None, (reason, item.reason))))
        yield item


def split(file: BinaryIO, limit: int) -> Iterator[Raw]:
    """The messages of a mailbox. Of one longer than `limit` bytes the rest is left out, and counted."""
    return (_raw(file, span, limit) for span in spans(file))


def message_at(file: BinaryIO, offset: int, limit: int) -> bytes:
    """The message whose "From " line is at `offset`, as it was sent, at most `limit` bytes of it; b"" where no message
    begins."""
    span = next(spans(file, offset), None)
    if span is None or span.offset != offset or (span.head == offset and offset > 3):
        return b""
    return _raw(file, span, limit).data


def _raw(file: BinaryIO, span: Span, limit: int) -> Raw:
    file.seek(span.offset)
    data = file.read(min(span.end - span.offset, span.head - span.offset + limit))
    line, data = data[: min(span.head - span.offset, 1_000)], data[span.head - span.offset :]
    left_out = span.end - span.head - len(data)
    if b"\r" in data[:65_536] and b"\n" not in data[:65_536]:
        data = data.replace(b"\r", b"\n")
    data = data if left_out else _without_last_blank(data)
    # With lengths both are written: mboxcl, which escapes as well, and mboxcl2, whose texts have bare "From " lines.
    if b">From " in data and not (span.counted and b"\nFrom " in data):
        data = _ESCAPED.sub(rb"\1", data)
    return Raw(span.offset, line, data, left_out)


def _without_last_blank(data: bytes) -> bytes:
    """The empty line at its end stands between two messages, and belongs to none."""
    for end in (b"\r\n", b"\n"):
        if data.endswith(b"\n" + end) or data == end:
            return data[: -len(end)]
    return data
