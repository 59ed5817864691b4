"""Puts one file into the library: from the steps of `fetch` to a committed content that a collection holds.

One transaction a file (several for a long one, see `storing`); when anything raises, or the generator is closed, the
open one is rolled back by the caller.
"""

import sqlite3
import time
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from pathlib import Path

from unabridged.ingest import writes
from unabridged.ingest.database import rollback, transaction
from unabridged.ingest.document import Closed, Kind, Opened, Page, Status
from unabridged.ingest.fetch import Hashed, Step, stored_content
from unabridged.ingest.rows import Change, FileDone
from unabridged.ingest.storing import ContentWriter
from unabridged.ingest.tokens import Encoder
from unabridged.ingest.walk import Found, Problem

_PROGRESS_SECONDS = 0.2


@dataclass(frozen=True)
class Task:
    """A place of the walk with what the library knows of it."""

    place: Found | Problem
    path: str  # as stored
    known: sqlite3.Row | None  # its content, file size, time, and whether it is a member of the collection
    unchanged: bool
    reread: bool  # read again though its bytes are the same


class Filing:
    """Files tasks under one collection."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        collection: int,
        tokenizer: Encoder | None,
        steps: Callable[[Found, bool], Iterator[Step]],
    ) -> None:
        self._connection = connection
        self._collection = collection
        self._tokenizer = tokenizer
        self._steps = steps

    def keep(self, task: Task) -> FileDone:
        """A file that has not changed; it may be new to this collection."""
        assert task.known is not None
        if not task.known["member"]:
            with transaction(self._connection):
                self._attach(task, task.place, task.known["id"])
        return file_done(task.path, task.known, "unchanged" if task.known["member"] else "new")

    def problem(self, task: Task, problem: Problem) -> FileDone:
        """A place that gives no file becomes a document that says so; what was read of it before is kept."""
        known = task.known
        if known is not None and known["sha256"] is not None:
            reason = f"{problem.reason}; what was read before is kept"
            return file_done(task.path, known, "unchanged", problem.status, reason)
        if known is not None and (known["status"], known["reason"]) == (problem.status, problem.reason):
            return self.keep(task)
        with transaction(self._connection):
            writer = ContentWriter(self._connection, None, 0)
            writer.put(Opened(ref=0, parent=None, name=Path(problem.path).name, kind=Kind.OTHER))
            writer.put(Closed(ref=0, status=problem.status, reason=problem.reason))
            content = self._finish(writer)
            change = self._attach(task, problem, content["id"])
        return file_done(task.path, content, change)

    def store(
        self, task: Task, found: Found, steps: Iterator[Step], again: bool = True
    ) -> Generator[int, None, FileDone]:
        """Stores a file that is read, yielding the pages so far now and then. A file that changed meanwhile is read
        once more (`again`), then stored with a reason that says so."""
        first = next(steps)
        if isinstance(first, Problem):
            return self.problem(task, first)
        assert isinstance(first, Hashed)
        self._connection.execute("BEGIN IMMEDIATE")
        content = stored_content(self._connection, first.sha256)
        if content is None or task.reread:
            self._forget_hash(content)
            writer = ContentWriter(self._connection, first.sha256, found.size, self._tokenizer)
            after = yield from self._put_all(writer, steps)
            if after != found:
                return (yield from self._changed_meanwhile(task, found, after, writer, again))
            self._replace(content, writer)
            content = self._finish(writer)
        change = self._attach(task, found, content["id"])
        self._connection.execute("COMMIT")
        return file_done(task.path, content, "changed" if task.reread and change == "unchanged" else change)

    def _put_all(self, writer: ContentWriter, steps: Iterator[Step]) -> Generator[int, None, Found | Problem]:
        """Stores the stream; how the file lies there at its end."""
        pages, said = 0, time.monotonic()
        for step in steps:
            if isinstance(step, Found | Problem):
                return step
            if isinstance(step, Opened | Page | Closed):
                writer.put(step)
                pages += isinstance(step, Page)
            if time.monotonic() - said > _PROGRESS_SECONDS:
                said = time.monotonic()
                yield pages
        raise RuntimeError("a stream of steps ended without the state of its file")

    def _changed_meanwhile(
        self, task: Task, found: Found, after: Found | Problem, writer: ContentWriter, again: bool
    ) -> Generator[int, None, FileDone]:
        if again:
            rollback(self._connection)
            with transaction(self._connection):
                writes.drop_unused(self._connection, [writer.content])
            if isinstance(after, Problem):
                return self.problem(task, after)
            return (yield from self.store(task, after, self._steps(after, task.reread), again=False))
        # Neither hash nor time are kept: the next addition reads it again.
        content = self._finish(writer, "changed while it was read: add it again")
        self._connection.execute("UPDATE contents SET sha256 = NULL WHERE id = ?", (writer.content,))
        change = self._attach(task, found, writer.content)
        self._connection.execute("COMMIT")
        return file_done(task.path, content, change)

    def _forget_hash(self, old: sqlite3.Row | None) -> None:
        """The hash of a content that is read again goes to its successor."""
        if old is not None:
            self._connection.execute("UPDATE contents SET sha256 = NULL WHERE id = ?", (old["id"],))

    def _replace(self, old: sqlite3.Row | None, writer: ContentWriter) -> None:
        """All files of the old content get the new one."""
        if old is not None:
            self._connection.execute(
                "UPDATE files SET content_id = ? WHERE content_id = ?", (writer.content, old["id"])
            )
            writes.drop_unused(self._connection, [old["id"]])

    def _finish(self, writer: ContentWriter, note: str = "") -> sqlite3.Row:
        writer.finish(note)
        row: sqlite3.Row = self._connection.execute("SELECT * FROM contents WHERE id = ?", (writer.content,)).fetchone()
        return row

    def _attach(self, task: Task, place: Found | Problem, content: int) -> Change:
        size, mtime_ns = (place.size, place.mtime_ns) if isinstance(place, Found) else (0, 0)
        return writes.attach(self._connection, writes.Seen(task.path, size, mtime_ns), content, self._collection)


def file_done(
    path: str, content: sqlite3.Row, change: Change, status: Status | None = None, reason: str | None = None
) -> FileDone:
    """The report on a file with this content."""
    return FileDone(
        path=path,
        kind=content["kind"],
        status=status or content["status"],
        reason=content["reason"] if reason is None else reason,
        pages=content["pages"],
        documents=content["documents"],
        change=change,
    )
