"""Header values to text: encoded words, raw 8-bit, ids. Linear in its input; never raises."""

import binascii
import re

from unabridged.ingest.texts import charset
from unabridged.ingest.texts.normalise import normalise, one_line

_WORD = re.compile(rb"=\?([^?\s]{1,60})\?([QqBb])\?([^?]*)\?=")
_BETWEEN = re.compile(rb"(\?=)[ \t\r\n]+(?==\?[^?\s]{1,60}\?[QqBb]\?)")
NOT_BASE64 = re.compile(rb"[^A-Za-z0-9+/]+")
_ID = re.compile(r"<([^<>\s]{1,500})>")
_COMMA_SOUP = 2_000  # characters of a list of addresses that are kept
_IDS = 100
_GUESSED = 40  # pieces of one value whose charset is guessed


def text_of(raw: bytes, label: str = "") -> str:
    """Bytes by the charset ladder."""
    return charset.decode(raw, label).text if not (raw.isascii() and not label) else raw.decode("ascii")


def decode_header(raw: bytes) -> str:
    """The text of a header value. Neighbouring encoded words of one charset are joined before they are decoded, since
    senders cut characters in two."""
    if b"=?" not in raw:
        return text_of(raw)
    raw = _BETWEEN.sub(rb"\1", raw)
    read = _Guesses()
    out: list[str] = []
    pending, label, at = b"", "", 0
    for match in _WORD.finditer(raw):
        name = match[1].decode("ascii", "replace").split("*")[0]
        between = raw[at : match.start()]
        if pending and (between or name.lower() != label.lower()):
            out.append(read.text(pending, label))
            pending = b""
        if between:
            out.append(read.text(between))
        pending, label, at = pending + _word(match[2], match[3]), name, match.end()
    if pending:
        out.append(read.text(pending, label))
    return "".join(out) + read.text(raw[at:])


class _Guesses:
    """Reads pieces of one value. To guess a charset takes a thousand times as long as to know it, so only the first
    are guessed."""

    def __init__(self) -> None:
        self.left = _GUESSED

    def text(self, raw: bytes, label: str = "") -> str:
        """Bytes by the charset ladder, or as cp1252 when too many were guessed."""
        if raw.isascii() and not label:
            return raw.decode("ascii")
        if self.left <= 0:
            return raw.decode("cp1252", "replace")
        decoded = charset.decode(raw, label)
        self.left -= not decoded.sure
        return decoded.text


def _word(encoding: bytes, text: bytes) -> bytes:
    if encoding in b"Qq":
        return binascii.a2b_qp(text, header=True)
    return unpadded(NOT_BASE64.sub(b"", text))


def unpadded(clean: bytes) -> bytes:
    """Decodes base64 that holds nothing but its letters; a last one that stands alone is no byte and is dropped."""
    clean = clean[:-1] if len(clean) % 4 == 1 else clean
    return binascii.a2b_base64(clean + b"=" * (-len(clean) % 4))


def line(raw: bytes, limit: int = 1_000) -> str:
    """A header value as one line of normalised text, at most `limit` characters."""
    if (text := _plain(raw)) is None:
        return one_line(decode_header(raw), limit)
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _plain(raw: bytes) -> str | None:
    """A value of printable ASCII, as nearly all are; None for one that has to be decoded."""
    if b"=?" in raw or not raw.isascii():
        return None
    text = " ".join(raw.decode("ascii").split())
    return text if text.isprintable() else None


def addresses(values: list[bytes]) -> str:
    """Address headers as a reader sees them; a list of thousands is cut with its number of "@"s."""
    whole = _folded(b", ".join(value for value in values if value))
    if len(whole) <= _COMMA_SOUP:
        return whole
    return f"{whole[:_COMMA_SOUP].rsplit(',', 1)[0]}, … ({whole.count('@'):,} addresses)"


def _folded(value: bytes) -> str:
    text = _plain(value)
    return " ".join(normalise(decode_header(value)).split()) if text is None else text


def ids(raw: bytes) -> list[str]:
    """Message ids without their brackets; the last hundred of a longer chain."""
    if b"<" not in raw:
        return []
    text = raw[-65_536:].decode("ascii", "replace")
    return [one_line(found) for found in _ID.findall(text)][-_IDS:]
