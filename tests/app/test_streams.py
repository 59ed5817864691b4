"""Streams over a real socket: what ends one ends its source, silence is broken by pings, a stopping server says so."""

import asyncio
import socket
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager

import httpx
import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from unabridged.app.replies import Refusal
from unabridged.app.streams import Feed, Stream, while_connected


class Source:
    """Yields what it is given and then waits; knows whether it was closed."""

    def __init__(self, *items: bytes) -> None:
        self.items = items
        self.closed = asyncio.Event()
        self.began = asyncio.Event()

    async def run(self) -> AsyncGenerator[bytes, None]:
        try:
            self.began.set()
            for item in self.items:
                yield item
            await asyncio.sleep(60)
        finally:
            self.closed.set()


@asynccontextmanager
async def serving(respond: Callable[[Request], Response], path: str = "/") -> AsyncIterator[httpx.AsyncClient]:
    async def endpoint(request: Request) -> Response:
        return respond(request)

    app = Starlette(routes=[Route(path, endpoint)])
    async with running(app) as client:
        yield client


@asynccontextmanager
async def running(app: Starlette) -> AsyncIterator[httpx.AsyncClient]:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        server = uvicorn.Server(uvicorn.Config(app, log_level="warning"))
        task = asyncio.create_task(server.serve([sock]))
        url = f"http://127.0.0.1:{sock.getsockname()[1]}"
        async with httpx.AsyncClient(base_url=url, trust_env=False) as client:
            yield client
        server.should_exit = True
        await task


def streaming(source: Source, stopping: asyncio.Event, ping_seconds: float = 60.0) -> Callable[[Request], Response]:
    def respond(_: Request) -> Response:
        return Stream(
            source.run(),
            media_type="text/event-stream",
            ping=b": ping\n\n",
            ping_seconds=ping_seconds,
            stopping=stopping,
            farewell=b"bye",
        )

    return respond


async def test_a_client_that_leaves_closes_the_source() -> None:
    source = Source(b"one")
    async with serving(streaming(source, asyncio.Event())) as client, client.stream("GET", "/") as reply:
        assert await anext(reply.aiter_raw()) == b"one"
        assert not source.closed.is_set()
        await reply.aclose()
        await asyncio.wait_for(source.closed.wait(), 2)


async def test_headers_and_pings_arrive_while_the_source_is_silent() -> None:
    source = Source()
    async with serving(streaming(source, asyncio.Event(), 0.02)) as client, client.stream("GET", "/") as reply:
        assert reply.headers["content-type"] == "text/event-stream"
        assert reply.headers["cache-control"] == "no-store"
        received = b""
        async for chunk in reply.aiter_raw():
            received += chunk
            if received.count(b": ping\n\n") >= 2:
                break
    await asyncio.wait_for(source.closed.wait(), 2)


async def test_a_stopping_server_says_goodbye_and_closes_the_source() -> None:
    source, stopping = Source(b"one"), asyncio.Event()
    async with serving(streaming(source, stopping)) as client, client.stream("GET", "/") as reply:
        chunks = reply.aiter_raw()
        assert await anext(chunks) == b"one"
        stopping.set()
        assert [chunk async for chunk in chunks] == [b"bye"]
    assert source.closed.is_set()


async def test_everything_arrives_at_a_reader_that_is_slower_than_the_source() -> None:
    async def many() -> AsyncGenerator[bytes, None]:
        for number in range(500):
            yield b"%d\n" % number

    def respond(_: Request) -> Response:
        return Stream(many(), media_type="x/y", ping=b"", ping_seconds=60, stopping=asyncio.Event(), farewell=b"")

    received = b""
    async with serving(respond) as client, client.stream("GET", "/") as reply:
        async for chunk in reply.aiter_raw(64):
            received += chunk
            await asyncio.sleep(0.001)
    assert received.split() == [b"%d" % number for number in range(500)]


async def test_work_for_a_whole_reply_stops_when_the_client_leaves() -> None:
    cancelled = asyncio.Event()
    began = asyncio.Event()

    async def work() -> Response:
        began.set()
        try:
            await asyncio.sleep(60)
        finally:
            cancelled.set()
        return PlainTextResponse("never")

    async def endpoint(request: Request) -> Response:
        with pytest.raises(Refusal, match="closed the connection"):
            await while_connected(work(), request.receive, asyncio.Event())
        return PlainTextResponse("")

    async with running(Starlette(routes=[Route("/", endpoint)])) as client:
        asking = asyncio.create_task(client.get("/"))
        await asyncio.wait_for(began.wait(), 2)
        asking.cancel()
        await asyncio.wait([asking])
        await asyncio.wait_for(cancelled.wait(), 2)


async def test_a_feed_gives_everything_then_what_the_source_raised() -> None:
    async def failing() -> AsyncGenerator[int, None]:
        yield 1
        yield 2
        raise Refusal("no more")

    feed = Feed(failing())
    assert [await anext(feed), await anext(feed)] == [1, 2]
    for _ in range(2):
        with pytest.raises(Refusal, match="no more"):
            await anext(feed)
    await feed.aclose()


async def test_giving_up_waiting_on_a_feed_loses_nothing() -> None:
    go = asyncio.Event()

    async def waiting() -> AsyncGenerator[int, None]:
        await go.wait()
        yield 1

    feed = Feed(waiting())
    for _ in range(3):
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(anext(feed), 0.01)
    go.set()
    assert [item async for item in feed] == [1]
    await feed.aclose()
