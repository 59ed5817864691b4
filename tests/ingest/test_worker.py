"""The promises of reading in a process: whole streams, whatever happens to the process."""

import gzip
import os
import random
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from unabridged.ingest.document import Closed, Item, Kind, Opened, Page, Status
from unabridged.ingest.errors import ReadingAborted
from unabridged.ingest.limits import Limits
from unabridged.ingest.worker import Workers, read_file


@pytest.fixture(scope="module")
def workers() -> Iterator[Workers]:
    """One process for the tests of this module."""
    with Workers(1) as pool:
        yield pool


def _ends(items: list[Item]) -> list[Closed]:
    return [item for item in items if isinstance(item, Closed)]


def test_a_text_file_becomes_a_document_with_pages(workers: Workers, tmp_path: Path) -> None:
    path = tmp_path / "note.md"
    path.write_text("# The title\n\n" + "One paragraph of the note.\n\n" * 400)
    items = list(workers.read(path))
    opened = items[0]
    assert isinstance(opened, Opened)
    assert (opened.kind, opened.title, opened.name) == (Kind.MARKDOWN, "The title", "note.md")
    pages = [item for item in items if isinstance(item, Page)]
    assert [page.number for page in pages] == list(range(1, len(pages) + 1))
    assert "".join(page.text for page in pages) == path.read_text()
    assert _ends(items) == [Closed(ref=0, status=Status.READ)]


def test_a_missing_file_is_a_document_with_a_reason(workers: Workers, tmp_path: Path) -> None:
    end = _ends(list(workers.read(tmp_path / "gone.txt")))[0]
    assert (end.status, end.reason) == (Status.DAMAGED, "cannot be opened: No such file or directory")


def test_a_pipe_does_not_block_the_reader(workers: Workers, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert _ends(list(workers.read(tmp_path / "pipe")))[0].reason == "cannot be opened: not a regular file"


def test_a_file_over_the_limit_is_too_large(tmp_path: Path) -> None:
    path = tmp_path / "big.txt"
    path.write_bytes(b"x" * 3_000_000)
    end = _ends(list(read_file(path, Limits(file_bytes=1 << 20))))[0]
    assert (end.status, end.reason) == (Status.TOO_LARGE, "2 MB: files of more than 1 MB are not read")


def test_leaving_a_file_early_leaves_the_pool_usable(tmp_path: Path) -> None:
    path = tmp_path / "long.txt"
    path.write_text("A line of text.\n" * 100_000)
    with Workers(1) as pool:
        stream = pool.read(path)
        next(stream)
        del stream
        assert _ends(list(pool.read(path)))[0].status == Status.READ


def _read_with_signal(path: Path, number: signal.Signals) -> list[Item]:
    """The items of a file whose reader gets a signal after the fifth; the pool reads on afterwards."""
    with Workers(1) as pool:
        stream = pool.read(path)
        items = [next(stream) for _ in range(5)]
        os.kill(_child_of(os.getpid()), number)
        items += list(stream)
        assert _ends(list(pool.read(path)))[-1].status == Status.READ
    return items


@pytest.fixture
def long_file(tmp_path: Path) -> Path:
    """A text of more than a thousand pages."""
    (tmp_path / "long.txt").write_text("A line of text.\n" * 200_000)
    return tmp_path / "long.txt"


def test_a_crashed_process_ends_its_file_with_all_pages_accounted_for(long_file: Path) -> None:
    items = _read_with_signal(long_file, signal.SIGABRT)
    numbers = [item.number for item in items if isinstance(item, Page)]
    assert numbers == list(range(1, len(numbers) + 1))
    assert len(numbers) > 1_000
    end = _ends(items)[0]
    assert end.status == Status.PARTIAL
    assert end.reason.startswith("its reader was stopped: out of memory, or a fault in the file after page ")


def test_a_process_killed_from_outside_costs_nothing(long_file: Path) -> None:
    items = _read_with_signal(long_file, signal.SIGKILL)
    assert "".join(item.text for item in items if isinstance(item, Page)) == long_file.read_text()
    assert _ends(items) == [Closed(ref=0, status=Status.READ)]


def test_a_mailbox_whose_reader_is_killed_loses_and_repeats_no_message(tmp_path: Path) -> None:
    message = "From a@b.c Tue Mar  3 09:15:00 2026\nFrom: a@b.c\nSubject: m{}\n\nThe text.\n\n"
    (tmp_path / "box").write_text("".join(message.format(n) for n in range(1_000)))
    items = _read_with_signal(tmp_path / "box", signal.SIGKILL)
    assert [item.title for item in items if isinstance(item, Opened)][1:] == [f"m{n}" for n in range(1_000)]
    assert {end.status for end in _ends(items)} == {Status.READ}


def _child_of(pid: int) -> int:
    """The reader process of this test's pool: the youngest child."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return max(int(child) for child in children)


def test_abort_ends_a_reading_that_hangs(tmp_path: Path) -> None:
    path = tmp_path / "long.txt"
    path.write_text("A line of text.\n" * 400_000)
    with Workers(1) as pool:
        stream = pool.read(path)
        next(stream)
        (reader,) = pool._alive._processes
        os.kill(reader.pid, signal.SIGSTOP)
        timer = threading.Timer(0.3, pool.abort)
        timer.start()
        began = time.monotonic()
        with pytest.raises(ReadingAborted):
            list(stream)
        timer.join()
        assert time.monotonic() - began < 10
        with pytest.raises(ReadingAborted):
            list(pool.read(path))


def test_a_reader_that_was_killed_between_two_files_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "note.txt"
    path.write_text("The mill was sold.")
    with Workers(1) as pool:
        assert len(list(pool.read(path))) == 3
        (reader,) = pool._alive._processes
        os.kill(reader.pid, signal.SIGKILL)
        reader.wait()
        assert _ends(list(pool.read(path))) == [Closed(ref=0, status=Status.READ)]


def test_a_packed_file_of_more_than_a_piece_is_whole(workers: Workers, tmp_path: Path) -> None:
    """Its digest is made from the same open file in between."""
    text = "".join(f"{random.Random(number).random()}\n" for number in range(20_000))
    (tmp_path / "notes.txt.gz").write_bytes(gzip.compress(text.encode()))
    items = list(workers.read(tmp_path / "notes.txt.gz"))
    assert {end.status for end in _ends(items)} == {Status.READ}
    assert "".join(item.text for item in items if isinstance(item, Page)) == text
