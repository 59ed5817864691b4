"""Adding files as a stream of events: the library's own steps, run in a thread, put into words for people.

Closing the stream ends the file in work, however long it would take; what was read stays. Knows no HTTP and not
how files are read.
"""

import asyncio
import logging
import threading
import time
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import aclosing, closing
from pathlib import PurePath
from typing import TYPE_CHECKING, TypeVar

from unabridged.app.events import AddEvent, FileRead, Stage
from unabridged.app.settings import IngestSettings
from unabridged.app.tally import Tally
from unabridged.ingest.catalog.rows import AddItem, FileDone, Ignored, Progress
from unabridged.models.errors import UnabridgedError

if TYPE_CHECKING:
    from unabridged.ingest.adding.add import AddOptions

T = TypeVar("T")

_log = logging.getLogger(__name__)

Steps = Callable[[], Generator[AddItem, None, None]]
Abort = Callable[[], None]


async def adding(steps: Steps, collection: str, abort: Abort) -> AsyncGenerator[AddEvent, None]:
    """The events of adding files to `collection`. `steps` is called in the thread that does the work; `abort` makes a
    step that is under way raise.

    Raises what `steps` raises: PathNotFound, LibraryBusy.
    """
    started = time.monotonic()
    tally = Tally()
    async with aclosing(in_thread(steps, abort)) as items:
        async for item in items:
            if isinstance(item, Ignored):
                tally.left_out(item)
                continue
            if isinstance(item, FileDone):
                tally.file(item)
            yield event_of(item)
    yield tally.account(collection, time.monotonic() - started)


def options_of(settings: IngestSettings) -> "AddOptions":
    """How files are read, from the settings."""
    from unabridged.ingest.adding.add import AddOptions
    from unabridged.ingest.limits import MIB, Limits

    limits = Limits(
        cpu_seconds=settings.seconds,
        file_bytes=settings.max_file_mib * MIB,
        memory_bytes=settings.memory_mib * MIB,
        ocr=settings.ocr,
        ocr_languages=settings.ocr_languages,
        ocr_seconds=settings.ocr_seconds,
        idle_seconds=max(240.0, 4.0 * settings.ocr_seconds),  # a page of several engines on a busy machine
    )
    return AddOptions(limits=limits, jobs=settings.workers)


def event_of(item: FileDone | Progress) -> Stage | FileRead:
    """One step as an event."""
    if isinstance(item, Progress):
        return Stage(
            name="files",
            text=_sentence(item),
            done=item.done,
            total=_total(item),
            unit="files",
            seconds_left=item.seconds_left,
        )
    return FileRead(
        path=item.path,
        kind=item.kind,
        status=item.status,
        reason=item.reason,
        pages=item.pages,
        documents=item.documents,
        change=item.change,
        inside=item.inside,
    )


async def in_thread(steps: Callable[[], Generator[T, None, None]], abort: Abort) -> AsyncGenerator[T, None]:
    """A blocking generator, made, advanced and closed in one thread of its own. Closed early, it is told to `abort`."""
    loop = asyncio.get_running_loop()
    queue: asyncio.Queue[tuple[T] | None] = asyncio.Queue()
    stop = threading.Event()

    def work() -> None:
        try:
            with closing(steps()) as items:
                for item in items:
                    if stop.is_set():
                        return
                    loop.call_soon_threadsafe(queue.put_nowait, (item,))
        finally:
            loop.call_soon_threadsafe(queue.put_nowait, None)

    working = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        while (entry := await queue.get()) is not None:
            yield entry[0]
    except BaseException:
        stop.set()
        abort()
        await asyncio.wait([working])
        _log_unless_aborted(working)
        raise
    await working


def _log_unless_aborted(working: "asyncio.Future[None]") -> None:
    """Nobody waits for the outcome any more, but a defect may not vanish."""
    error = None if working.cancelled() else working.exception()
    if error is not None and not isinstance(error, UnabridgedError):
        _log.error("adding files failed after its caller left", exc_info=error)


def _total(item: Progress) -> int:
    """Unknown while folders are still walked."""
    return item.total if item.walked else 0


def _sentence(item: Progress) -> str:
    if not item.current:
        return "looking for files"
    pages = f", {item.pages} pages so far" if item.pages else ""
    return f"reading {PurePath(item.current).name}{pages}"
