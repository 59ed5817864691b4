"""Keeps an engine process running and gives every request its own stream of events.

The server's only way to the engine. A request is a stream; closing the stream cancels the request. When the process
dies, every stream raises EngineDied at once and the process is started again in the background; when it keeps dying,
requests fail with EngineUnavailable and the end of its log until a pause has passed. Torch-free, one event loop.
"""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator
from typing import Literal

from unabridged.app.engine_process import EngineProcess, WorkerCommand
from unabridged.app.metrics import Totals
from unabridged.engine.errors import BadRequest, EngineDied, EngineError, EngineUnavailable, engine_error
from unabridged.engine.events import Cancel, Event, Failed, Finished, Generate, Prefill, Ready

log = logging.getLogger(__name__)

State = Literal["stopped", "starting", "ready", "failed", "closed"]

# Seconds before a start that follows 0, 1, 2... failures in a row. After as many, requests fail at once until PAUSE has
# passed: what kills an engine four times is not gone in a second, but a full memory or disk may be in a minute.
BACKOFF = (0.0, 0.0, 1.0, 4.0)
PAUSE = 30.0

Stream = asyncio.Queue[Event | EngineError]


class Supervisor:
    """One engine process, restarted when it dies. Use it from one event loop and `close` it."""

    def __init__(self, command: WorkerCommand, queue_limit: int = 32, start_timeout: float = 300.0) -> None:
        """At most `queue_limit` requests wait beside those that run; a start may take `start_timeout` seconds."""
        self._command = command
        self._queue_limit = queue_limit
        self._start_timeout = start_timeout
        self._streams: dict[str, Stream] = {}  # of requests that the engine has and that have not ended
        self._process: EngineProcess | None = None
        self._starting: asyncio.Task[Ready | EngineUnavailable] | None = None
        self._reading: asyncio.Task[None] | None = None
        self._failures = 0  # in a row: a request that finishes ends the row
        self._failed_at = 0.0
        self.totals = Totals()  # of all processes
        self.state: State = "stopped"
        self.ready: Ready | None = None  # of the process that runs now
        self.problem: EngineUnavailable | None = None  # why the last start failed

    async def start(self) -> Ready:
        """Start the engine, or wait for the start under way. Raises EngineUnavailable with the way out."""
        if self.ready:
            return self.ready
        if self._starting is None:
            self._check_startable()
            self._begin_start()
        return await self._started()

    async def submit(self, request: Generate | Prefill) -> AsyncGenerator[Event, None]:
        """The request's events: Queued*, Progress*, Token*, and Finished at the end.

        Starts the engine if it does not run. Closing the iterator (or cancelling the task that reads it) cancels the
        request. Reading slowly costs memory for the events, never engine time. Raises instead of yielding Failed:
        EngineDied, EngineUnavailable, or the error whose code the engine sent (QueueFull, ContextTooLong, ...).
        """
        await self.start()
        stream = self._open(request)
        try:
            while True:
                item = await stream.get()
                if isinstance(item, EngineError):
                    raise item
                yield item
                if isinstance(item, Finished):
                    return
        finally:
            self._abandon(request.id, stream)

    def cancel(self, id: str) -> None:
        """Stop a request but let its stream run to its Finished(reason="cancelled")."""
        if id in self._streams and self._process:
            self._process.send(Cancel(id=id))

    async def close(self, timeout: float = 10.0) -> None:
        """End the engine: gracefully, and by force after `timeout` seconds. Streams raise EngineUnavailable."""
        self.state, self.ready = "closed", None
        _fail(self._streams, _closed())
        if self._starting:
            self._starting.cancel()
            await asyncio.wait([self._starting])
        if self._process:
            await self._process.shut_down(timeout)
        if self._reading:
            await self._reading

    def _check_startable(self) -> None:
        if self.state == "closed":
            raise _closed()
        left = self._failed_at + PAUSE - time.monotonic()
        if self.problem and self._failures >= len(BACKOFF) and left > 0:
            raise EngineUnavailable(
                f"the engine failed {self._failures} times in a row; at last: {self.problem.message}",
                f"it will be tried again in {left:.0f} s. {self.problem.hint}".rstrip(),
            )

    def _begin_start(self) -> None:
        self.state = "starting"
        self._starting = asyncio.create_task(self._start(), name="engine start")

    async def _started(self) -> Ready:
        """The outcome of the start under way; a caller that is cancelled does not cancel it for the others."""
        assert self._starting is not None
        starting = self._starting
        await asyncio.wait([starting])
        outcome = _closed() if starting.cancelled() else starting.result()
        if isinstance(outcome, EngineUnavailable):
            raise outcome
        return outcome

    async def _start(self) -> Ready | EngineUnavailable:
        """One try. Failure is a result, not an exception: after a crash nobody may be waiting for it."""
        try:
            await asyncio.sleep(BACKOFF[min(self._failures, len(BACKOFF) - 1)])
            process = await EngineProcess.start(self._command, self._queue_limit)
            self.ready = await process.ready(self._start_timeout)
            self._process, self.state, self.problem = process, "ready", None
            self._reading = asyncio.create_task(self._read(process), name="engine events")
            return self.ready
        except EngineUnavailable as problem:
            if str(problem) != str(self.problem):
                # On the terminal of `serve`, where nobody may be asking.
                log.warning("the engine cannot start: %s", problem)
            self.state, self.problem = "failed", problem
            self._count_failure()
            return problem
        finally:
            self._starting = None

    def _count_failure(self) -> None:
        self._failures += 1
        self._failed_at = time.monotonic()

    async def _read(self, process: EngineProcess) -> None:
        """Hand out events until the process ends; then end the streams and start the next."""
        while (event := await process.receive()) is not None:
            self._deliver(event, process)
        self.ready = None
        if self.state == "closed":
            return
        self.state = "failed"
        self._count_failure()
        lost, self._streams = self._streams, {}
        await process.end()
        error = _died(process)
        self.problem = EngineUnavailable(error.message, process.log_quoted())
        _fail(lost, error)
        if self.state == "failed" and self._failures < len(BACKOFF):
            self._begin_start()

    def _deliver(self, event: Event, process: EngineProcess) -> None:
        """Put an event into the stream of its request."""
        if isinstance(event, Ready) or event.id is None or event.id not in self._streams:
            return
        if isinstance(event, Failed):
            self.totals.failed()
            error = engine_error(event.code, event.message, event.hint, tokens=event.tokens, limit=event.limit)
            self._streams.pop(event.id).put_nowait(error)
        elif isinstance(event, Finished):
            self.totals.finished(event)
            self._streams.pop(event.id).put_nowait(event)
            self._failures = 0
            process.trim_log()
        else:
            self._streams[event.id].put_nowait(event)

    def _open(self, request: Generate | Prefill) -> Stream:
        if request.id in self._streams:
            raise BadRequest(f"request id {request.id!r} is already in use", "give every request an id of its own")
        assert self._process is not None
        self._process.send(request)
        stream = self._streams[request.id] = Stream()
        return stream

    def _abandon(self, id: str, stream: Stream) -> None:
        """A stream that is still listed has not ended: its reader went away, so the request stops. It stays listed
        until the engine says so, because its last events must not reach another request of the same id."""
        if self._streams.get(id) is stream:
            self.cancel(id)


def _fail(streams: dict[str, Stream], error: EngineError) -> None:
    for stream in streams.values():
        stream.put_nowait(error)
    streams.clear()


def _died(process: EngineProcess) -> EngineDied:
    hint = "ask again: the engine is being restarted. " + process.log_quoted()
    return EngineDied(f"the engine process died: {process.why()}", hint.strip())


def _closed() -> EngineUnavailable:
    return EngineUnavailable("the engine was shut down", "start the server again")
