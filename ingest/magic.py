"""Binary file types by their first bytes: those that are read, with their reader, and those that only have a name."""

import re
from typing import NamedTuple

from unabridged.ingest.document import Kind

TAR_BLOCK = 512
OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"


class Detected(NamedTuple):
    """`what` names a type that is not read, for people; "" for those that are. `reader`: the module, where the kind
    alone does not tell it."""

    kind: Kind
    what: str = ""
    reader: str = ""


_READ: tuple[tuple[bytes, Detected], ...] = (
    (b"{\\rtf", Detected(Kind.WORD, reader="office.rtf")),
    (b"\x89PNG\r\n", Detected(Kind.IMAGE)),
    (b"\xff\xd8\xff", Detected(Kind.IMAGE)),
    (b"GIF8", Detected(Kind.IMAGE)),
    (b"II*\x00", Detected(Kind.IMAGE)),
    (b"MM\x00*", Detected(Kind.IMAGE)),
    (b"\x78\x9f\x3e\x22", Detected(Kind.MESSAGE, reader="outlook.winmail")),
    (b"!BDN", Detected(Kind.MAILBOX, reader="outlook.pst")),
    (b"\x09\x00\x04\x00", Detected(Kind.SHEET, reader="office.xls")),
    (b"\x09\x02\x06\x00", Detected(Kind.SHEET, reader="office.xls")),
    (b"\x09\x04\x06\x00", Detected(Kind.SHEET, reader="office.xls")),
    (b"\x1f\x8b", Detected(Kind.ARCHIVE, reader="archives.tarball")),
    (b"BZh", Detected(Kind.ARCHIVE, reader="archives.tarball")),
    (b"\xfd7zXZ\x00", Detected(Kind.ARCHIVE, reader="archives.tarball")),
    (b"\x5d\x00\x00\x80\x00\xff\xff", Detected(Kind.ARCHIVE, reader="archives.tarball")),
)
_RIFF = {
    b"WEBP": Detected(Kind.IMAGE),
    b"WAVE": Detected(Kind.OTHER, "WAV audio"),
    b"AVI ": Detected(Kind.OTHER, "AVI video"),
}
_NAMED: tuple[tuple[bytes, str], ...] = (
    (b"\x28\xb5\x2f\xfd", "zstd archive: unpack it first"),
    (b"7z\xbc\xaf\x27\x1c", "7-Zip archive: unpack it first"),
    (b"Rar!\x1a\x07", "RAR archive: unpack it first"),
    (b"MSCF", "Windows cabinet: unpack it first"),
    (b"!<arch>\n", "ar archive"),
    (b"\x00\x00\x01\x00", "icon"),
    (b"8BPS", "Photoshop image"),
    (b"AT&TFORM", "DjVu document: export it as PDF"),
    (b"ITSF", "Windows help file (.chm): unpack it first"),
    (b"ITOLITLS", "Microsoft Reader book"),
    (b"\xdb\xa5\x2d\x00", "Word document of version 2 or older: save it as .docx"),
    (b"\xffWPC", "WordPerfect document: save it as .docx or PDF"),
    (b"\x31\xbe\x00\x00", "Windows Write document: save it as .docx"),
    (b"\x7fELF", "program"),
    (b"MZ", "Windows program"),
    (b"\xca\xfe\xba\xbe", "program"),
    (b"SQLite format 3\x00", "SQLite database"),
    (b"\x00\x01\x00\x00Standard Jet DB", "Access database: export its tables"),
    (b"\x00\x01\x00\x00Standard ACE DB", "Access database: export its tables"),
    (b"// <!-- <mdb:mork", "index of Thunderbird (.msf)"),
    (b"%!PS", "PostScript file: convert it to PDF"),
    (b"\xc5\xd0\xd3\xc6", "PostScript file: convert it to PDF"),
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
_DRAWING = re.compile(rb"AC10[0-9]{2}[\x00-\x08]")
# Letters that a text may begin with as well.
_WORDS = frozenset({"Windows program", "MP3 audio", "Windows cabinet: unpack it first", "Microsoft Reader book"})
_ZIP = (
    (b"word/", Kind.WORD),
    (b"xl/", Kind.SHEET),
    (b"ppt/", Kind.SLIDES),
    (b"application/epub+zip", Kind.BOOK),
    (b"application/vnd.oasis.opendocument.text", Kind.WORD),
    (b"application/vnd.oasis.opendocument.spreadsheet", Kind.SHEET),
    (b"application/vnd.oasis.opendocument.presentation", Kind.SLIDES),
)
_OFFICE = {
    "doc": Kind.WORD,
    "docx": Kind.WORD,
    "docm": Kind.WORD,
    "dotx": Kind.WORD,
    "odt": Kind.WORD,
    "xls": Kind.SHEET,
    "xlsx": Kind.SHEET,
    "xlsm": Kind.SHEET,
    "ods": Kind.SHEET,
    "ppt": Kind.SLIDES,
    "pptx": Kind.SLIDES,
    "pptm": Kind.SLIDES,
    "ppsx": Kind.SLIDES,
    "odp": Kind.SLIDES,
    "epub": Kind.BOOK,
    "zip": Kind.ARCHIVE,
    "msg": Kind.MESSAGE,
}
_STREAMS = (
    ("EncryptedPackage", Kind.WORD),
    ("__properties_version1.0", Kind.MESSAGE),
    ("WordDocument", Kind.WORD),
    ("PowerPoint Document", Kind.SLIDES),
    ("Workbook", Kind.SHEET),
)


def binary(head: bytes, ext: str) -> Detected | None:
    """The type of a file that begins with a known mark. What lies in a container is for its reader to find: the kind
    here is what it seems to be."""
    if head.startswith((b"PK\x03\x04", b"PK\x05\x06", b"PK00PK\x03\x04")):
        seems = next((kind for mark, kind in _ZIP if mark in head), _OFFICE.get(ext, Kind.ARCHIVE))
        return Detected(seems, reader="archives.zipped")
    if head.startswith(OLE):
        seems = next((kind for name, kind in _STREAMS if name.encode("utf-16-le") in head), _OFFICE.get(ext, Kind.WORD))
        return Detected(seems, reader="office.ole")
    if head[4:8] == b"ftyp":
        return Detected(Kind.OTHER, "video or image (MP4 family)")
    if head.startswith(b"RIFF") and head[8:12] in _RIFF:
        return _RIFF[head[8:12]]
    if found := next((found for mark, found in _READ if head.startswith(mark)), None):
        return None if found.reader == "archives.tarball" and head[:256].isascii() else found
    if _DRAWING.match(head):
        return Detected(Kind.OTHER, "AutoCAD drawing (.dwg): export it as PDF")
    what = next((what for mark, what in _NAMED if head.startswith(mark)), "")
    return Detected(Kind.OTHER, what) if what and not (what in _WORDS and head[:256].isascii()) else None


def office(ext: str) -> Kind | None:
    """The kind of an Office file, a book or a ZIP archive by its name alone: for those whose beginning is lost."""
    return _OFFICE.get(ext)


def is_tar(head: bytes) -> bool:
    """Whether a block is a tar header: its checksum is right."""
    if len(head) < TAR_BLOCK or not head[0]:
        return False
    try:
        stated = int(head[148:156].split(b"\0")[0].strip() or b"x", 8)
    except ValueError:
        return False
    return stated == sum(head[:148]) + 8 * 32 + sum(head[156:TAR_BLOCK])
