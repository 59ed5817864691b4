"""What a file is, by its first bytes, then by its name. Knows nothing of how it is read.

A name is believed only where the bytes do not say otherwise: a Word document named report.pdf is a Word document.
"""

import re

from unabridged.ingest.document import Kind
from unabridged.ingest.magic import TAR_BLOCK, Detected, binary, is_tar, office
from unabridged.ingest.texts import charset
from unabridged.ingest.texts.languages import is_code, is_data, is_table
from unabridged.ingest.texts.text import is_binary

HEAD = 64 * 1024  # bytes of a file that `detect` looks at

_FROM_LINE = re.compile(rb"From [^\r\n]+\r?\n(?:>From [^\r\n]*\r?\n)?")
_HEADER = re.compile(rb"([!-9;-~]+)[ \t]*:[^\r\n]*(?:(?:\r\n|\r|\n)[ \t]+[^\r\n]*)*(?:\r\n|\r|\n|\Z)")
_KNOWN = frozenset(
    b"from to cc subject date message-id received return-path mime-version content-type delivered-to reply-to sender "
    b"x-mailer in-reply-to references content-transfer-encoding x-priority x-uidl x-mozilla-status".split()
)
_TELLING = frozenset(b"from subject date message-id received return-path mime-version delivered-to".split())
_HTML = re.compile(
    rb"\s*(?:<\?xml[^>]*>\s*|<!--.*?-->\s*)*<(?:!doctype\s+html|html|head|body|title|meta)[\s>]", re.I | re.S
)
_MAIL_NAMES = frozenset({"eml", "mht", "mhtml", "emlx", "mail"})
_CALENDAR_NAMES = frozenset({"ics", "vcs", "ifb", "ical"})
_HTML_NAMES = frozenset({"html", "htm", "xhtml", "shtml"})


def extension(name: str) -> str:
    """The extension in lower case without its dot."""
    stem, dot, tail = name.rpartition(".")
    return tail.lower() if dot and stem else ""


def detect(head: bytes, name: str) -> Detected:
    """The kind of a file from its first bytes (HEAD of them are enough) and its name."""
    ext = extension(name)
    if head.startswith(b"%PDF-") or (ext == "pdf" and b"%PDF-" in head[:1024]):
        return Detected(Kind.PDF)
    if found := binary(head, ext):
        return found
    if is_tar(head[:TAR_BLOCK]):
        return Detected(Kind.ARCHIVE, reader="archives.tarball")
    if ext == "ipynb":
        return Detected(Kind.CODE, reader="texts.notebook")
    if is_code(name, ext, head):
        return Detected(Kind.CODE, reader="texts.code")
    if found := _lines(head, ext):
        return found
    if kind := _by_text(head, ext):
        return Detected(kind)
    if b"%PDF-" in head[:1024]:
        return Detected(Kind.PDF)
    return _by_name(head, ext)


def _by_name(head: bytes, ext: str) -> Detected:
    """What no mark tells: the name says which text it is, or what a file with a lost beginning was."""
    if ext == "pdf":
        return Detected(Kind.PDF)
    if ext in ("md", "markdown"):
        return Detected(Kind.MARKDOWN)
    lost = office(ext)
    if lost and (not head or is_binary(head)):
        return Detected(lost, reader="archives.zipped")
    # Programs that "export to Excel" write separated values under its name.
    if is_table(ext) or ext == "xls":
        return Detected(Kind.SHEET, reader="texts.delimited")
    return Detected(Kind.TEXT, reader="texts.code" if is_data(ext) else "texts.text")


def _lines(head: bytes, ext: str) -> Detected | None:
    """Calendars and contact cards."""
    begins = as_ascii(head[:4_096]).lstrip()[:40].upper().replace(b" ", b"")
    if begins.startswith(b"BEGIN:VCALENDAR") or (ext in _CALENDAR_NAMES and not is_binary(head)):
        return Detected(Kind.CALENDAR, reader="texts.calendar")
    return Detected(Kind.TEXT, reader="texts.vcard") if begins.startswith(b"BEGIN:VCARD") else None


def _by_text(head: bytes, ext: str) -> Kind | None:
    text = as_ascii(head)
    if ext == "emlx" and (match := re.match(rb"\d+\s*\n", text)):
        text = text[match.end() :]
    stripped = text.lstrip(b"\r\n\t ")
    if ext not in _MAIL_NAMES and stripped.startswith(b"From ") and (ext == "mbox" or _begins_mailbox(stripped)):
        return Kind.MAILBOX
    if ext in _MAIL_NAMES or looks_like_mail(stripped):
        return Kind.MESSAGE if ext not in _HTML_NAMES else Kind.HTML
    if ext in _HTML_NAMES or (ext not in ("md", "markdown") and _HTML.match(stripped[:16_384])):
        return Kind.HTML
    return None


def _begins_mailbox(text: bytes) -> bool:
    """A "From " line and a header of mail behind it."""
    line = _FROM_LINE.match(text)
    header = _HEADER.match(text, line.end()) if line else None
    return header is not None and (header[1].lower() in _KNOWN or b"-" in header[1])


def as_ascii(head: bytes) -> bytes:
    """The bytes with their byte order mark, and the NULs of UTF-16, taken out: enough to recognise markup."""
    if head.startswith(b"\xef\xbb\xbf"):
        return head[3:]
    if charset.is_marked(head) or charset.utf16_order(head):
        return charset.decode(head).text.encode("ascii", "replace")
    return head


def looks_like_mail(text: bytes) -> bool:
    """Begins with at least two header lines that only mail has."""
    names: list[bytes] = []
    at = 0
    if text.startswith(b">From "):
        at = text.find(b"\n") + 1
    while len(names) < 30 and (match := _HEADER.match(text, at)) and match.end() > at:
        names.append(match[1].lower())
        at = match.end()
    known = [name for name in names if name in _KNOWN]
    return len(known) >= 2 and 2 * len(known) >= min(len(names), 6) and any(name in _TELLING for name in known)
