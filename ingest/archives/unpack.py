"""Packed bytes to plain ones, piece by piece: however well something packs, only a piece of it is in memory."""

import bz2
import lzma
import zlib
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Protocol

PIECE = 1 << 18
_DICTIONARY = 128 << 20
METHODS = {0: "stored", 8: "deflate", 12: "bzip2", 14: "lzma", 95: "xz"}
_OTHERS = {9: "deflate64", 93: "zstd", 98: "ppmd", 97: "wavpack", 96: "jpeg"}


class _Decompressor(Protocol):
    """What bz2's and lzma's have in common."""

    @property
    def eof(self) -> bool: ...
    @property
    def needs_input(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int = -1) -> bytes: ...


class Broken(Exception):
    """The bytes end early or are no such data. The text is the reason, for people."""


def unpacked(raw: Iterator[bytes], method: int) -> Iterator[bytes]:
    """The plain bytes of a ZIP member packed with `method`. Raises Broken behind what could be unpacked."""
    if method == 0:
        return raw
    if method == 8:
        return inflated(raw, -15)
    if method == 12:
        return bunzipped(raw)
    if method == 14:
        return _zip_lzma(raw)
    if method == 95:
        return unxzed(raw)
    raise Broken(f"packed with {_OTHERS.get(method, f'method {method}')}, which is not read: pack it with deflate")


def inflated(raw: Iterator[bytes], window: int) -> Iterator[bytes]:
    """Deflate; `window` as zlib has it: -15 for bare data, 31 for gzip, whose members may follow each other."""
    inflate = zlib.decompressobj(window)
    fresh = True
    try:
        for piece in raw:
            data = piece
            while data:
                if inflate.eof:
                    if window < 0 or not data.startswith(b"\x1f\x8b"):
                        return
                    inflate = zlib.decompressobj(window)
                fresh = False
                if out := inflate.decompress(data, PIECE):
                    yield out
                data = inflate.unused_data if inflate.eof else inflate.unconsumed_tail
        if not inflate.eof and (out := inflate.flush()):
            yield out
    except zlib.error as error:
        raise Broken("its packed data is damaged") from error
    if not inflate.eof and not fresh:
        raise Broken("cut off: its packed data ends early")


def bunzipped(raw: Iterator[bytes]) -> Iterator[bytes]:
    """bzip2, also of several streams."""
    return _decompressed(raw, bz2.BZ2Decompressor, b"BZh")


def unxzed(raw: Iterator[bytes]) -> Iterator[bytes]:
    """xz and lzma files, with dictionaries of at most 128 MB."""
    return _decompressed(raw, lambda: lzma.LZMADecompressor(lzma.FORMAT_AUTO, memlimit=_DICTIONARY), b"\xfd7zXZ")


def _zip_lzma(raw: Iterator[bytes]) -> Iterator[bytes]:
    """LZMA as ZIP files hold it: version, length of the properties, properties, bare data."""
    head = b""
    for piece in raw:
        head += piece
        if len(head) >= 9:
            break
    if len(head) < 9 or head[4] >= 9 * 5 * 5:
        raise Broken("its packed data is damaged")
    properties, dictionary = head[4], int.from_bytes(head[5:9], "little")
    if dictionary > _DICTIONARY:
        raise Broken(f"needs a dictionary of {dictionary >> 20:,} MB: not unpacked")
    chosen = {
        "id": lzma.FILTER_LZMA1,
        "dict_size": dictionary,
        "lc": properties % 9,
        "lp": properties // 9 % 5,
        "pb": properties // 45,
    }
    return _decompressed(
        chain([head[9:]], raw), lambda: lzma.LZMADecompressor(lzma.FORMAT_RAW, filters=[chosen]), b"", marked=False
    )


def _decompressed(
    raw: Iterator[bytes], make: Callable[[], _Decompressor], magic: bytes, marked: bool = True
) -> Iterator[bytes]:
    """Streams that begin with `magic` may follow each other; if `marked` they know their end."""
    try:
        machine = make()
        for piece in raw:
            data = piece
            while data or not (machine.eof or machine.needs_input):
                if machine.eof:
                    if not magic or not data.startswith(magic):
                        return
                    machine = make()
                out = machine.decompress(data, PIECE)
                data = machine.unused_data if machine.eof else b""
                if out:
                    yield out
    except (OSError, EOFError, ValueError, lzma.LZMAError) as error:
        raise Broken("its packed data is damaged") from error
    if marked and not machine.eof:
        raise Broken("cut off: its packed data ends early")
