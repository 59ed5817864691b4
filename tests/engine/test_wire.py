import asyncio
import socket
from collections.abc import Iterator

import pytest

from unabridged.engine.wire import MAX_FRAME, WireError, frame, read_frame, read_frame_async


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    left, right = socket.socketpair()
    with left, right:
        yield left, right


async def read_async(data: bytes) -> bytes | None:
    reader = asyncio.StreamReader()
    reader.feed_data(data)
    reader.feed_eof()
    return await read_frame_async(reader)


async def test_frames_keep_their_borders(pair: tuple[socket.socket, socket.socket]) -> None:
    bodies = [b"x", b"y" * 70_000, b"z"]
    left, right = pair
    sending = asyncio.to_thread(left.sendall, b"".join(map(frame, bodies)))
    reading = asyncio.to_thread(lambda: [read_frame(right) for _ in bodies])
    assert (await asyncio.gather(sending, reading))[1] == bodies
    assert [await read_async(frame(body)) for body in bodies] == bodies


async def test_the_end_between_frames_is_none_and_inside_a_frame_an_error(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    left, right = pair
    left.sendall(frame(b"whole") + frame(b"cut off")[:-1])
    left.close()
    assert read_frame(right) == b"whole"
    with pytest.raises(WireError, match="6 of 7 bytes"):
        read_frame(right)
    assert read_frame(right) is None
    assert await read_async(b"") is None
    for cut in (frame(b"cut off")[:-1], b"\x01\x00", b"\x01\x00\x00\x00"):
        with pytest.raises(WireError, match="ended inside a frame"):
            await read_async(cut)


async def test_lengths_out_of_range_are_refused_before_memory_is_taken(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    left, right = pair
    for length in (0, MAX_FRAME + 1, 0xFFFFFFFF):
        header = length.to_bytes(4, "little")
        left.sendall(header)
        with pytest.raises(WireError, match=f"a frame of {length} bytes"):
            read_frame(right)
        with pytest.raises(WireError, match=f"a frame of {length} bytes"):
            await read_async(header)
    with pytest.raises(WireError):
        frame(b"")
