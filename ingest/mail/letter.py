"""A message to items, whatever format it came in: page 1 begins with its header lines, what is attached follows as
documents of its own.

A reader of a format fills a `Content` and the meta that the headers give, and passes both to `items`. Nothing that a
message holds is dropped without a word: `notes` say what was not read and become the reason of its status.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from unabridged.ingest.document import Closed, Flag, Item, Kind, Opened, Page, Part, PartKind, Status
from unabridged.ingest.extract import Reader, guarded
from unabridged.ingest.mail import labels
from unabridged.ingest.mail.place import FILE_TIME
from unabridged.ingest.reading import Place, Reading, Source
from unabridged.ingest.texts import charset, pages
from unabridged.ingest.texts.normalise import normalise

PAGE = 4_000
EXTRACTOR = "mail 2"
_SHOWN = (("Subject", "subject"), ("From", "from"), ("To", "to"), ("Cc", "cc"), ("Bcc", "bcc"), ("Date", "date"))
_NAMES = 50  # attachments whose names are listed


@dataclass(frozen=True)
class Attachment:
    """A file in a message. `message` is for one that is itself a message; `reader` reads one that has no bytes of its
    own."""

    name: str
    data: bytes = b""
    charset: str = ""
    message: bool = False
    reader: Reader | None = None


@dataclass
class Content:
    """What a message holds. `spare` is text that counts where there is no other; `facts` go to the document's meta."""

    texts: list[str] = field(default_factory=list)
    hidden: list[str] = field(default_factory=list)
    spare: list[str] = field(default_factory=list)
    attachments: list[Attachment] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    facts: dict[str, str] = field(default_factory=dict)
    images: int = 0

    def has_text(self) -> bool:
        """Any text but white space."""
        return any(text.strip() for text in self.texts)


def items(source: Source, reading: Reading, place: Place, meta: dict[str, str], found: Content) -> Iterator[Item]:
    """The items of a message with these facts and this content."""
    if not found.has_text():
        found.texts += found.spare
    notes = [*found.notes]
    children, overflow = _sorted_out(found.attachments, reading, place, notes)
    text = _assemble(meta, found, overflow)
    ref = reading.ref()
    yield Opened(
        ref=ref,
        parent=place.parent,
        name=source.name,
        kind=Kind.MESSAGE,
        title=meta.get("subject", ""),
        meta={**place.meta, **meta, **_more(meta, found, text), **_flags(place.meta, meta)},
        sha256=source.sha256 if source.size else "",
        size=source.size,
    )
    yield from _pages(text, ref, reading)
    for child, reader in children:
        inner = Place(parent=ref, depth=place.depth + 1)
        if reader is None:
            yield from reading.child(child, reading, inner)
        else:
            yield from guarded(reader, child, reading, inner, Kind.MESSAGE)
    yield _closed(ref, text, notes, found, reading)


def _sorted_out(
    attachments: list[Attachment], reading: Reading, place: Place, notes: list[str]
) -> tuple[list[tuple[Source, Reader | None]], list[str]]:
    """The attachments that become documents, and the text of messages that lie too deep to become any."""
    children: list[tuple[Source, Reader | None]] = []
    overflow: list[str] = []
    for item in attachments:
        if why := reading.refuses(len(item.data), place.depth + 1):
            notes.append(f"attachment {item.name} not taken apart: {why}")
            if item.message:
                overflow.append(normalise(charset.decode(item.data).text))
            continue
        kind = Kind.MESSAGE if item.message else None
        children.append((Source(item.name, item.data, item.charset, kind=kind), item.reader))
    return children, overflow


@dataclass(frozen=True)
class _Text:
    """The whole text of a message and its parts. `body` is "" where there are only header lines; `labelled` are the
    parts of it alone."""

    text: str
    parts: tuple[Part, ...]
    body: str
    labelled: list[Part]


def _assemble(meta: dict[str, str], found: Content, overflow: list[str]) -> _Text:
    # A file's time is no line of a message: it would be read and cited as one.
    undated = "date" not in meta or meta.get("date_source") == FILE_TIME
    lines = [f"{name}: {meta[key]}" for name, key in _SHOWN if key in meta and not (undated and key == "date")]
    if undated and meta.get("date_raw"):
        lines.append(f"Date: {meta['date_raw']}")
    if found.attachments:
        lines.append(f"Attachments: {_listed(found.attachments)}")
    head = "\n".join(lines)
    parts = [Part(PartKind.HEADER, 0, len(head))] if head else []
    body = "\n\n".join(text.strip("\n") for text in [*found.texts, *overflow] if text.strip())
    text = f"{head}\n\n{body}" if head and body else head or body
    at = len(text) - len(body)
    labelled = labels.label(body)
    parts += [Part(part.kind, part.start + at, part.end + at) for part in labelled]
    if hidden := "\n".join(piece for piece in found.hidden if piece.strip()):
        parts.append(Part(PartKind.HIDDEN, len(text) + 2, len(text) + 2 + len(hidden)))
        text = f"{text}\n\n{hidden}"
    return _Text(text, tuple(parts), body, labelled)


def _listed(attachments: list[Attachment]) -> str:
    names = ", ".join(item.name for item in attachments[:_NAMES])
    return names + (f" and {len(attachments) - _NAMES:,} more" if len(attachments) > _NAMES else "")


def _more(meta: dict[str, str], found: Content, text: _Text) -> dict[str, str]:
    """Facts that are known when the whole message is."""
    facts = dict(found.facts)
    facts["body_hash"] = labels.body_hash(meta, text.body, text.labelled)
    if found.attachments:
        facts["attachments"] = _listed(found.attachments)
    if found.images:
        facts["images"] = str(found.images)
    return facts


def _flags(container: dict[str, str], own: dict[str, str]) -> dict[str, str]:
    """The state that the container knows, then what the message says of itself."""
    words = f"{container.get('flags', '')} {own.get('flags', '')}".split()
    return {"flags": " ".join(dict.fromkeys(words))} if words else {}


def _pages(text: _Text, ref: int, reading: Reading) -> Iterator[Page]:
    """The text in pages, parts cut where the pages are."""
    start = 0
    for number, body in enumerate(pages.cut(text.text[: reading.limits.document_chars], PAGE), 1):
        end = start + len(body)
        parts = tuple(
            Part(part.kind, max(part.start, start) - start, min(part.end, end) - start)
            for part in text.parts
            if part.start < end and part.end > start
        )
        flags = (Flag.HIDDEN,) if any(part.kind == PartKind.HIDDEN for part in parts) else ()
        flags = flags if body.strip() else (Flag.EMPTY,)
        yield Page(ref=ref, number=number, text=body, parts=parts, flags=flags, extractor=EXTRACTOR)
        start = end


def _closed(ref: int, text: _Text, notes: list[str], found: Content, reading: Reading) -> Closed:
    said = list(dict.fromkeys(notes))
    if len(text.text) > reading.limits.document_chars:
        said.append(f"longer than {reading.limits.document_chars:,} characters and cut there")
    reason = "; ".join(said[:10]) + (f"; and {len(said) - 10} more" if len(said) > 10 else "")
    if not text.body and not found.attachments:
        return Closed(ref=ref, status=Status.NO_TEXT, reason=reason or "a message without text")
    return Closed(ref=ref, status=Status.PARTIAL if said else Status.READ, reason=reason)
