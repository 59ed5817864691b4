"""Which request runs next: first come, first served, `slots` at a time.

Pure bookkeeping on requests, no threads, no clock, no engine. The worker asks for the request whose step is next, runs
one step of it and asks again; with one slot that finishes requests one after the other, with more it interleaves them
step by step.
"""

from collections import deque

from unabridged.engine.errors import BadRequest, QueueFull
from unabridged.engine.events import Generate, Prefill

Work = Generate | Prefill


class Scheduler:
    """The requests of an engine in the order in which they came."""

    def __init__(self, waiting: int, slots: int = 1) -> None:
        """At most `waiting` requests wait while `slots` run."""
        self._limit = waiting
        self._slots = slots
        self._waiting: deque[Work] = deque()
        self._running: deque[Work] = deque()

    def __len__(self) -> int:
        """Requests that wait or run."""
        return len(self._waiting) + len(self._running)

    def add(self, work: Work) -> None:
        """Queue a request. Raises QueueFull, or BadRequest when its id is in use."""
        if self.find(work.id):
            raise BadRequest(f"request id {work.id!r} is already in use", "give every request an id of its own")
        if len(self) >= self._slots + self._limit:
            raise QueueFull(f"{len(self)} requests run or wait already", "try again when one of them has ended")
        self._waiting.append(work)

    def find(self, id: str) -> Work | None:
        """The request of that id, waiting or running."""
        return next((work for work in (*self._running, *self._waiting) if work.id == id), None)

    def remove(self, id: str) -> None:
        """Forget a request: it ended, failed or was cancelled. An unknown id is no error, its end crossed a cancel."""
        self._running = deque(work for work in self._running if work.id != id)
        self._waiting = deque(work for work in self._waiting if work.id != id)

    def next(self) -> Work | None:
        """The request whose step is next: running ones take turns, free slots are filled first. None when idle."""
        while self._waiting and len(self._running) < self._slots:
            self._running.append(self._waiting.popleft())
        if not self._running:
            return None
        self._running.rotate(-1)
        return self._running[-1]

    def ahead(self) -> list[tuple[str, int]]:
        """Each waiting request's id with the number of requests that were there before it."""
        return [(work.id, len(self._running) + place) for place, work in enumerate(self._waiting)]
