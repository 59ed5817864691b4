"""From a message's MIME tree to its text and to what is attached. Never drops a part without a word.

The tree is walked with a list, not by recursion. Signed content is read out of its envelope, encrypted content is
named; an Outlook container (winmail.dat) is taken apart where it stands.
"""

import re

from unabridged.ingest.limits import Limits
from unabridged.ingest.magic import binary
from unabridged.ingest.mail import cms, forms, mime
from unabridged.ingest.mail.headers import line
from unabridged.ingest.mail.letter import Attachment, Content
from unabridged.ingest.mail.mime import Entity
from unabridged.ingest.mail.text import sealed, text
from unabridged.ingest.outlook import mapi_letter, tnef
from unabridged.ingest.pdf.extra import safe_name
from unabridged.ingest.texts import charset, html
from unabridged.ingest.texts.normalise import normalise

_SIGNATURES = {
    "application/pkcs7-signature": "S/MIME",
    "application/x-pkcs7-signature": "S/MIME",
    "application/pgp-signature": "PGP",
}
_ENVELOPES = frozenset({"application/pkcs7-mime", "application/x-pkcs7-mime"})
_INNER_TEXT = frozenset({"message/delivery-status", "text/rfc822-headers", "message/feedback-report"})
_TEXTS = frozenset({"text/plain", "text/html", "text/enriched", "text/x-plain"})
_MESSAGES = frozenset({"message/rfc822", "message/global", "message/news"})
_LOOKS = frozenset({"text/css", "text/javascript", "application/javascript", "application/x-javascript"})
_PART_HEADER = re.compile(r"content-[a-z-]+[ \t]*:", re.I)
_INVITATION = "invitation.ics"
_MULTIPARTS = 500  # levels


def content(root: Entity, limits: Limits) -> Content:
    """The content of a message."""
    found = Content()
    _Walk(found, limits).run(root)
    _once(found)
    if not found.has_text():
        _promote(found)
    if not found.texts and not found.attachments and not found.notes and root.kind.startswith("multipart/"):
        _rescue(found, root)
    return found


def _promote(found: Content) -> None:
    """A message whose only text is labelled as an attachment without a name has that text as its body."""
    for attachment in found.attachments:
        if attachment.name == "text" and not attachment.message:
            found.texts.append(normalise(charset.decode(attachment.data, attachment.charset).text))
            found.attachments.remove(attachment)
            return


def _rescue(found: Content, root: Entity) -> None:
    """A message whose parts came out empty: whatever its lines say that are no boundaries and no headers."""
    lines = normalise(charset.decode(root.body).text).split("\n")
    kept = [line for line in lines if not line.startswith("--") and not _PART_HEADER.match(line)]
    _salvage(found, "\n".join(kept).strip())


def _salvage(found: Content, shown: str) -> None:
    if shown:
        found.texts.append(shown)
        found.facts["salvaged"] = "parts without their boundaries, read as one text"


class _Walk:
    """One pass over the parts of a message, in order."""

    def __init__(self, found: Content, limits: Limits) -> None:
        self.found = found
        self.limits = limits
        self.parts = 0
        self.refused = 0

    def run(self, root: Entity) -> None:
        """Reads all parts."""
        stack: list[tuple[Entity, int]] = [(root, 0)]
        while stack:
            entity, level = stack.pop()
            self.parts += 1
            if self.parts > self.limits.parts:
                self.refused += 1
            elif entity.kind.startswith("multipart/"):
                stack.extend((child, level + 1) for child in reversed(self._children(entity, level)))
            elif (inner := self._leaf(entity)) is not None:
                stack.append((inner, level + 1))
        if self.refused:
            self.found.notes.append(f"more than {self.limits.parts:,} parts: {self.refused:,} not read")

    def _children(self, entity: Entity, level: int) -> list[Entity]:
        """The parts of a multipart that are to be read; a body that is not delimited is read as text."""
        raw, closed = mime.split(entity)
        if not raw or level >= _MULTIPARTS:
            self._undelimited(entity)
            return []
        if not closed:
            self.found.facts["unclosed"] = "a multipart without its end"
        default = "message/rfc822" if entity.kind == "multipart/digest" else "text/plain"
        children = [mime.parse(part, default, self.limits.header_bytes) for part in raw[: self.limits.parts + 1]]
        self.refused += max(0, len(raw) - len(children))
        if entity.kind == "multipart/alternative":
            return forms.chosen(children, self.limits.parts, self.found)
        if entity.kind == "multipart/signed":
            self.found.facts["signed"] = _SIGNATURES.get(entity.parameters.get("protocol", "").lower(), "yes")
        if entity.kind == "multipart/encrypted":
            sealed("PGP", self.found)
            return []
        return children

    def _undelimited(self, entity: Entity) -> None:
        shown = normalise(charset.decode(entity.body).text).strip()
        if "<html" in shown[:2_000].lower() or "<body" in shown[:2_000].lower():
            shown = html.render(shown, quotes=True).text
        _salvage(self.found, shown)

    def _leaf(self, entity: Entity) -> Entity | None:
        """Reads a part; what it wraps is returned."""
        kind = entity.kind
        if kind in _SIGNATURES:
            self.found.facts["signed"] = _SIGNATURES[kind]
        elif kind in _ENVELOPES:
            return self._envelope(mime.payload(entity)[0], entity.parameters.get("smime-type", ""))
        elif kind == "application/pgp-encrypted":
            sealed("PGP", self.found)
        elif kind == "application/applefile":
            self.found.facts["resource_forks"] = "of a Macintosh, without text"
        elif kind == "message/partial":
            self.found.notes.append("a piece of a message that was sent in several")
            self.found.texts.append(text(entity, self.found)[0])
        elif kind == "message/external-body":
            self.found.notes.append("a part that is stored elsewhere")
        elif self._is_body(entity):
            shown, hidden = text(entity, self.found)
            self.found.texts.append(shown)
            if hidden:
                self.found.hidden.append(hidden)
        else:
            return self._attach(entity)
        return None

    def _is_body(self, entity: Entity) -> bool:
        if entity.kind in _INNER_TEXT:
            return True
        return entity.kind in _TEXTS and entity.disposition != "attachment" and not entity.filename

    def _attach(self, entity: Entity) -> Entity | None:
        data, whole = mime.payload(entity)
        if entity.kind in _MESSAGES and not _is_file(data):
            self._message(entity, data, whole)
            return None
        name = safe_name(entity.filename) or _unnamed(entity)
        if why := self._apart(entity):
            self.found.notes.append(f"attachment {name} {why}")
            return None
        if not whole:
            self.found.notes.append(f"attachment {name} is damaged or cut short")
        if entity.kind.startswith("image/") and (entity.disposition == "inline" or _shown_by_page(entity)):
            self.found.images += 1
            return None
        if entity.kind in _LOOKS and _shown_by_page(entity):
            self.found.facts["page"] = "with style sheets and scripts"
            return None
        if cms.is_envelope(data, name):
            return self._envelope(data, "")
        if not self._special(name, data):
            self.found.attachments.append(Attachment(name, data, entity.parameters.get("charset", "")))
        return None

    def _message(self, entity: Entity, data: bytes, whole: bool) -> None:
        subject = line(mime.parse(data[:65_536]).get("subject"), 80)
        name = safe_name(entity.filename) or f"{safe_name(subject) or 'message'}.eml"
        if not whole:
            self.found.notes.append(f"attachment {name} is damaged or cut short")
        self.found.attachments.append(Attachment(name, data, message=True))

    def _apart(self, entity: Entity) -> str:
        """Apple Mail and Thunderbird take attachments out of a message and leave a header."""
        if entity.get("x-apple-content-length") and not entity.body.strip():
            return "lies apart, in the folder Attachments of Apple Mail"
        return "was deleted or detached in Thunderbird" if entity.get("x-mozilla-altered") else ""

    def _special(self, name: str, data: bytes) -> bool:
        """Signatures, armour and Outlook's container, whatever their label says."""
        if data.startswith(b"-----BEGIN PGP SIGNATURE-----"):
            self.found.facts["signed"] = "PGP"
        elif data.startswith(b"-----BEGIN PGP MESSAGE-----"):
            self.found.facts["encrypted"] = "PGP"
            self.found.notes.append(f"attachment {name} is encrypted with PGP")
        elif data.startswith(tnef.MAGIC):
            mapi_letter.merge(tnef.record(data, self.limits), self.found, self.limits)
        else:
            return False
        return True

    def _envelope(self, data: bytes, label: str) -> Entity | None:
        """What an S/MIME envelope holds, if it is only signed. `label` is what a damaged one is said to be."""
        opened = cms.opened(data)
        if opened.kind == "encrypted" or (opened.kind == "damaged" and label not in ("signed-data", "compressed-data")):
            sealed("S/MIME", self.found)
            return None
        if opened.kind != "compressed":
            self.found.facts["signed"] = "S/MIME"
        if opened.content is None:
            if opened.kind != "signed":
                self.found.notes.append("an S/MIME part that is damaged")
            return None
        return mime.parse(opened.content, cap=self.limits.header_bytes)


def _shown_by_page(entity: Entity) -> bool:
    """A part that the HTML names, in a message or a saved page (.mht)."""
    return bool(entity.get("content-id") or (entity.get("content-location") and not entity.filename))


def _is_file(data: bytes) -> bool:
    """Bytes of another kind under the label of a message."""
    return data.startswith(b"%PDF-") or binary(data[:4_096], "") is not None


def _once(found: Content) -> None:
    """An invitation that stands beside the text is mostly attached a second time, under its name."""
    if not any(item.name == _INVITATION for item in found.attachments):
        return
    named = {item.data for item in found.attachments if item.name != _INVITATION}
    found.attachments = [item for item in found.attachments if item.name != _INVITATION or item.data not in named]


def _unnamed(entity: Entity) -> str:
    """A name for an attachment that has none, by its type."""
    if entity.kind in ("text/plain", "text/html"):
        return "text"
    main, _, sub = entity.kind.partition("/")
    ends = {
        "calendar": _INVITATION,
        "vcard": "contact.vcf",
        "x-vcard": "contact.vcf",
        "pdf": "attachment.pdf",
        "ms-tnef": "winmail.dat",
        "octet-stream": "attachment",
    }
    return ends.get(sub, f"{main}.{re.sub(r'[^a-z0-9]', '', sub)[:10]}")
