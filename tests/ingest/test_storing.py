"""Storing a stream: whole or not at all, and a long one goes on where it was stopped."""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from unabridged.ingest.adding.add import AddOptions, add
from unabridged.ingest.catalog.database import transaction
from unabridged.ingest.catalog.rows import FileDone
from unabridged.ingest.catalog.storing import ContentWriter, drop_unfinished
from unabridged.ingest.catalog.tokens import tokens
from unabridged.ingest.catalog.writes import Seen, attach
from unabridged.ingest.document import Closed, Item, Kind, Opened, Page, Status
from unabridged.ingest.library import Library
from unabridged.models.tokenizer import Tokenizer

_ADD = """
import sys
from pathlib import Path
from unabridged.ingest.catalog import storing
from unabridged.ingest.adding.add import AddOptions, add
from unabridged.ingest.library import Library
storing.BATCH_CHARACTERS = 20_000
for item in add(Library.open(Path(sys.argv[1])), [sys.argv[2]], options=AddOptions(jobs=1)):
    print(item, flush=True)
"""


def _mailbox(messages: int) -> Iterator[Item]:
    """The stream of a mailbox whose third message has an attachment."""
    yield Opened(ref=0, parent=None, name="box", kind=Kind.MAILBOX)
    ref = 0
    for number in range(1, messages + 1):
        message = ref = ref + 1
        yield Opened(ref=message, parent=0, name=str(number), kind=Kind.MESSAGE)
        yield Page(ref=message, number=1, text=f"message {number} " * 10)
        if number == 3:
            ref += 1
            yield Opened(ref=ref, parent=message, name="x.txt", kind=Kind.TEXT)
            yield Page(ref=ref, number=1, text="attached " * 10)
            yield Closed(ref=ref, status=Status.READ)
        yield Closed(ref=message, status=Status.READ)
    yield Closed(ref=0, status=Status.READ)


def _book(pages: int) -> Iterator[Item]:
    yield Opened(ref=0, parent=None, name="book", kind=Kind.PDF)
    for number in range(1, pages + 1):
        yield Page(ref=0, number=number, text=f"page {number} " * 10)
    yield Closed(ref=0, status=Status.READ)


def _interrupted(library: Library, items: Iterator[Item], after: int) -> None:
    """Stores the first items as a process that is killed then would."""
    connection = library.connection
    connection.execute("BEGIN IMMEDIATE")
    writer = ContentWriter(connection, "hash", 1, batch_characters=1)
    for _ in range(after):
        writer.put(next(items))
    connection.execute("ROLLBACK")


def _stored(
    library: Library, items: Iterator[Item], tokenizer: Tokenizer | None = None
) -> list[tuple[str, str, list[str]]]:
    with transaction(library.connection) as connection:
        writer = ContentWriter(connection, "hash", 1, tokenizer, batch_characters=1)
        for item in items:
            writer.put(item)
        writer.finish()
        attach(connection, Seen("/box", 1, 1), writer.content, 1)
    return [(row.path, row.status.value, [page.text for page in library.pages(row.id)]) for row in library.documents()]


@pytest.mark.parametrize("stream", [_mailbox, _book], ids=["mailbox", "book"])
@pytest.mark.parametrize("after", range(1, 17, 3))
def test_a_stream_that_was_stopped_anywhere_ends_as_one_that_was_not(
    tmp_path: Path, stream: object, after: int
) -> None:
    make = _mailbox if stream is _mailbox else _book
    with Library.open(tmp_path / "whole.db") as library:
        whole = _stored(library, make(6 if make is _mailbox else 15))
    with Library.open(tmp_path / "stopped.db") as library:
        _interrupted(library, make(6 if make is _mailbox else 15), after)
        assert library.documents() == []
        assert library.search("message page") == []
        assert _stored(library, make(6 if make is _mailbox else 15)) == whole
        assert library.verify() == []


def test_tokens_are_whole_when_only_the_second_attempt_counts_them(library: Library, smollm2: Path) -> None:
    tokenizer = Tokenizer.load(smollm2)
    _interrupted(library, _book(6), 4)
    _stored(library, _book(6), tokenizer)
    (row,) = library.documents()
    assert row.tokens is None
    assert [page.number for page in tokens(library, row.id, tokenizer).pages] == [1, 2, 3, 4, 5, 6]


def test_what_another_version_left_half_read_is_dropped(library: Library) -> None:
    _interrupted(library, _mailbox(6), 12)
    library.connection.execute("UPDATE contents SET reader = '0.0.0'")
    assert library.connection.execute("SELECT COUNT(*) FROM pages").fetchone()[0] > 0
    with transaction(library.connection):
        drop_unfinished(library.connection)
    assert library.connection.execute("SELECT COUNT(*) FROM pages").fetchone()[0] == 0
    assert library.verify() == []


def _files(root: Path) -> Path:
    """Many small files and a mailbox that takes several transactions."""
    root.mkdir()
    for number in range(30):
        (root / f"{number}.txt").write_text(f"File {number} says {number * 7919}. " * 20)
    stamp = "From a@example.org Mon Jan  1 00:00:00 2024\n"
    letter = "From: a@example.org\nSubject: Letter {0}\n\nLetter {0} says {0}.\n" + "Words of it. " * 40 + "\n\n"
    (root / "box.mbox").write_text("".join(stamp + letter.format(number) for number in range(150)))
    return root


def _killed(database: Path, root: Path, seconds: float) -> bool:
    """Adds in a process that is killed after its first message and some time; whether that came before its end."""
    with subprocess.Popen([sys.executable, "-c", _ADD, str(database), str(root)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(seconds)
        os.kill(process.pid, signal.SIGKILL)
        process.stdout.read()
    return process.returncode == -signal.SIGKILL


def _rounds(tmp_path: Path, rounds: int) -> int:
    """Kills additions at random moments; the library opens and is sound each time. How many were killed in work."""
    root, killed, random_ = _files(tmp_path / "files"), 0, random.Random(7)
    for number in range(rounds):
        database = tmp_path / f"{number // 5}" / "library.db"
        killed += _killed(database, root, random_.uniform(0.0, 0.7))
        with Library.open(database) as library:
            assert library.verify() == []
            assert all(row.status == "read" for row in library.documents())
        if number % 5 == 4 or number == rounds - 1:
            _assert_completes(database, root)
    return killed


def _assert_completes(database: Path, root: Path) -> None:
    with Library.open(database) as library:
        done = [item for item in add(library, [root], options=AddOptions(jobs=1)) if isinstance(item, FileDone)]
        assert len(done) == 31
        assert library.counts().documents == 30 + 1 + 150
        assert len({row.path for row in library.documents()}) == 181
        assert len(library.search("letter", limit=500)) == 150
        assert library.verify() == []
        assert library.connection.execute("SELECT COUNT(*) FROM contents WHERE state != 'done'").fetchone()[0] == 0


@pytest.mark.thorough
def test_kill_9_leaves_a_sound_library_that_the_next_addition_completes(tmp_path: Path) -> None:
    assert _rounds(tmp_path, 12) > 0


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_kill_9_at_a_hundred_moments(tmp_path: Path) -> None:
    assert _rounds(tmp_path, 100) > 50
