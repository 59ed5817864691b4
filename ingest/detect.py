"""What a file is, by its first bytes, then by its name. Knows nothing of how it is read.

A name is believed only where the bytes do not say otherwise: a Word document named report.pdf is a Word document.
"""

import re
from typing import NamedTuple

from unabridged.ingest import charset
from unabridged.ingest.document import Kind

HEAD = 64 * 1024  # bytes of a file that `detect` looks at


class Detected(NamedTuple):
    """`what` names a type that is not read, for people; "" for those that are."""

    kind: Kind
    what: str = ""


_MAGIC: tuple[tuple[bytes, str], ...] = (
    (b"\x1f\x8b", "gzip archive"),
    (b"BZh", "bzip2 archive"),
    (b"\xfd7zXZ\x00", "xz archive"),
    (b"\x28\xb5\x2f\xfd", "zstd archive"),
    (b"7z\xbc\xaf\x27\x1c", "7-Zip archive"),
    (b"Rar!\x1a\x07", "RAR archive"),
    (b"\x89PNG\r\n", "PNG image"),
    (b"\xff\xd8\xff", "JPEG image"),
    (b"GIF8", "GIF image"),
    (b"II*\x00", "TIFF image"),
    (b"MM\x00*", "TIFF image"),
    (b"\x00\x00\x01\x00", "icon"),
    (b"8BPS", "Photoshop image"),
    (b"AT&TFORM", "DjVu document"),
    (b"\x7fELF", "program"),
    (b"MZ", "Windows program"),
    (b"\xca\xfe\xba\xbe", "program"),
    (b"SQLite format 3\x00", "SQLite database"),
    (b"!BDN", "Outlook mailbox (.pst)"),
    (b"\x78\x9f\x3e\x22", "Outlook attachment container (winmail.dat)"),
    (b"{\\rtf", "RTF document"),
    (b"%!PS", "PostScript file"),
    (b"ID3", "MP3 audio"),
    (b"OggS", "Ogg audio"),
    (b"fLaC", "FLAC audio"),
    (b"\x1aE\xdf\xa3", "Matroska video"),
    (b"wOFF", "font"),
    (b"wOF2", "font"),
    (b"OTTO", "font"),
    (b"\x00\x01\x00\x00\x00", "font"),
    (b"GGUF", "model file"),
)
_ZIP = (
    (b"word/", "Word document (.docx)"),
    (b"xl/", "Excel workbook (.xlsx)"),
    (b"ppt/", "PowerPoint presentation (.pptx)"),
    (b"application/epub+zip", "EPUB book"),
    (b"application/vnd.oasis.opendocument.text", "OpenDocument text (.odt)"),
    (b"application/vnd.oasis.opendocument.spreadsheet", "OpenDocument spreadsheet (.ods)"),
    (b"application/vnd.oasis.opendocument", "OpenDocument file"),
    (b"META-INF/MANIFEST.MF", "Java archive"),
)
_BY_NAME = {
    "docx": "Word document (.docx)",
    "docm": "Word document (.docm)",
    "xlsx": "Excel workbook (.xlsx)",
    "pptx": "PowerPoint presentation (.pptx)",
    "epub": "EPUB book",
    "odt": "OpenDocument text (.odt)",
    "ods": "OpenDocument spreadsheet (.ods)",
    "odp": "OpenDocument presentation (.odp)",
    "msg": "Outlook message (.msg)",
    "doc": "Word document (.doc)",
    "xls": "Excel workbook (.xls)",
    "ppt": "PowerPoint presentation (.ppt)",
}
_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
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
    if what := _binary(head, ext):
        return Detected(Kind.OTHER, what)
    if kind := _by_text(head, ext):
        return Detected(kind)
    if b"%PDF-" in head[:1024]:
        return Detected(Kind.PDF)
    by_name = {"pdf": Kind.PDF, "md": Kind.MARKDOWN, "markdown": Kind.MARKDOWN, "mbox": Kind.TEXT}
    if ext in _BY_NAME:
        return Detected(Kind.OTHER, f"{_BY_NAME[ext]}, damaged")
    return Detected(by_name.get(ext, Kind.TEXT))


def _binary(head: bytes, ext: str) -> str:
    if head.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return next((what for mark, what in _ZIP if mark in head), _BY_NAME.get(ext, "ZIP archive"))
    if head.startswith(_OLE):
        return _BY_NAME.get(ext, "Microsoft Office file of the old binary format")
    if head[4:8] == b"ftyp":
        return "video or image (MP4 family)"
    if head.startswith(b"RIFF") and head[8:12] in (b"WEBP", b"WAVE", b"AVI "):
        return {b"WEBP": "WebP image", b"WAVE": "WAV audio"}.get(head[8:12], "AVI video")
    found = next((what for mark, what in _MAGIC if head.startswith(mark)), "")
    # "MZ", "BZh" and "ID3" are letters: a text may begin with them.
    return (
        "" if found and head[:256].isascii() and found in ("Windows program", "bzip2 archive", "MP3 audio") else found
    )


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
