"""Streaming responses that notice: the client that left, the silence while a document is read, the server that ends.

`Feed` runs an async generator in a task of its own, so that it is always closed where it runs; `Stream` is the response
over one. Whatever ends a response closes its source, and with it the engine's request. Knows no formats.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Mapping
from contextlib import aclosing
from typing import Any, Generic, TypeVar

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from unabridged.app.replies import Refusal

T = TypeVar("T")

STOPPING = Refusal("the server is stopping", "start it again with `unabridged serve`", code="server_stopping")

# What waits here for a slow reader; beyond it the source waits too. The engine never does: its events queue up in the
# supervisor.
_AHEAD = 64


class Feed(Generic[T]):
    """Reads a source ahead. Iterate it once; `aclose` in any case. Waiting for an item may be given up without loss."""

    def __init__(self, source: AsyncGenerator[T, None]) -> None:
        self._queue: asyncio.Queue[tuple[T] | Exception] = asyncio.Queue(_AHEAD)
        self._task = asyncio.create_task(self._read(source))

    def __aiter__(self) -> "Feed[T]":
        return self

    async def __anext__(self) -> T:
        """The next item. Raises what the source raised."""
        item = await self._queue.get()
        if isinstance(item, Exception):
            self._queue.put_nowait(item)
            raise item
        return item[0]

    async def aclose(self) -> None:
        """Close the source, wherever it is, and wait until it has."""
        self._task.cancel()
        await asyncio.wait([self._task])

    async def _read(self, source: AsyncGenerator[T, None]) -> None:
        end: Exception = StopAsyncIteration()
        try:
            async with aclosing(source):
                async for item in source:
                    await self._queue.put((item,))
        except Exception as error:
            end = error
        await self._queue.put(end)


class Stream(Response):
    """Headers at once, then what the source yields, `ping` when it is silent for `ping_seconds`."""

    def __init__(
        self,
        source: AsyncGenerator[bytes, None],
        *,
        media_type: str,
        ping: bytes,
        ping_seconds: float,
        stopping: asyncio.Event,
        farewell: bytes,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """`farewell` is sent instead of the rest when `stopping` is set. The source raises nothing but defects."""
        super().__init__(headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no", **(headers or {})})
        del self.headers["content-length"]
        self.headers["content-type"] = media_type
        self._source = source
        self._ping = ping
        self._ping_seconds = ping_seconds
        self._stopping = stopping
        self._farewell = farewell

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send until the source ends, the client leaves or the server stops."""
        async with aclosing(Feed(self._source)) as feed:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            consume = asyncio.create_task(self._consume(feed, send))
            gone = asyncio.create_task(disconnected(receive))
            stop = asyncio.create_task(self._stopping.wait())
            try:
                await asyncio.wait({consume, gone, stop}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                await _end(consume, gone, stop)
        if gone.done() and not gone.cancelled():
            return
        if consume.cancelled():
            await send({"type": "http.response.body", "body": self._farewell, "more_body": True})
        else:
            consume.result()
        await send({"type": "http.response.body", "body": b""})

    async def _consume(self, feed: Feed[bytes], send: Send) -> None:
        while True:
            try:
                item = await asyncio.wait_for(anext(feed), self._ping_seconds)
            except TimeoutError:
                item = self._ping
            except StopAsyncIteration:
                return
            await send({"type": "http.response.body", "body": item, "more_body": True})


async def while_connected(work: Awaitable[T], receive: Receive, stopping: asyncio.Event) -> T:
    """Do the work of a reply that is not streamed, but stop when nobody waits for it any more.

    Raises Refusal when the client left or the server stops.
    """
    task = asyncio.ensure_future(work)
    gone = asyncio.create_task(disconnected(receive))
    stop = asyncio.create_task(stopping.wait())
    try:
        await asyncio.wait({task, gone, stop}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        raise STOPPING if stop.done() else Refusal("the client closed the connection", code="client_closed_request")
    finally:
        await _end(task, gone, stop)


async def disconnected(receive: Receive) -> None:
    """Return when the client has closed its connection."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def _end(*tasks: "asyncio.Future[Any]") -> None:
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
