"""Reading a collection onto the disk before anybody asks, as a stream of events: forecast, progress, end.

The engine passes over what is stored, so that a stream which ended anyhow, with the machine if need be, is gone on with
by asking for the same again. Where an answer would have to wait for it, reading stops until the answer is there: on a
CPU, which does one thing at a time; a GPU's engine lets both take turns. Knows no HTTP.
"""

import asyncio
import secrets
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from unabridged.app.events import Forecast, LeftOut, ReadAhead, ReadAheadEvent, Stage
from unabridged.engine.errors import EngineDied
from unabridged.engine.events import Composition, Event, Finished, Outlook, Prefill, Progress, Queued

if TYPE_CHECKING:
    from unabridged.app.context import Section
    from unabridged.app.supervisor import Supervisor


@dataclass(frozen=True)
class Reach:
    """What is to be read of a collection. `left_out`: what has no text to read."""

    collection: str
    sections: "tuple[Section, ...]"
    left_out: tuple[LeftOut, ...]
    composition: Composition

    def fitting(self, tokens: int) -> "tuple[Section, ...]":
        """The first sections, of at most so many tokens together."""
        out = []
        for section in self.sections:
            tokens -= len(section)
            if tokens < 0:
                break
            out.append(section)
        return tuple(out)


class Ahead:
    """Reads one collection at a time."""

    def __init__(self, supervisor: "Supervisor") -> None:
        self._supervisor = supervisor
        self._one = asyncio.Lock()
        self._questions = 0
        self._quiet = asyncio.Event()
        self._quiet.set()
        self._running: str | None = None

    @contextmanager
    def question(self) -> Iterator[None]:
        """While this is open, reading stands back where it would be in the way."""
        self._questions += 1
        self._quiet.clear()
        if self._running and self._in_the_way():
            self._supervisor.cancel(self._running)
        try:
            yield
        finally:
            self._questions -= 1
            if not self._questions:
                self._quiet.set()

    async def read(
        self, find: Callable[[], Awaitable[Reach]], request: Callable[[str, Reach], Prefill]
    ) -> AsyncGenerator[ReadAheadEvent, None]:
        """Stage*, Forecast, Stage*, ReadAhead. `find` is called when it is this one's turn, `request` for every
        attempt, with an id. Raises what `find` does, EngineDied when no attempt gets anywhere, EngineError."""
        if self._one.locked():
            yield Stage(name="queue", text="another collection is being read")
        async with self._one:
            reach = await find()
            reading = _Reading(reach)
            while not reading.ended:
                if self._questions and self._in_the_way():
                    yield Stage(name="queue", text="waiting while a question is answered")
                    await self._quiet.wait()
                try:
                    async with aclosing(self._attempt(request, reach)) as events:
                        async for event in events:
                            for shown in reading.saw(event):
                                yield shown
                except EngineDied:
                    # What kills it every time before anything is read is not to be repeated.
                    if not reading.progressed:
                        raise
                    yield Stage(name="start", text="the engine died and is started again: reading goes on")
                reading.pause()

    async def _attempt(self, request: Callable[[str, Reach], Prefill], reach: Reach) -> AsyncGenerator[Event, None]:
        wanted = request(secrets.token_hex(8), reach)
        try:
            async with aclosing(self._supervisor.submit(wanted)) as events:
                async for event in events:
                    self._running = wanted.id
                    if self._questions and self._in_the_way():
                        self._supervisor.cancel(wanted.id)
                    yield event
        finally:
            self._running = None

    def _in_the_way(self) -> bool:
        ready = self._supervisor.ready
        return ready is not None and ready.device == "cpu"


@dataclass
class _Reading:
    """What became of it so far, over all attempts."""

    reach: Reach
    ended: bool = False
    progressed: bool = False
    _began: float = field(default_factory=time.monotonic)
    _forecast: Forecast | None = None
    _done: int = 0  # tokens of this attempt
    _read: int = 0  # of all
    _seconds: float = 0.0  # in which they were
    _at: float = 0.0

    def saw(self, event: Event) -> Iterator[ReadAheadEvent]:
        """The events of an engine's event."""
        if isinstance(event, Queued):
            yield Stage(name="queue", text=f"waiting behind {event.ahead} other requests", total=event.ahead)
        elif isinstance(event, Outlook):
            self._done = 0
            if self._forecast is None:
                self._forecast = self._foretell(event)
                yield self._forecast
        elif isinstance(event, Progress):
            yield self._stage(event)
        elif isinstance(event, Finished) and event.reason == "stop":
            self.ended = True
            yield self._end(event.notes)

    def pause(self) -> None:
        """Time that passes now is not reading's."""
        self._at, self.progressed = 0.0, False

    def _foretell(self, outlook: Outlook) -> Forecast:
        prefix = outlook.total - sum(len(section) for section in self.reach.sections)
        fitting = self.reach.fitting(outlook.fits - prefix)
        return Forecast(
            collection=self.reach.collection,
            documents=len({section.document.id for section in self.reach.sections}),
            tokens=outlook.total,
            stored=outlook.stored,
            missing=outlook.missing,
            bytes=outlook.size,
            bytes_stored=outlook.stored_size,
            bytes_room=outlook.room,
            bytes_dropped=outlook.goes,
            left_out=(*_left_out(self.reach.sections, fitting, outlook), *self.reach.left_out),
        )

    def _stage(self, event: Progress) -> Stage:
        now = time.monotonic()
        if self._at and event.done > self._done:
            self._read += event.done - self._done
            self._seconds += now - self._at
            self.progressed = True
        self._done, self._at = event.done, now
        left = (event.total - event.done) * self._seconds / self._read if self._read else None
        return Stage(
            name="read",
            text=f"reading {self.reach.collection}",
            done=event.done,
            total=event.total,
            unit="tokens",
            seconds_left=left if left is None else round(left, 1),
        )

    def _end(self, notes: tuple[str, ...]) -> ReadAhead:
        forecast = self._forecast
        assert forecast is not None, "the engine's streams begin with an Outlook"
        return ReadAhead(
            collection=self.reach.collection,
            tokens=forecast.tokens,
            read=self._read,
            stored=forecast.stored,
            seconds=time.monotonic() - self._began,
            left_out=forecast.left_out,
            notes=notes,
        )


def _left_out(every: "Sequence[Section]", fitting: "Sequence[Section]", outlook: Outlook) -> list[LeftOut]:
    from unabridged.app.choosing import not_chosen

    reason = (
        f"its KV does not fit: of {outlook.size:,} bytes the store has room for {outlook.room:,} (setting "
        "engine.store_mib, space on its disk, what is pinned)"
    )
    return not_chosen(every, fitting, reason)
