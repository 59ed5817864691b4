"""What a file of stored KV is: a page with a header, then the raw bytes as the pool orders them, to a whole page.

The header is a line of JSON, filled up with zeros. Its checksum is XXH3-128 over the page with a blank checksum and all
bytes behind it, so that a changed bit anywhere is seen. It guards against disks and interrupted writers; whoever may
write into the folder may as well write checksums.

Files are read and written past the system's cache, where it can be done: a library takes tens of GiB, which the pool
needs. Hence pages everywhere. Torch-free.
"""

import mmap
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import xxhash

MAGIC = "unabridged-kv-2"
PAGE = 4096
_BLANK = "0" * 32
# Moved at a time, between two looks at whether it is still wanted.
PIECE = 8 << 20
_DIRECT = getattr(os, "O_DIRECT", 0)


class Damaged(ValueError):
    """A file is not what its name and header promise."""


class Stopped(Exception):
    """Reading ended because it is not wanted any more."""


class Header(msgspec.Struct, frozen=True, kw_only=True):
    """The first page. `form`: type, order and shape of the bytes besides the number of tokens; `size`: of the bytes
    behind the page, without what fills up the last one."""

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
    return PAGE + -(-size // PAGE) * PAGE


def aligned(size: int) -> memoryview:
    """Zeros that files can be read into and written from; a multiple of pages."""
    return memoryview(mmap.mmap(-1, -(-size // PAGE) * PAGE))


def open_file(path: Path, flags: int) -> int:
    """A descriptor. Past the system's cache where the file system does that."""
    flags |= os.O_CLOEXEC
    try:
        return os.open(path, flags | _DIRECT, 0o600)
    except OSError:
        # Whatever it is: without it says the same again, or works.
        return os.open(path, flags, 0o600)


def read_header(file: int, key: str) -> Header:
    """The header of an open file that should be `key`'s. Raises Damaged, also for a file of another length."""
    page = aligned(PAGE)
    _fill(file, page, 0)
    try:
        header = msgspec.json.decode(bytes(page).partition(b"\n")[0], type=Header)
    except msgspec.MsgspecError as error:
        raise Damaged(f"its header cannot be read: {error}") from error
    if (header.magic, header.key) != (MAGIC, key):
        raise Damaged("it is another file's content")
    if header.page() != page:
        raise Damaged("its header is damaged")
    if (found := os.fstat(file).st_size) != file_bytes(header.size):
        raise Damaged(f"{found:,} bytes instead of {file_bytes(header.size):,}")
    return header


def pieces(
    file: int, header: Header, buffer: memoryview, stopped: Callable[[], bool] = lambda: False
) -> Iterator[memoryview]:
    """The bytes behind the header, as much at a time as `buffer` holds, in it. Raises Damaged where they are not those
    that were written, which may be seen at the end only, and Stopped once `stopped` is true."""
    checksum, end = Checksum(header), file_bytes(header.size)
    for at in range(PAGE, end, len(buffer)):
        if stopped():
            raise Stopped
        piece = buffer[: end - at]
        _fill(file, piece, at)
        checksum.update(piece)
        yield piece[: PAGE + header.size - at]
    if checksum.text() != header.checksum:
        raise Damaged("its checksum is wrong")


def write(file: int, header: Header, image: memoryview) -> None:
    """Write a file's image: room for the header, then all bytes. The header is what is written last."""
    checksum = Checksum(header)
    for at in range(PAGE, len(image), PIECE):
        piece = image[at : at + PIECE]
        checksum.update(piece)
        _empty(file, piece, at)
    image[:PAGE] = header.sealed(checksum).page()
    _empty(file, image[:PAGE], 0)


def check(path: Path) -> Header:
    """Read a file whole. Raises Damaged, or OSError where it cannot be read."""
    file = open_file(path, os.O_RDONLY)
    try:
        header = read_header(file, path.stem)
        for _ in pieces(file, header, aligned(PIECE)):
            pass
    finally:
        os.close(file)
    return header


def _fill(file: int, place: memoryview, at: int) -> None:
    while place:
        got = os.preadv(file, [place], at)
        if not got:
            raise Damaged("it ends early")
        place, at = place[got:], at + got


def _empty(file: int, data: memoryview, at: int) -> None:
    while data:
        done = os.pwrite(file, data, at)
        data, at = data[done:], at + done
