"""Puts files into the library: from the steps of `fetch` to a committed content that a collection holds.

Small files share a transaction, so that a hundred thousand of them do not cost a hundred thousand commits; a file is
reported only when its transaction is committed, and nobody waits for a reader while one is open. A long file has
transactions of its own (see `storing`). When anything raises, or the generator is closed, the caller rolls back what
is open.
"""

import sqlite3
import time
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Protocol

from unabridged.ingest.adding.ahead import Stream
from unabridged.ingest.adding.done import file_done
from unabridged.ingest.adding.fetch import Hashed, Step, stored_content, weigh
from unabridged.ingest.adding.position import Partway, Position
from unabridged.ingest.adding.walk import Found, Problem
from unabridged.ingest.catalog import writes
from unabridged.ingest.catalog.database import rollback, transaction
from unabridged.ingest.catalog.rows import Change, FileDone
from unabridged.ingest.catalog.storing import ContentWriter
from unabridged.ingest.catalog.tokens import Encoder
from unabridged.ingest.document import Closed, Kind, Opened, Page

_GROUP_SECONDS = 0.5  # files wait at most so long for their commit
_PATIENCE_SECONDS = 0.02  # and not at all where the next file needs longer than this
_SMALL = 500_000  # characters of a file that is held in memory until all of it is there


@dataclass(frozen=True)
class Task:
    """A place of the walk with what the library knows of it."""

    place: Found | Problem
    path: str  # as stored
    known: sqlite3.Row | None  # its content, file size, time, and whether it is a member of the collection
    reread: bool  # read again though its bytes are the same


class Marks(Protocol):
    """A set of file ids."""

    def add(self, number: int, /) -> None:
        """Puts a number into the set."""


Filed = Generator[Partway | FileDone, None, None]


class Filing:
    """Files tasks under one collection. `seen` gets the id of every file; `steps` reads a path anew."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        collection: int,
        tokenizer: Encoder | None,
        steps: Callable[[str, bool], Iterator[Step]],
        seen: Marks,
    ) -> None:
        self._connection = connection
        self._collection = collection
        self._tokenizer = tokenizer
        self._steps = steps
        self._seen = seen
        self._group: list[FileDone] = []
        self._since = 0.0
        self._loose: set[int] = set()

    def flush(self) -> Iterator[FileDone]:
        """Commits what is open, and reports it."""
        if self._connection.in_transaction:
            self._connection.execute("COMMIT")
        done, self._group = self._group, []
        yield from done

    def problem(self, task: Task, problem: Problem) -> Filed:
        """A place that gives no file becomes a document that says so; what was read of it before is kept."""
        self._begin()
        known = task.known
        if known is not None and known["sha256"] is not None:
            reason = f"{problem.reason}; what was read before is kept"
            self._group.append(file_done(self._connection, task.path, known, "unchanged", problem.status, reason))
        elif known is not None and (known["status"], known["reason"]) == (problem.status, problem.reason):
            change = self._attach(task, problem, known["id"])
            self._group.append(file_done(self._connection, task.path, known, change if known["member"] else "new"))
        else:
            writer = ContentWriter(self._connection, None, 0)
            writer.put(Opened(ref=0, parent=None, name=Path(problem.path).name, kind=Kind.OTHER))
            writer.put(Closed(ref=0, status=problem.status, reason=problem.reason))
            self._report(task, problem, self._finish(writer))
        yield from self._flush_in_time()

    def store(self, task: Task, steps: Stream[Step] | Iterator[Step], again: bool = True) -> Filed:
        """Stores a file that is read. One that changed meanwhile is read once more (`again`), then stored with a
        reason that says so."""
        first = yield from self._next(steps)
        if isinstance(first, Problem):
            yield from self.problem(task, first)
            return
        if not isinstance(first, Hashed):
            raise RuntimeError("a stream of steps begins without its hash")
        position, taken, weight = Position(first.found), list[Step](), 0
        while weight < _SMALL and (step := (yield from self._next(steps))) is not None:
            if isinstance(step, Found | Problem):
                yield from self._store_small(task, first, taken, step, again)
                return
            taken.append(step)
            weight += weigh(step)
            yield from position.follow(step)
        yield from self.flush()
        yield from self._store_long(task, first, chain(taken, steps), position, again)

    def drop_loose(self) -> None:
        """Deletes what no file says any more. Kept until here, since a file that comes later may be it, renamed."""
        with transaction(self._connection):
            writes.drop_unused(self._connection, self._loose)
        self._loose.clear()

    def _next(self, steps: Stream[Step] | Iterator[Step]) -> Generator[Partway | FileDone, None, Step | None]:
        if self._group and isinstance(steps, Stream) and not steps.ready(_PATIENCE_SECONDS):
            yield from self.flush()
        return next(steps, None)

    def _store_small(self, task: Task, first: Hashed, taken: list[Step], after: Found | Problem, again: bool) -> Filed:
        if after != first.found and again:
            yield from self._read_again(task, after)
            return
        self._begin()
        content = stored_content(self._connection, first.sha256)
        if content is None or task.reread:
            if not taken:
                # It was stored when its turn came, and has been replaced since.
                yield from self.store(task, self._steps(first.found.path, True), again)
                return
            writer = self._writer(first, content)
            for step in taken:
                if isinstance(step, Opened | Page | Closed):
                    writer.put(step)
            content = self._settle(writer, content, changed=after != first.found)
        self._report(task, first.found, content)
        yield from self._flush_in_time()

    def _store_long(self, task: Task, first: Hashed, steps: Iterator[Step], position: Position, again: bool) -> Filed:
        self._begin()
        old = stored_content(self._connection, first.sha256)
        writer, after = self._writer(first, old), None
        for step in steps:
            if isinstance(step, Found | Problem):
                after = step
            elif isinstance(step, Opened | Page | Closed):
                writer.put(step)
                yield from position.follow(step)
        if after is None:
            raise RuntimeError("a stream of steps ended without the state of its file")
        if after != first.found and again:
            rollback(self._connection)
            with transaction(self._connection):
                writes.drop_unused(self._connection, [writer.content])
            yield from self._read_again(task, after)
            return
        self._report(task, first.found, self._settle(writer, old, changed=after != first.found))
        yield from self.flush()

    def _read_again(self, task: Task, after: Found | Problem) -> Filed:
        if isinstance(after, Problem):
            yield from self.problem(task, after)
        else:
            yield from self.store(task, self._steps(after.path, task.reread), again=False)

    def _writer(self, first: Hashed, old: sqlite3.Row | None) -> ContentWriter:
        """What stores the file. The hash of a content that is read again goes to its successor."""
        if old is not None:
            self._connection.execute("UPDATE contents SET sha256 = NULL WHERE id = ?", (old["id"],))
        return ContentWriter(self._connection, first.sha256, first.found.size, self._tokenizer)

    def _settle(self, writer: ContentWriter, old: sqlite3.Row | None, changed: bool) -> sqlite3.Row:
        """The content, complete. All files of the old one get it."""
        content = self._finish(writer, "changed while it was read: add it again" if changed else "")
        if changed:
            # No hash is kept: the next addition reads it again.
            self._connection.execute("UPDATE contents SET sha256 = NULL WHERE id = ?", (writer.content,))
        if old is not None:
            self._connection.execute(
                "UPDATE files SET content_id = ? WHERE content_id = ?", (writer.content, old["id"])
            )
            self._loose.add(old["id"])
        return content

    def _finish(self, writer: ContentWriter, note: str = "") -> sqlite3.Row:
        writer.finish(note)
        row: sqlite3.Row = self._connection.execute("SELECT * FROM contents WHERE id = ?", (writer.content,)).fetchone()
        return row

    def _report(self, task: Task, place: Found | Problem, content: sqlite3.Row) -> None:
        change = self._attach(task, place, content["id"])
        again = task.reread and change == "unchanged"
        self._group.append(file_done(self._connection, task.path, content, "changed" if again else change))

    def _attach(self, task: Task, place: Found | Problem, content: int) -> Change:
        size, mtime_ns = (place.size, place.mtime_ns) if isinstance(place, Found) else (0, 0)
        attached = writes.attach(self._connection, writes.Seen(task.path, size, mtime_ns), content, self._collection)
        self._seen.add(attached.file)
        if attached.loose is not None:
            self._loose.add(attached.loose)
        return attached.change

    def _begin(self) -> None:
        """Opens the transaction that small files share."""
        if not self._connection.in_transaction:
            self._connection.execute("BEGIN IMMEDIATE")
            self._since = time.monotonic()

    def _flush_in_time(self) -> Iterator[FileDone]:
        if time.monotonic() - self._since > _GROUP_SECONDS:
            yield from self.flush()
