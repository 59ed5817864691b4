"""What must hold for any bytes that claim to be mail. Each function raises AssertionError where it does not."""

import io
from collections.abc import Callable

from tests.ingest.made import read, sound

from unabridged.ingest import dates, headers, mbox, mbox_split, mime
from unabridged.ingest.document import Closed, Item, Page
from unabridged.ingest.limits import Limits

SMALL = Limits(depth=4, parts=50, attachment_bytes=1 << 22, document_chars=1 << 20)


def mailbox(data: bytes) -> None:
    """The spans tile the file, and each message is found again at its offset."""
    file = io.BytesIO(data)
    found = list(mbox_split.spans(file))
    assert bool(found) == bool(data.removeprefix(b"\xef\xbb\xbf").strip())
    if found:
        assert found[0].start == 0
        assert found[-1].end == len(data)
    for before, after in zip(found, found[1:], strict=False):
        assert before.end == after.start == after.offset
    for span, raw in zip(found, mbox.split(file, 1 << 20), strict=True):
        assert span.start <= span.offset <= span.head <= span.end
        assert mbox.message_at(file, span.offset, 1 << 20) == raw.data


def message(data: bytes) -> None:
    """Any bytes are a message that ends well."""
    ends_well("a.eml", data)


def ends_well(name: str, data: bytes) -> None:
    """The stream of a file is sound, no reader failed on the way, and every text can be stored."""
    items = read(name, data, SMALL)
    sound(items)
    for item in items:
        _storable(item)
        assert not (isinstance(item, Closed) and "reading failed" in item.reason), item.reason


def _storable(item: Item) -> None:
    if isinstance(item, Page):
        item.text.encode()
        assert "\0" not in item.text


def header(data: bytes) -> None:
    """Header values become text."""
    for text in (headers.decode_header(data), headers.line(data), headers.addresses([data])):
        assert isinstance(text, str)
    assert "\n" not in headers.line(data)
    headers.ids(data)
    for value in mime.parameters(data).values():
        assert isinstance(value, str)
    dates.iso(headers.line(data, 300))


def structure(data: bytes) -> None:
    """Parts of a message are pieces of it."""
    entity = mime.parse(data)
    parts, _ = mime.split(entity)
    assert sum(map(len, parts)) <= len(entity.body) <= len(data)
    content, _ = mime.payload(entity)
    assert len(content) <= max(len(data), 64)


TARGETS: dict[str, Callable[[bytes], None]] = {
    "mailbox": mailbox,
    "message": message,
    "header": header,
    "structure": structure,
}
