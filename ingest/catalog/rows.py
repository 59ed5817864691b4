"""What the library and `add` hand out: documents, pages, hits, collections and the steps of an addition. No I/O.

Rows are snapshots: they stay as they were read, whatever happens to the library afterwards.
"""

from typing import Literal

import msgspec

from unabridged.ingest.document import Flag, Kind, Part, Status

Change = Literal["new", "changed", "unchanged", "moved", "removed"]
# How a model reads a collection: each document by itself, all as one text, or as suits its size.
Composing = Literal["auto", "composable", "joint"]


class DocumentRow(msgspec.Struct, frozen=True, kw_only=True):
    """A document of the library.

    `path` is the file's absolute path for a file itself; what a file holds goes on behind it: "/a/box.mbox#3" is the
    third message, "/a/box.mbox#3/report.pdf" its attachment. The same content at several paths is one document: `path`
    is the first location in natural order, `also` the others.
    """

    id: int
    parent_id: int | None
    parent: str  # path of the parent, "" for a file itself
    path: str
    also: tuple[str, ...] = ()
    kind: Kind
    title: str
    status: Status
    reason: str
    pages: int
    tokens: int | None  # None: not counted yet with this tokenizer
    sha256: str  # "" where the content could not be read
    size: int  # bytes
    meta: dict[str, str] = {}
    thread: int | None = None  # of a message, and of what is attached to it: the number of its conversation
    identity: str = ""  # of a message: those that share it are copies of one; "" where that is not known
    date: str = ""  # ISO 8601, as the document shows it; "" for none
    dated: str = ""  # where the date is from: "message", "metadata" or "file"
    tags: tuple[str, ...] = ()


class PageRow(msgspec.Struct, frozen=True, kw_only=True):
    """One page as it is stored. `parts` and all spans count characters (code points) of `text`."""

    document_id: int
    number: int  # physical, from 1
    label: str  # printed label, "" when equal to the number
    text: str
    parts: tuple[Part, ...]
    flags: tuple[Flag, ...]
    extractor: str
    score: float


class Hit(msgspec.Struct, frozen=True, kw_only=True):
    """A page that a search found. `snippet` is `text[start:end]` of the page, character for character."""

    document: DocumentRow
    page: int
    label: str
    snippet: str
    start: int
    end: int
    marks: tuple[tuple[int, int], ...]  # spans of the words that matched, in the page's text, within start..end
    score: float  # higher is better; comparable within one search only
    all_words: bool = True  # whether the page has all that was typed


class CollectionRow(msgspec.Struct, frozen=True, kw_only=True):
    """A collection and what it holds."""

    name: str
    roots: tuple[str, ...]  # folders that were added as such: files that vanish from them leave the collection
    files: int
    documents: int
    pages: int
    tokens: int | None
    composition: Composing = "auto"


class Counts(msgspec.Struct, frozen=True, kw_only=True):
    """How much there is, and how it ended."""

    files: int
    documents: int
    pages: int
    statuses: dict[str, int]  # documents per status
    characters: int


class FileDone(msgspec.Struct, frozen=True, kw_only=True):
    """One file was dealt with and is committed."""

    path: str
    kind: str
    status: str
    reason: str
    pages: int  # of itself and of what it holds
    documents: int  # itself and what it holds
    change: Change
    inside: dict[str, int] = {}  # of what it holds, how many documents of each status but read


class Ignored(msgspec.Struct, frozen=True, kw_only=True):
    """A file, or a folder with so many files below it, that a rule leaves out."""

    path: str
    rule: str  # "hidden", "--exclude old/", "letters/.unabridgedignore: *.log"
    files: int


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """Where an addition stands. `total` grows while folders are still walked; `walked` says that it is final."""

    done: int
    total: int
    walked: bool
    current: str
    pages: int  # read so far in the current file
    bytes_done: int = 0  # of the files that are to be read
    bytes_total: int = 0
    seconds_left: float | None = None  # None: too early to say


AddItem = FileDone | Ignored | Progress
