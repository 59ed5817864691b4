"""What a file of stored KV is: a page with a header, then the raw bytes as the pool orders them.

The header is a line of JSON, filled up with zeros. Its checksum is XXH3-128 over the page with a blank checksum and all
bytes behind it, so that a changed bit anywhere is seen. It guards against disks and interrupted writers; whoever may
write into the folder may as well write checksums. Torch-free.
"""

import os
from collections.abc import Sequence
from pathlib import Path

import msgspec
import xxhash

MAGIC = "unabridged-kv-2"
PAGE = 4096
_BLANK = "0" * 32
# Read at a time, between two looks at whether it is still wanted.
PIECE = 8 << 20


class Damaged(ValueError):
    """A file is not what its name and header promise."""


class Stopped(Exception):
    """Reading ended because it is not wanted any more."""


class Header(msgspec.Struct, frozen=True, kw_only=True):
    """The first page. `form`: type, order and shape of the bytes besides the number of tokens; `size`: bytes behind the
    page."""

    magic: str = MAGIC
    key: str
    form: str
    tokens: int
    size: int
    checksum: str = _BLANK

    def page(self) -> bytes:
        """As it stands in the file."""
        line = msgspec.json.encode(self) + b"\n"
        assert len(line) <= PAGE, f"a header of {len(line)} bytes"
        return line.ljust(PAGE, b"\0")

    def sealed(self, checksum: "Checksum") -> "Header":
        """With the checksum of everything."""
        return msgspec.structs.replace(self, checksum=checksum.text())


class Checksum:
    """Of a file whose bytes come one after the other."""

    def __init__(self, header: Header) -> None:
        blank = msgspec.structs.replace(header, checksum=_BLANK)
        self._state = xxhash.xxh3_128(blank.page())

    def update(self, data: memoryview) -> None:
        """The next bytes."""
        self._state.update(data)

    def text(self) -> str:
        """As headers hold it."""
        return self._state.hexdigest()


def file_bytes(size: int) -> int:
    """What a file of `size` bytes of KV takes."""
    return PAGE + size


def read_header(file: int, key: str) -> Header:
    """The header of an open file that should be `key`'s. Raises Damaged, also for a file of another length."""
    page = os.pread(file, PAGE, 0)
    try:
        header = msgspec.json.decode(page.partition(b"\n")[0], type=Header)
    except msgspec.MsgspecError as error:
        raise Damaged(f"its header cannot be read: {error}") from error
    if (header.magic, header.key) != (MAGIC, key):
        raise Damaged("it is another file's content")
    if header.page() != page:
        raise Damaged("its header is damaged")
    if (found := os.fstat(file).st_size) != PAGE + header.size:
        raise Damaged(f"{found:,} bytes instead of {PAGE + header.size:,}")
    return header


def read_into(file: int, places: Sequence[memoryview], at: int) -> int:
    """Fill places, one behind the other, from offset `at`; the offset behind them. Raises Damaged at an early end."""
    left = list(places)
    while left:
        got = os.preadv(file, left, at)
        if not got:
            raise Damaged("it ends early")
        at += got
        while left and got >= len(left[0]):
            got -= len(left.pop(0))
        if got:
            left[0] = left[0][got:]
    return at


def check(path: Path) -> Header:
    """Read a file whole. Raises Damaged, or OSError where it cannot be read."""
    with path.open("rb", buffering=0) as opened:
        file = opened.fileno()
        header = read_header(file, path.stem)
        checksum, at, buffer = Checksum(header), PAGE, memoryview(bytearray(PIECE))
        while at < PAGE + header.size:
            piece = buffer[: min(PIECE, PAGE + header.size - at)]
            at = read_into(file, [piece], at)
            checksum.update(piece)
    if checksum.text() != header.checksum:
        raise Damaged("its checksum is wrong")
    return header
