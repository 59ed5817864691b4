"""What must hold for any bytes that claim to be mail or a PDF. Each raises AssertionError where it does not."""

import io
import itertools
from collections.abc import Callable

from tests.ingest.made import read, sound

from unabridged.ingest import magic
from unabridged.ingest.document import Closed, Item, Page
from unabridged.ingest.limits import Limits
from unabridged.ingest.mail import cms, dates, headers, mbox, mbox_split, mime
from unabridged.ingest.mail import place as mail_place
from unabridged.ingest.outlook import lzfu, tnef
from unabridged.ingest.pdf import quality
from unabridged.ingest.texts import content_lines
from unabridged.ingest.texts.normalise import normalise

SMALL = Limits(ocr="off", depth=4, parts=50, attachment_bytes=1 << 22, document_chars=1 << 20)


def mailbox(data: bytes) -> None:
    """The spans tile the file, and each message is found again at its offset."""
    file = io.BytesIO(data)
    found = list(mbox_split.spans(file))
    assert bool(found) == bool(data.removeprefix(b"\xef\xbb\xbf").strip())
    if found:
        assert found[0].start == 0
        assert found[-1].end == len(data)
    for before, after in itertools.pairwise(found):
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


def winmail(data: bytes) -> None:
    """Outlook's container, as a file and as a part of a message."""
    ends_well("winmail.dat", tnef.MAGIC + data)


def calendar(data: bytes) -> None:
    """Calendars and contact cards."""
    for line in content_lines.lines(data):
        line.pieces()
    ends_well("a.ics", b"BEGIN:VCALENDAR\r\nBEGIN:VEVENT\r\n" + data)
    ends_well("a.vcf", b"BEGIN:VCARD\r\n" + data)


def outlook(data: bytes) -> None:
    """A saved message of Outlook."""
    ends_well("a.msg", magic.OLE + data[8:])


def envelope(data: bytes) -> None:
    """S/MIME, compressed RTF, and the state behind a message of Apple Mail."""
    opened = cms.opened(data)
    assert len(opened.content or b"") <= max(len(data), 1 << 27)
    assert len(lzfu.rtf(data, 10_000)) <= 10_000
    ends_well("1.emlx", b"17\nSubject: x\n\ntext\n" + data)


def place(data: bytes) -> None:
    """Names of files of mail."""
    name = data.decode("utf-8", "replace").replace("/", "_").replace("\0", "_")[:200]
    found = mail_place.of(f"/nowhere/cur/{name}", 0.0)
    assert all(isinstance(value, str) for value in found.meta.values())


def gate(data: bytes) -> None:
    """The gate between a page's extractors, for any text: a share, and what is kept can be stored."""
    # Three bytes a character, so that all of Unicode comes, lone surrogates too.
    codes = (int.from_bytes(data[at : at + 3], "little") % 0x110000 for at in range(0, len(data) - 2, 3))
    text = "".join(map(chr, codes)) + data.decode("utf-8", "replace")
    assert 0.0 <= quality.score(text) <= 1.0
    kept = normalise(text)
    kept.encode()
    assert "\0" not in kept
    assert "\ufffe" not in kept
    assert normalise(kept) == kept


def pdf(data: bytes) -> None:
    """Any bytes behind the mark of a PDF."""
    ends_well("a.pdf", data if data.startswith(b"%PDF-") else b"%PDF-1.4\n" + data)


TARGETS: dict[str, Callable[[bytes], None]] = {
    "mailbox": mailbox,
    "message": message,
    "header": header,
    "structure": structure,
    "winmail": winmail,
    "calendar": calendar,
    "outlook": outlook,
    "envelope": envelope,
    "place": place,
    "gate": gate,
    "pdf": pdf,
}
