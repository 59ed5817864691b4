"""A text part of a message as a reader sees it: charset, HTML, flowed lines, files in the text, PGP armour."""

import re

from unabridged.ingest.mail import mime
from unabridged.ingest.mail.letter import Attachment, Content
from unabridged.ingest.mail.mime import Entity
from unabridged.ingest.pdf.extra import safe_name
from unabridged.ingest.texts import charset, html
from unabridged.ingest.texts.normalise import normalise

_PGP_SIGNED = re.compile(r"^-----BEGIN PGP SIGNED MESSAGE-----\n(?:[A-Za-z]+:[^\n]*\n)*\n?", re.M)
_PGP_SIGNATURE = re.compile(r"\n?-----BEGIN PGP SIGNATURE-----.*?(?:-----END PGP SIGNATURE-----\n?|\Z)", re.S)
_PGP_SEALED = re.compile(r"^-----BEGIN PGP MESSAGE-----.*?(?:-----END PGP MESSAGE-----\n?|\Z)", re.M | re.S)
_YENC = re.compile(r"^=ybegin [^\n]*?name=([^\n]*)\n.*?(?:^=yend[^\n]*\n?|\Z)", re.M | re.S)
_ENRICHED = re.compile(r"</?[A-Za-z][A-Za-z0-9-]{0,60}>")


def text(entity: Entity, found: Content) -> tuple[str, str]:
    """The visible and the hidden text of a part. What it says of itself, and files in it, are put into `found`."""
    data, whole = mime.payload(entity)
    if not whole:
        found.notes.append("its text is damaged or cut short")
    if entity.kind == "text/html":
        label = entity.parameters.get("charset") or html.declared(data)
        page = html.render(_decoded(data, label, found), quotes=True)
        return page.text, page.hidden
    shown = normalise(_decoded(_uuencoded(data, found), entity.parameters.get("charset", ""), found))
    if entity.kind == "text/enriched":
        shown = _ENRICHED.sub("", shown.replace("<<", "\0")).replace("\0", "<")
    if entity.parameters.get("format", "").lower() == "flowed":
        shown = unflow(shown, entity.parameters.get("delsp", "").lower() == "yes")
    return _unwrapped(shown, found), ""


def sealed(how: str, found: Content) -> None:
    """Notes that a part cannot be read because it is encrypted."""
    found.facts["encrypted"] = how
    found.notes.append(f"encrypted with {how}: its text cannot be read")


def _decoded(data: bytes, label: str, found: Content) -> str:
    """By the ladder; a charset that was guessed, or is not the one of the label, is a fact of the message."""
    decoded = charset.decode(data, label)
    if not decoded.sure:
        found.facts["charset"] = f"{decoded.charset} (guessed)"
    elif label and decoded.charset != charset.canonical(label):
        found.facts["charset"] = f"{decoded.charset} (labelled {label[:40]})"
    return decoded.text


def _uuencoded(data: bytes, found: Content) -> bytes:
    """Files that are written into the text in the old way become attachments."""
    if b"\nend" not in data or b"begin " not in data:
        return data
    out, at = [], 0
    for name, inner, start, end in mime.uuencoded(data):
        safe = safe_name(name) or "attachment"
        found.attachments.append(Attachment(safe, inner))
        out += [data[at:start], f"[attached: {safe}]".encode()]
        at = end
    return b"".join([*out, data[at:]])


def _unwrapped(shown: str, found: Content) -> str:
    """Text out of PGP armour; encrypted blocks and yEnc files are named in its place."""
    if "-----BEGIN PGP SIGNED" in shown:
        found.facts["signed"] = "PGP"
        shown = _unsigned(shown)
    if "-----BEGIN PGP MESSAGE" in shown:
        sealed("PGP", found)
        shown = _PGP_SEALED.sub("[encrypted with PGP]\n", shown)
    if "=ybegin " in shown:
        for match in _YENC.finditer(shown):
            found.notes.append(f"attachment {match[1].strip()[:100]} not read: yEnc")
        shown = _YENC.sub(lambda match: f"[attached: {match[1].strip()}]\n", shown)
    return shown


def _unsigned(shown: str) -> str:
    """Text without the armour of signatures. One pass: an armour that never ends is left as it is."""
    out, at = [], 0
    while begin := _PGP_SIGNED.search(shown, at):
        end = _PGP_SIGNATURE.search(shown, begin.end())
        if end is None:
            break
        out += [shown[at : begin.start()], re.sub(r"(?m)^- ", "", shown[begin.end() : end.start()]), "\n"]
        at = end.end()
    return "".join([*out, shown[at:]])


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
