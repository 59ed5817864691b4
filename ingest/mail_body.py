"""From a message's MIME tree to its text and to what is attached. Never drops a part without a word.

The tree is walked with a list, not by recursion. In multipart/alternative one form is read: plain text, unless it is
empty or a stub beside the HTML.
"""

import re
from dataclasses import dataclass, field

from unabridged.ingest import charset, html, mime
from unabridged.ingest.headers import line
from unabridged.ingest.limits import Limits
from unabridged.ingest.mime import Entity
from unabridged.ingest.normalise import normalise
from unabridged.ingest.pdf_extra import safe_name

_SIGNATURES = frozenset({"application/pkcs7-signature", "application/x-pkcs7-signature", "application/pgp-signature"})
_SEALED = {
    "application/pkcs7-mime": "S/MIME",
    "application/x-pkcs7-mime": "S/MIME",
    "application/pgp-encrypted": "PGP",
}
_INNER_TEXT = frozenset({"message/delivery-status", "text/rfc822-headers", "message/feedback-report"})
_PGP_SIGNED = re.compile(
    r"^-----BEGIN PGP SIGNED MESSAGE-----\n(?:[A-Za-z]+:[^\n]*\n)*\n?(.*?)\n?-----BEGIN PGP SIGNATURE-----.*?"
    r"(?:-----END PGP SIGNATURE-----\n?|\Z)",
    re.M | re.S,
)
_PGP_SEALED = re.compile(r"^-----BEGIN PGP MESSAGE-----.*?(?:-----END PGP MESSAGE-----\n?|\Z)", re.M | re.S)
_YENC = re.compile(r"^=ybegin [^\n]*?name=([^\n]*)\n.*?(?:^=yend[^\n]*\n?|\Z)", re.M | re.S)
_PART_HEADER = re.compile(r"content-[a-z-]+[ \t]*:", re.I)
_STUB = 200  # characters of plain text that may be a stub beside far more HTML
_MULTIPARTS = 500  # levels


@dataclass(frozen=True)
class Attachment:
    """A file in a message. `message` is for one that is itself a message."""

    name: str
    data: bytes
    charset: str = ""
    message: bool = False


@dataclass
class Content:
    """What a message holds. `notes` say what was not read and why, `facts` go to the document's meta."""

    texts: list[str] = field(default_factory=list)
    hidden: list[str] = field(default_factory=list)
    attachments: list[Attachment] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    facts: dict[str, str] = field(default_factory=dict)
    images: int = 0


@dataclass(frozen=True)
class _Form:
    """A leaf that has been read as text: one way to show the message."""

    text: str
    hidden: str = ""


def content(root: Entity, limits: Limits) -> Content:
    """The content of a message."""
    found = Content()
    _Walk(found, limits).run(root)
    if not any(text.strip() for text in found.texts):
        _promote(found)
    if not found.texts and not found.attachments and not found.notes and root.kind.startswith("multipart/"):
        _rescue(found, root)
    if found.images:
        found.facts["images"] = str(found.images)
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
    if text := "\n".join(kept).strip():
        found.texts.append(text)
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
            else:
                self._leaf(entity)
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
            return self._alternative(children)
        if entity.kind == "multipart/signed":
            self.found.facts["signed"] = "yes"
        if entity.kind == "multipart/encrypted":
            self._sealed("PGP")
            return []
        return children

    def _undelimited(self, entity: Entity) -> None:
        text = normalise(charset.decode(entity.body).text).strip()
        if "<html" in text[:2_000].lower() or "<body" in text[:2_000].lower():
            text = html.render(text, quotes=True).text
        if text:
            self.found.texts.append(text)
            self.found.facts["salvaged"] = "parts without their boundaries, read as one text"

    def _alternative(self, children: list[Entity]) -> list[Entity]:
        """One form of the text, and whatever is no form of it (an invitation)."""
        plain = next((child for child in children if child.kind == "text/plain"), None)
        others = [child for child in children if child is not plain]
        rich = [child for child in others if child.kind == "text/html" or child.kind.startswith("multipart/")]
        rest = [child for child in others if child not in rich]
        if plain is None:
            return [*rich[-1:], *rest] if all(c.kind == "text/html" for c in rich) else [*rich, *rest]
        if rich and self._stub(plain, rich):
            return [*rich[-1:], *rest]
        files = [child for child in rich if child.kind.startswith("multipart/")]
        return [plain, *(part for child in files for part in self._beside(child)), *rest]

    def _stub(self, plain: Entity, rich: list[Entity]) -> bool:
        """The plain text says nothing, or next to nothing, of what the HTML says."""
        words = self._text(plain).text.strip()
        if len(words) > _STUB:
            return False
        best = max((len(self._text(page).text.strip()) for page in map(self._first_html, rich) if page), default=0)
        return best > 0 and (not words or best > 4 * len(words) + 200)

    def _first_html(self, entity: Entity) -> Entity | None:
        for _ in range(5):
            if not entity.kind.startswith("multipart/"):
                return entity if entity.kind == "text/html" else None
            children = [mime.parse(part) for part in mime.split(entity)[0][:20]]
            inner = [c for c in children if c.kind == "text/html" or c.kind.startswith("multipart/")]
            if not inner:
                return None
            entity = inner[0]
        return None

    def _beside(self, entity: Entity) -> list[Entity]:
        """The parts of a multipart/related but for the page that shows them."""
        children = [mime.parse(part) for part in mime.split(entity)[0][: self.limits.parts]]
        return [child for child in children if child.kind != "text/html" or child.filename]

    def _leaf(self, entity: Entity) -> None:
        kind = entity.kind
        if kind in _SIGNATURES:
            self.found.facts["signed"] = "yes"
        elif kind in _SEALED:
            self._smime(entity)
        elif kind == "message/partial":
            self.found.notes.append("a piece of a message that was sent in several")
            self.found.texts.append(self._text(entity).text)
        elif kind == "message/external-body":
            self.found.notes.append("a part that is stored elsewhere")
        elif self._is_body(entity):
            form = self._text(entity)
            self.found.texts.append(form.text)
            if form.hidden:
                self.found.hidden.append(form.hidden)
        else:
            self._attach(entity)

    def _is_body(self, entity: Entity) -> bool:
        if entity.kind in _INNER_TEXT:
            return True
        if entity.kind not in ("text/plain", "text/html", "text/enriched", "text/x-plain"):
            return False
        return entity.disposition != "attachment" and not entity.filename

    def _attach(self, entity: Entity) -> None:
        data, whole = mime.payload(entity)
        if not whole:
            self.found.notes.append(
                f"attachment {line(entity.filename.encode()) or entity.kind} is damaged or cut short"
            )
        if entity.kind.startswith("image/") and (entity.disposition == "inline" or entity.get("content-id")):
            self.found.images += 1
            return
        if entity.kind == "message/rfc822":
            subject = line(mime.parse(data[:65_536]).get("subject"), 80)
            name = safe_name(entity.filename) or f"{safe_name(subject) or 'message'}.eml"
            self.found.attachments.append(Attachment(name, data, message=True))
            return
        name = safe_name(entity.filename) or _unnamed(entity)
        self.found.attachments.append(Attachment(name, data, entity.parameters.get("charset", "")))

    def _smime(self, entity: Entity) -> None:
        how = _SEALED[entity.kind]
        if entity.parameters.get("smime-type") == "signed-data":
            self.found.facts["signed"] = "yes"
            self.found.notes.append("signed with S/MIME in a form that is not read in this version")
        else:
            self._sealed(how)

    def _sealed(self, how: str) -> None:
        self.found.facts["encrypted"] = how
        self.found.notes.append(f"encrypted with {how}: its text cannot be read")

    def _text(self, entity: Entity) -> _Form:
        """A text leaf as it is shown."""
        data, whole = mime.payload(entity)
        if not whole:
            self.found.notes.append("its text is damaged or cut short")
        if entity.kind == "text/html":
            label = entity.parameters.get("charset") or html.declared(data)
            page = html.render(charset.decode(data, label).text, quotes=True)
            return _Form(page.text, page.hidden)
        data = self._uuencoded(data)
        decoded = charset.decode(data, entity.parameters.get("charset", ""))
        if not decoded.sure:
            self.found.facts["charset"] = f"{decoded.charset} (guessed)"
        text = normalise(decoded.text)
        if entity.parameters.get("format", "").lower() == "flowed":
            text = unflow(text, entity.parameters.get("delsp", "").lower() == "yes")
        return _Form(self._unwrapped(text))

    def _uuencoded(self, data: bytes) -> bytes:
        """Files that are written into the text in the old way become attachments."""
        if b"\nend" not in data or b"begin " not in data:
            return data
        out, at = [], 0
        for name, inner, start, end in mime.uuencoded(data):
            safe = safe_name(name) or "attachment"
            self.found.attachments.append(Attachment(safe, inner))
            out += [data[at:start], f"[attached: {safe}]".encode()]
            at = end
        return b"".join([*out, data[at:]])

    def _unwrapped(self, text: str) -> str:
        """Text out of PGP armour; encrypted blocks and yEnc files are named in its place."""
        if "-----BEGIN PGP SIGNED" in text:
            self.found.facts["signed"] = "yes"
            text = _PGP_SIGNED.sub(lambda match: re.sub(r"(?m)^- ", "", match[1]) + "\n", text)
        if "-----BEGIN PGP MESSAGE" in text:
            self._sealed("PGP")
            text = _PGP_SEALED.sub("[encrypted with PGP]\n", text)
        if "=ybegin " in text:
            for match in _YENC.finditer(text):
                self.found.notes.append(f"attachment {match[1].strip()[:100]} not read: yEnc")
            text = _YENC.sub(lambda match: f"[attached: {match[1].strip()}]\n", text)
        return text


def _unnamed(entity: Entity) -> str:
    """A name for an attachment that has none, by its type."""
    if entity.kind in ("text/plain", "text/html"):
        return "text"
    main, _, sub = entity.kind.partition("/")
    ends = {
        "calendar": "invitation.ics",
        "pdf": "attachment.pdf",
        "ms-tnef": "winmail.dat",
        "octet-stream": "attachment",
    }
    return ends.get(sub, f"{main}.{re.sub(r'[^a-z0-9]', '', sub)[:10]}")


def unflow(text: str, delsp: bool) -> str:
    """Undoes format=flowed (RFC 3676): a line that ends in a space goes on in the next of the same quotation depth."""
    out: list[str] = []
    flowing, depth = False, 0
    for raw in text.split("\n"):
        now = len(raw) - len(raw.lstrip(">"))
        body = raw[now:]
        body = body[1:] if body.startswith(" ") else body
        soft = body.endswith(" ") and body != "-- "
        piece = body[:-1] if soft and delsp else body
        if flowing and now == depth and body != "-- ":
            out[-1] += piece
        else:
            out.append((">" * now + " " if now else "") + piece)
        flowing, depth = soft, now
    return "\n".join(out)
