"""A message to items: page 1 begins with its header lines, attachments follow as documents of their own."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from unabridged.ingest import charset, labels, mime, pages
from unabridged.ingest.document import Closed, Flag, Item, Kind, Opened, Page, Part, PartKind, Status
from unabridged.ingest.mail_body import Attachment, Content, content
from unabridged.ingest.mail_facts import facts
from unabridged.ingest.mime import Entity
from unabridged.ingest.normalise import normalise
from unabridged.ingest.reading import Place, Reading, Source, Unreadable

PAGE = 4_000
EXTRACTOR = "mail 1"
_SHOWN = (("Subject", "subject"), ("From", "from"), ("To", "to"), ("Cc", "cc"), ("Date", "date"))


def read(source: Source, reading: Reading, place: Place) -> Iterator[Item]:
    """The items of one message (.eml, .emlx, .mht, or a part of another)."""
    if not source.data.strip():
        raise Unreadable(Status.NO_TEXT, "the file is empty")
    yield from message(source, reading, place, mime.parse(_plain(source.data), cap=reading.limits.header_bytes))


def _plain(data: bytes) -> bytes:
    """The message as it went over the wire: without byte order mark, Apple's length line, UTF-16 or bare CRs."""
    if charset.is_marked(data) or charset.utf16_order(data):
        data = charset.decode(data).text.encode("utf-8", "replace")
    if match := re.match(rb"(\d{1,12})[ \t]*\r?\n(?=[!-9;-~]+[ \t]*:)", data):
        data = data[match.end() :][: int(match[1])]
    if b"\n" not in data[:65_536] and b"\r" in data:
        data = data.replace(b"\r", b"\n")
    return data.lstrip(b"\r\n")


def message(source: Source, reading: Reading, place: Place, root: Entity) -> Iterator[Item]:
    """The items of a parsed message."""
    ref = reading.ref()
    found = content(root, reading.limits)
    meta = facts(root, source.dated)
    yield Opened(
        ref=ref,
        parent=place.parent,
        name=source.name,
        kind=Kind.MESSAGE,
        title=meta.get("subject", ""),
        meta={**place.meta, **meta, **found.facts},
        sha256=source.sha256,
        size=source.size,
    )
    notes = [*found.notes]
    children, overflow = _sorted_out(found.attachments, reading, place, notes)
    text = _assemble(meta, found, overflow)
    yield from _pages(text, ref, reading)
    for child in children:
        yield from reading.child(child, reading, Place(parent=ref, depth=place.depth + 1))
    yield _closed(ref, text, notes, found, reading)


def _sorted_out(
    attachments: list[Attachment], reading: Reading, place: Place, notes: list[str]
) -> tuple[list[Source], list[str]]:
    """The attachments that become documents, and the text of messages that lie too deep to become any."""
    children, overflow = [], []
    for item in attachments:
        if why := reading.refuses(len(item.data), place.depth + 1):
            notes.append(f"attachment {item.name} not taken apart: {why}")
            if item.message:
                overflow.append(normalise(charset.decode(item.data).text))
            continue
        children.append(Source(item.name, item.data, item.charset, kind=Kind.MESSAGE if item.message else None))
    return children, overflow


@dataclass(frozen=True)
class _Text:
    """The whole text of a message and its parts."""

    text: str
    parts: tuple[Part, ...]
    body: bool  # there is more than header lines


def _assemble(meta: dict[str, str], found: Content, overflow: list[str]) -> _Text:
    lines = [f"{name}: {meta[key]}" for name, key in _SHOWN if key in meta]
    if "date" not in meta and meta.get("date_raw"):
        lines.append(f"Date: {meta['date_raw']}")
    if found.attachments:
        lines.append("Attachments: " + ", ".join(item.name for item in found.attachments[:50]))
    head = "\n".join(lines)
    parts = [Part(PartKind.HEADER, 0, len(head))] if head else []
    body = "\n\n".join(text.strip("\n") for text in [*found.texts, *overflow] if text.strip())
    text = f"{head}\n\n{body}" if head and body else head or body
    at = len(text) - len(body)
    parts += [Part(part.kind, part.start + at, part.end + at) for part in labels.label(body)] if body else []
    if hidden := "\n".join(piece for piece in found.hidden if piece.strip()):
        parts.append(Part(PartKind.HIDDEN, len(text) + 2, len(text) + 2 + len(hidden)))
        text = f"{text}\n\n{hidden}"
    return _Text(text, tuple(parts), bool(body))


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
