"""Runs a generator per task in threads, some tasks ahead of the consumer, and hands the streams over in task order.

Bounded: at most `jobs` generators run, each two batches ahead; a batch ends at `_ITEMS` results or at `_WEIGHT`, so
that neither many small results nor few large ones take much memory. It knows nothing of files.
"""

import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, TypeVar

Task = TypeVar("Task")
Result = TypeVar("Result")

_ITEMS = 64
_WEIGHT = 500_000
_BATCH_SECONDS = 0.05
_BATCHES = 2
_STREAMS = 8  # read or waiting to be stored, for each job: small files come in bursts
_TASKS = 512
_POLL_SECONDS = 0.1


class _End:
    """The last thing in a stream: how it ended."""

    def __init__(self, error: BaseException | None = None) -> None:
        self.error = error


class Stream(Generic[Result]):
    """What one task yields, filled by a thread and iterated by the consumer."""

    def __init__(self, stop: threading.Event, weigh: Callable[[Result], int]) -> None:
        self._queue: queue.Queue[list[Result | _End]] = queue.Queue(_BATCHES)
        self._stop = stop
        self._weigh = weigh
        self._closed = False
        self._taken: deque[Result | _End] = deque()

    def fill(self, results: Iterator[Result]) -> None:
        """Runs the generator to its end, or until nobody wants the rest."""
        error: BaseException | None = None
        batch: list[Result | _End] = []
        try:
            weight, due = 0, time.monotonic() + _BATCH_SECONDS
            while not self._stop.is_set() and (result := next(results, None)) is not None:
                batch.append(result)
                weight += self._weigh(result)
                if len(batch) >= _ITEMS or weight >= _WEIGHT or time.monotonic() > due:
                    if not self._put(batch):
                        break
                    batch, weight, due = [], 0, time.monotonic() + _BATCH_SECONDS
        except Exception as raised:
            error = raised
        finally:
            close = getattr(results, "close", None)
            if close:
                close()
        batch.append(_End(error))
        self._put(batch)

    def _put(self, batch: "list[Result | _End]") -> bool:
        while not (self._stop.is_set() or self._closed):
            try:
                self._queue.put(batch, timeout=_POLL_SECONDS)
            except queue.Full:
                continue
            return True
        return False

    def ready(self, seconds: float) -> bool:
        """Whether the next result is there, or comes within so many seconds."""
        if not self._taken:
            try:
                self._taken.extend(self._queue.get(timeout=seconds))
            except queue.Empty:
                return False
        return True

    def __iter__(self) -> Iterator[Result]:
        return self

    def __next__(self) -> Result:
        if not self._taken:
            self._taken.extend(self._queue.get())
        result = self._taken.popleft()
        if not isinstance(result, _End):
            return result
        self._taken.append(_End())  # whoever asks again is told the same
        if result.error is not None:
            raise result.error
        raise StopIteration

    def close(self) -> None:
        """The rest is not wanted."""
        self._closed = True


def read_ahead(
    tasks: Iterator[Task],
    start: Callable[[Task], Iterator[Result] | None],
    jobs: int,
    abort: Callable[[], None] = lambda: None,
    weigh: Callable[[Result], int] = lambda result: 1,
) -> Generator[tuple[Task, Stream[Result] | None], None, None]:
    """Each task with its stream, in order. `start` says, in the consumer's thread, what runs for a task: None for
    nothing. Streams yield no None. `weigh`: characters, or what else a result takes. Closing the generator stops the
    threads after the item that each is at; `abort` is called then, so that they need not wait for that item."""
    stop = threading.Event()
    waiting: deque[tuple[Task, Stream[Result] | None]] = deque()
    running = 0
    with ThreadPoolExecutor(jobs, "read-ahead") as pool:
        try:
            for task in tasks:
                results = start(task)
                stream = None if results is None else Stream[Result](stop, weigh)
                if stream is not None and results is not None:
                    pool.submit(stream.fill, results)
                    running += 1
                waiting.append((task, stream))
                while waiting and (running > _STREAMS * jobs or len(waiting) > _TASKS or waiting[0][1] is None):
                    running -= waiting[0][1] is not None
                    yield waiting.popleft()
            while waiting:
                yield waiting.popleft()
        except BaseException:
            stop.set()
            abort()
            raise
        finally:
            for _, stream in waiting:
                if stream is not None:
                    stream.close()
