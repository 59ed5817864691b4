"""Frames on the private socket between the server and an engine process.

A frame is a 4-byte little-endian length and as many bytes of msgpack (`engine.events` encodes and decodes them). The
socket is one end of an inherited pair, so there is nothing on the file system and an end of stream means that the peer
is gone (docs/decisions/0004-wire.md). Knows no message types; the worker's side blocks, the server's side is asyncio.
"""

import asyncio
import socket

HEADER = 4
# 64 Mi token ids: twenty times the longest context planned for; anything above is garbage, not a request.
MAX_FRAME = 256 * 1024 * 1024


class WireError(Exception):
    """The bytes on the socket are not a frame; the connection cannot be used any more."""


def frame(body: bytes) -> bytes:
    """A body with its length in front. Raises WireError when it is longer than MAX_FRAME."""
    return _checked(len(body)).to_bytes(HEADER, "little") + body


def read_frame(sock: socket.socket) -> bytes | None:
    """Wait for a frame's body; None when the peer has closed. Raises WireError when it closed inside a frame."""
    header = _read(sock, HEADER)
    if not header:
        return None
    length = _length(_whole(header, HEADER))
    return _whole(_read(sock, length), length)


async def read_frame_async(reader: asyncio.StreamReader) -> bytes | None:
    """The same from an asyncio stream. A reset connection counts as closed: a killed peer leaves one."""
    try:
        header = await reader.readexactly(HEADER)
        return await reader.readexactly(_length(header))
    except asyncio.IncompleteReadError as end:
        if end.partial or end.expected != HEADER:
            raise WireError(f"the stream ended inside a frame, {len(end.partial)} of {end.expected} bytes") from None
        return None
    except ConnectionError:
        return None


def _read(sock: socket.socket, length: int) -> bytes:
    """Up to `length` bytes, fewer only at the end of the stream."""
    parts = bytearray(length)
    view, got = memoryview(parts), 0
    while got < length:
        count = _receive(sock, view[got:])
        if count == 0:
            break
        got += count
    return bytes(view[:got])


def _receive(sock: socket.socket, space: memoryview) -> int:
    """As recv_into; a reset connection counts as closed, because a killed peer leaves one when it had not read all."""
    try:
        return sock.recv_into(space)
    except ConnectionError:
        return 0


def _whole(data: bytes, length: int) -> bytes:
    if len(data) < length:
        raise WireError(f"the stream ended inside a frame, {len(data)} of {length} bytes")
    return data


def _length(header: bytes) -> int:
    return _checked(int.from_bytes(header, "little"))


def _checked(length: int) -> int:
    if not 0 < length <= MAX_FRAME:
        raise WireError(f"a frame of {length} bytes; the limit is {MAX_FRAME}")
    return length
