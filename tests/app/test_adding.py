"""Adding as a stream: the thread that works ends with the stream, whatever ends it."""

import asyncio
import os
import signal
import threading
import time
from collections.abc import Generator
from contextlib import suppress
from pathlib import Path

import pytest

from unabridged.app.adding import adding, event_of, in_thread, options_of
from unabridged.app.events import Stage
from unabridged.app.schema import AddFiles
from unabridged.app.service import Service
from unabridged.app.settings import IngestSettings
from unabridged.ingest.catalog.rows import Progress
from unabridged.ingest.errors import LibraryBusy, ReadingAborted


async def test_the_generator_runs_and_closes_in_one_other_thread() -> None:
    threads: list[int] = []

    def steps() -> Generator[int, None, None]:
        try:
            for number in range(3):
                threads.append(threading.get_ident())
                yield number
        finally:
            threads.append(threading.get_ident())

    assert [number async for number in in_thread(steps, lambda: None)] == [0, 1, 2]
    assert len(set(threads)) == 1
    assert threads[0] != threading.get_ident()


async def test_closing_the_stream_closes_the_generator_before_it_returns() -> None:
    closed = threading.Event()
    go = threading.Event()

    def steps() -> Generator[int, None, None]:
        try:
            while True:
                yield 1
                go.wait(0.001)
        finally:
            closed.set()

    stream = in_thread(steps, lambda: None)
    assert await anext(stream) == 1
    await stream.aclose()
    assert closed.is_set()


async def test_cancelling_the_reader_closes_the_generator() -> None:
    closed = threading.Event()
    going = asyncio.Event()

    def steps() -> Generator[int, None, None]:
        try:
            while True:
                yield 1
                closed.wait(0.001)
        finally:
            closed.set()

    async def read() -> None:
        async for _ in in_thread(steps, lambda: None):
            going.set()

    reading = asyncio.create_task(read())
    await going.wait()
    reading.cancel()
    await asyncio.wait([reading])
    assert closed.is_set()


async def test_what_the_generator_raises_comes_after_what_it_yielded() -> None:
    def steps() -> Generator[int, None, None]:
        yield 1
        raise LibraryBusy("busy")

    stream = in_thread(steps, lambda: None)
    assert await anext(stream) == 1
    with pytest.raises(LibraryBusy):
        await anext(stream)


def test_the_total_is_unknown_while_folders_are_walked() -> None:
    walking = event_of(Progress(done=0, total=7, walked=False, current="/a/b", pages=0))
    reading = event_of(Progress(done=3, total=7, walked=True, current="/a/big.pdf", pages=40))
    assert isinstance(walking, Stage)
    assert isinstance(reading, Stage)
    assert (walking.total, reading.done, reading.total) == (0, 3, 7)
    assert reading.text == "reading big.pdf, 40 pages so far"


def test_limits_come_from_the_settings() -> None:
    options = options_of(IngestSettings(workers=3, max_file_mib=7, memory_mib=512, seconds=9))
    assert (options.jobs, options.limits.file_bytes, options.limits.memory_bytes) == (3, 7 << 20, 512 << 20)
    assert options.limits.cpu_seconds == 9


async def test_closing_the_stream_ends_a_step_that_would_go_on() -> None:
    aborted, begun, ended = threading.Event(), threading.Event(), threading.Event()

    def steps() -> Generator[int, None, None]:
        try:
            yield 1
            begun.set()
            aborted.wait(30)
            raise ReadingAborted("reading was stopped")
        finally:
            ended.set()

    stream = in_thread(steps, aborted.set)
    assert await anext(stream) == 1
    await asyncio.to_thread(begun.wait)
    await asyncio.wait_for(stream.aclose(), 5)
    assert ended.is_set()


def _stop_first_reader() -> int:
    """Stop the first reader process of ours that appears, as a hanging file would."""
    for _ in range(1000):
        for entry in Path("/proc").glob("[0-9]*/cmdline"):
            with suppress(OSError):
                parent = int(entry.with_name("stat").read_text().rpartition(")")[2].split()[1])
                if parent == os.getpid() and b"unabridged.ingest.reader" in entry.read_bytes():
                    os.kill(pid := int(entry.parent.name), signal.SIGSTOP)
                    return pid
        time.sleep(0.01)
    raise AssertionError("no reader process appeared")


async def test_a_caller_who_leaves_ends_a_reader_that_hangs(service: Service, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("A text.")
    steps, abort = await service.steps_of_adding(AddFiles(paths=(str(tmp_path / "a.txt"),)))
    stream = adding(steps, "default", abort)
    stopping = asyncio.create_task(asyncio.to_thread(_stop_first_reader))
    assert isinstance(await anext(stream), Stage)
    pending = asyncio.ensure_future(anext(stream))
    pid = await stopping
    pending.cancel()
    await asyncio.wait([pending], timeout=5)
    await asyncio.wait_for(stream.aclose(), 5)
    assert not Path(f"/proc/{pid}").exists()
    assert service.library.documents("default") == []
