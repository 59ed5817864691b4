"""A message in the form of the internet (.eml, .emlx, .mht, one of a mailbox, a part of another) to items."""

import re
from collections.abc import Iterator

from unabridged.ingest.document import Item, Status
from unabridged.ingest.mail import emlx, letter, mime
from unabridged.ingest.mail.body import content
from unabridged.ingest.mail.facts import facts
from unabridged.ingest.reading import Place, Reading, Source, Unreadable
from unabridged.ingest.texts import charset

_APPLE = re.compile(rb"(\d{1,12})[ \t]*\r?\n(?=[!-9;-~]+[ \t]*:)")


def read(source: Source, reading: Reading, place: Place) -> Iterator[Item]:
    """The items of one message. Raises Unreadable for an empty one."""
    if not source.data.strip():
        raise Unreadable(Status.NO_TEXT, "the file is empty")
    data, frame = _plain(source.data)
    root = mime.parse(data, cap=reading.limits.header_bytes)
    found = content(root, reading.limits)
    meta = facts(root, (*frame.dated, *source.dated))
    if frame.flags:
        meta["flags"] = " ".join(dict.fromkeys([*frame.flags, *meta.get("flags", "").split()]))
    yield from letter.items(source, reading, place, meta, found)


def _plain(data: bytes) -> tuple[bytes, emlx.Frame]:
    """The message as it went over the wire: without byte order mark, Apple's frame, UTF-16 or bare CRs."""
    if charset.is_marked(data) or charset.utf16_order(data):
        data = charset.decode(data).text.encode("utf-8", "replace")
    frame = emlx.NONE
    if match := _APPLE.match(data):
        end = match.end() + int(match[1])
        data, frame = data[match.end() : end], emlx.frame(data[end:])
    if b"\n" not in data[:65_536] and b"\r" in data:
        data = data.replace(b"\r", b"\n")
    return data.lstrip(b"\r\n"), frame
