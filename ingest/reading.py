"""What the readers of all formats share: the bytes to read, the budget of a file, and the way to read what is inside.

A reader is a generator function `(Source, Reading, Place) -> Iterator[Item]`. It yields its `Opened`, pages, children
and `Closed`; it raises `Unreadable` where nothing can be read. `Reading` never touches the disk.
"""

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from io import BufferedReader

from unabridged.ingest.document import Item, Kind, Opened, Status
from unabridged.ingest.limits import Limits


class Unreadable(Exception):
    """A document, or the rest of it, cannot be read. Caught by `extract`, which closes the document with it."""

    def __init__(self, status: Status, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


@dataclass(frozen=True)
class Place:
    """Where a document stands in its file: None and 0 for the file itself."""

    parent: int | None = None
    depth: int = 0
    meta: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Source:
    """Bytes with a name. `charset` is what its container claims; `file` replaces `data` for a container, which is read
    in place. `dated`: what the container knows of its date, the best first, as (ISO 8601, where that comes from)."""

    name: str
    data: bytes = b""
    charset: str = ""
    file: BufferedReader | None = None
    kind: Kind | None = None  # given where the container knows it
    dated: tuple[tuple[str, str], ...] = ()

    @property
    def size(self) -> int:
        """Bytes."""
        return os.fstat(self.file.fileno()).st_size if self.file else len(self.data)

    @property
    def sha256(self) -> str:
        """Hex digest of the content."""
        if self.file is None:
            return hashlib.sha256(self.data).hexdigest()
        self.file.seek(0)
        return hashlib.file_digest(self.file, "sha256").hexdigest()

    def opened(
        self, ref: int, place: Place, kind: Kind, title: str = "", meta: Mapping[str, str] | None = None
    ) -> Opened:
        """The item with which the document begins. `meta` joins what its place knows of it."""
        return Opened(
            ref=ref,
            parent=place.parent,
            name=self.name,
            kind=kind,
            title=title,
            meta={**place.meta, **(meta or {})},
            sha256=self.sha256,
            size=self.size,
        )


@dataclass
class Reading:
    """The reading of one file. `expect(ref, pages)` tells the outside how many pages are to come, so that it can
    account for them should this process be stopped; `allow(seconds)` asks for more processor time before slow work;
    `child` reads a document that lies inside another."""

    limits: Limits
    child: Callable[["Source", "Reading", Place], Iterator[Item]]
    passwords: tuple[str, ...] = ()  # tried on what is locked, in this order
    expect: Callable[[int, int], None] = lambda ref, pages: None
    allow: Callable[[float], None] = lambda seconds: None
    coming: Callable[[str], None] = lambda name: None  # the name of an archive's file that is to be read next
    skip: int = 0  # pages, messages, or files of an archive, of the file itself that were read, or given up, before
    first_ref: int = 1
    _refs: int = 0
    _parts: int = 0
    _bytes: int = 0

    def ref(self) -> int:
        """A number for a new document, unique within the file."""
        ref = self._refs
        self._refs = max(ref + 1, self.first_ref)
        return ref

    def fresh(self) -> None:
        """A new message of a mailbox begins: it has its own allowance of parts and bytes."""
        self._parts = self._bytes = 0

    def refuses(self, size: int, depth: int) -> str:
        """Why one more document of `size` bytes inside this one is not read; "" when it is. Counts it."""
        limits = self.limits
        if depth > limits.depth:
            return f"nested more than {limits.depth} levels deep"
        self._parts += 1
        if self._parts > limits.parts:
            return f"more than {limits.parts:,} parts"
        self._bytes += size
        if self._bytes > limits.attachment_bytes:
            return f"attachments of more than {limits.attachment_bytes >> 20} MB"
        return ""


def spoken(numbers: Sequence[int], noun: str = "page") -> str:
    """ "page 3", "pages 3 and 7", "pages 1-4, 9 and 12"; long lists are cut with their count."""
    runs: list[list[int]] = []
    for n in numbers:
        if runs and n == runs[-1][1] + 1:
            runs[-1][1] = n
        else:
            runs.append([n, n])
    words = [str(a) if a == b else f"{a} and {b}" if b == a + 1 and len(runs) == 1 else f"{a}-{b}" for a, b in runs]
    if len(words) > 12:
        return f"{len(numbers)} {noun}s ({', '.join(words[:10])}, ...)"
    text = words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
    return f"{noun} {text}" if len(numbers) == 1 else f"{noun}s {text}"
