"""Plain text and Markdown: any charset, cut into pages at paragraphs. Knows nothing of files."""

import re
from collections.abc import Iterator

from unabridged.ingest.document import Closed, Flag, Item, Kind, Page, Part, PartKind, Status
from unabridged.ingest.reading import Place, Reading, Source, Unreadable
from unabridged.ingest.texts import charset, pages
from unabridged.ingest.texts.normalise import normalise, one_line

EXTRACTOR = "text 1"
_HEADING = re.compile(r"^(?:#{1,6}[ \t]+(.+?)[ \t]*#*|(\S.*)\n=+)[ \t]*$", re.MULTILINE)
_TEXT_CONTROLS = bytes({*range(1, 9), *range(14, 27), 28, 29, 30, 31, 127})


def read(source: Source, reading: Reading, place: Place, kind: Kind = Kind.TEXT) -> Iterator[Item]:
    """The document of a text file. Raises Unreadable for what is no text."""
    text, meta = plain(source)
    title = heading(text) if kind == Kind.MARKDOWN else ""
    yield from document(source, reading, place, kind=kind, text=text, title=title, meta=meta)


def plain(source: Source) -> tuple[str, dict[str, str]]:
    """Normalised text and what was found out about its charset. Raises Unreadable."""
    text, meta = decoded(source)
    return normalise(text), meta


def decoded(source: Source) -> tuple[str, dict[str, str]]:
    """The text as it stands, not normalised, and the same. Raises Unreadable."""
    if not source.size:
        raise Unreadable(Status.NO_TEXT, "the file is empty")
    if is_binary(source.data):
        raise Unreadable(Status.UNSUPPORTED, "not text: binary data of an unknown kind")
    found = charset.decode(source.data, source.charset)
    return found.text, charset_meta(found)


def charset_meta(found: charset.Decoded) -> dict[str, str]:
    """What belongs into the meta of a document: a charset that is not the usual one."""
    return {} if found.charset == "utf-8" else {"charset": found.charset}


def is_binary(data: bytes) -> bool:
    """Bytes that no charset makes sense of."""
    sample = data[:65_536]
    if charset.is_marked(sample) or charset.utf16_order(sample):
        return False
    # Text may end in NULs, where a machine lost power, and have some between its words, but not as many as letters.
    if sample.rstrip(b"\0").count(0) > len(sample) // 3:
        return True
    controls = len(sample) - len(sample.translate(None, _TEXT_CONTROLS))
    try:
        sample[: len(sample) - 3].decode("utf-8")
        return controls > len(sample) // 10
    except UnicodeDecodeError:
        return charset.detected(sample) is None


def heading(text: str) -> str:
    """The first Markdown heading near the beginning."""
    match = _HEADING.search(text[:4_000])
    return one_line(match[1] or match[2]) if match else ""


def document(
    source: Source,
    reading: Reading,
    place: Place,
    *,
    kind: Kind,
    text: str,
    title: str = "",
    meta: dict[str, str] | None = None,
    hidden: str = "",
    extractor: str = EXTRACTOR,
) -> Iterator[Item]:
    """A document of one stretch of text; `hidden` is put on the last page, apart and labelled."""
    ref = reading.ref()
    yield source.opened(ref, place, kind, title, meta)
    limit = reading.limits.document_chars
    cut = list(pages.cut(text[:limit], pages.PAGE))
    reading.expect(ref, len(cut))
    for number, body in enumerate(cut, 1):
        yield page(ref, number, body, hidden if number == len(cut) else "", extractor)
    yield ended(ref, text, limit)


def ended(ref: int, text: str, limit: int) -> Closed:
    """The end of a document of one stretch of text, of which `limit` characters were read."""
    if not text.strip():
        reason = "no text in it, only white space" if text else "no text in it"
        return Closed(ref=ref, status=Status.NO_TEXT, reason=reason)
    if len(text) > limit:
        reason = f"longer than {limit:,} characters: the last {len(text) - limit:,} were not read"
        return Closed(ref=ref, status=Status.PARTIAL, reason=reason)
    return Closed(ref=ref, status=Status.READ)


def page(ref: int, number: int, body: str, hidden: str, extractor: str) -> Page:
    """A page, with its hidden text behind the visible one."""
    flags = () if body.strip() else (Flag.EMPTY,)
    if not hidden:
        return Page(ref=ref, number=number, text=body, flags=flags, extractor=extractor)
    whole = f"{body.rstrip()}\n\n{hidden}"
    part = Part(PartKind.HIDDEN, len(whole) - len(hidden), len(whole))
    return Page(ref=ref, number=number, text=whole, parts=(part,), flags=(*flags, Flag.HIDDEN), extractor=extractor)
