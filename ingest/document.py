"""What a file becomes: documents with pages and labelled parts. Pure types, no I/O.

An extractor yields a flat stream of items. A document opens with `Opened`, has any number of `Page`s and ends with
`Closed`; documents nest (a mailbox holds messages, a message holds attachments) by `parent`. A page of a message or a
text file is a stretch of its text; `number` counts from 1 as people do and never skips, so page 7 stays page 7 though
page 6 was unreadable. What could not be read is said in flags, statuses and reasons, never left out.
"""

from enum import StrEnum

import msgspec


class Kind(StrEnum):
    """What a document is."""

    PDF = "pdf"
    MAILBOX = "mailbox"  # a container: its messages are its children
    MESSAGE = "message"
    TEXT = "text"
    MARKDOWN = "markdown"
    HTML = "html"
    CODE = "code"  # source code; a page's label names its lines
    WORD = "word"  # .docx, .doc, .odt, .rtf
    SHEET = "sheet"  # .xlsx, .xls, .ods, .csv; a page is a sheet or a stretch of its rows
    SLIDES = "slides"  # .pptx, .ppt, .odp; a page is a slide
    BOOK = "book"  # .epub; a page lies within a chapter
    CALENDAR = "calendar"  # .ics
    IMAGE = "image"  # read with OCR only
    ARCHIVE = "archive"  # a container: its files are its children
    OTHER = "other"  # a type we do not read: kept so that it is listed


# Read in place, whatever their size, one child after another: reading goes on behind a child that cannot be read.
CONTAINERS = frozenset({Kind.MAILBOX, Kind.ARCHIVE})


class Status(StrEnum):
    """How reading ended. Everything but READ carries a reason."""

    READ = "read"
    PARTIAL = "partial"  # some pages unread: their flags say which and why
    NEEDS_PASSWORD = "needs_password"
    NO_TEXT = "no_text"
    DAMAGED = "damaged"  # nothing could be read of it, or its reader was stopped at a limit
    UNSUPPORTED = "unsupported"
    TOO_LARGE = "too_large"


class Flag(StrEnum):
    """What a reader of a page should know."""

    EMPTY = "empty"
    SCANNED = "scanned"  # an image without a text layer
    GARBLED = "garbled"  # a text layer that decodes to nonsense
    HIDDEN = "hidden"  # invisible text was kept apart
    UNREAD = "unread"  # the page could not be loaded
    CUT = "cut"  # longer than the limit of a page
    OCR = "ocr"  # its text, or part of it, was recognised in an image; `score` is the engine's confidence
    COLUMNS = "columns"  # written across columns: the order was restored by position, or may be wrong


class PartKind(StrEnum):
    """What a stretch of a page's text is. Unlabelled text is body."""

    HEADER = "header"  # Subject, From, To, Date lines put in front of a message
    QUOTED = "quoted"
    SIGNATURE = "signature"
    ATTRIBUTION = "attribution"  # "On Monday X wrote:"
    HIDDEN = "hidden"  # white, tiny or off-page text, shown apart
    FORM = "form"  # field values
    NOTE = "note"  # annotations, comments, footnotes
    FOOTER = "footer"  # what a mailing list or a mail gateway appends
    FORWARDED = "forwarded"  # a message that was passed on within the text
    OCR = "ocr"  # recognised in an image


class Part(msgspec.Struct, frozen=True, array_like=True):
    """`text[start:end]` of a page is of this kind."""

    kind: PartKind
    start: int
    end: int


class Opened(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A document begins. `ref` is unique within one stream; `name` is the last part of its path ("3" for the third
    message of a mailbox, the file name of an attachment)."""

    ref: int
    parent: int | None
    name: str
    kind: Kind
    title: str = ""
    meta: dict[str, str] = {}  # author, created; from, to, cc, date, message_id, in_reply_to, references, offset
    sha256: str = ""
    size: int = 0


class Page(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """One page of text. Normalised: no NUL, no lone surrogates, no U+FFFE, NFC, "\\n" line ends."""

    ref: int
    number: int
    text: str
    label: str = ""  # printed page label ("iv", "A-3") where it differs from the number
    parts: tuple[Part, ...] = ()
    flags: tuple[Flag, ...] = ()
    extractor: str = ""  # name and version
    score: float = 1.0  # 0 (nonsense) to 1


class Closed(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A document ends."""

    ref: int
    status: Status
    reason: str = ""


Item = Opened | Page | Closed
