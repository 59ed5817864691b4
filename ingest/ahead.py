"""Runs a generator per task in threads, some tasks ahead of the consumer, and hands the streams over in task order.

Bounded: at most `jobs` generators run, each at most `_ITEMS` items ahead. It knows nothing of files.
"""

import queue
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, TypeVar

Task = TypeVar("Task")
Result = TypeVar("Result")

_ITEMS = 256
_TASKS = 512
_POLL_SECONDS = 0.1


class _End:
    """The last thing in a stream: how it ended."""

    def __init__(self, error: BaseException | None = None) -> None:
        self.error = error


class Stream(Generic[Result]):
    """What one task yields, filled by a thread and iterated by the consumer."""

    def __init__(self, stop: threading.Event) -> None:
        self._queue: queue.Queue[Result | _End] = queue.Queue(_ITEMS)
        self._stop = stop
        self._closed = False

    def fill(self, results: Iterator[Result]) -> None:
        """Runs the generator to its end, or until nobody wants the rest."""
        error: BaseException | None = None
        try:
            while not self._stop.is_set() and (result := next(results, None)) is not None and self._put(result):
                pass
        except Exception as raised:
            error = raised
        finally:
            close = getattr(results, "close", None)
            if close:
                close()
        self._put(_End(error))

    def _put(self, result: "Result | _End") -> bool:
        while not (self._stop.is_set() or self._closed):
            try:
                self._queue.put(result, timeout=_POLL_SECONDS)
            except queue.Full:
                continue
            return True
        return False

    def __iter__(self) -> Iterator[Result]:
        while not isinstance(result := self._queue.get(), _End):
            yield result
        if result.error is not None:
            raise result.error

    def close(self) -> None:
        """The rest is not wanted."""
        self._closed = True


def read_ahead(
    tasks: Iterator[Task],
    start: Callable[[Task], Iterator[Result] | None],
    jobs: int,
    abort: Callable[[], None] = lambda: None,
) -> Generator[tuple[Task, Stream[Result] | None], None, None]:
    """Each task with its stream, in order. `start` says, in the consumer's thread, what runs for a task: None for
    nothing. Streams yield no None. Closing the generator stops the threads after the item that each is at; `abort`
    is called then, so that they need not wait for that item."""
    stop = threading.Event()
    waiting: deque[tuple[Task, Stream[Result] | None]] = deque()
    running = 0
    with ThreadPoolExecutor(jobs, "read-ahead") as pool:
        try:
            for task in tasks:
                results = start(task)
                stream = None if results is None else Stream[Result](stop)
                if stream is not None and results is not None:
                    pool.submit(stream.fill, results)
                    running += 1
                waiting.append((task, stream))
                while waiting and (running > jobs or len(waiting) > _TASKS or waiting[0][1] is None):
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
