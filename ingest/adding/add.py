"""Adds files and folders to a collection: reads what is new or changed, notes what moved or went.

    for item in add(library, [Path("~/case")], "default", tokenizer): ...

A scan of all that was named comes first, and is over in seconds where nothing has changed; then what is new or changed
is read, then what is gone leaves. Whatever stops the addition, files that were reported are in the library and the one
in work is not seen. The user's files are only ever read. A file that cannot be read is a document with a status and a
reason, and is not tried again until it changes, is forced, or gets the password that it lacked.
"""

import os
import sqlite3
import time
from collections.abc import Collection, Generator, Iterator, Sequence
from contextlib import closing
from pathlib import Path

import msgspec

from unabridged.ingest.adding import roots
from unabridged.ingest.adding.ahead import Stream, read_ahead
from unabridged.ingest.adding.done import file_done
from unabridged.ingest.adding.fetch import Fetcher, Step, weigh
from unabridged.ingest.adding.filing import Filing, Task
from unabridged.ingest.adding.ignores import Rules, check
from unabridged.ingest.adding.pace import Pace
from unabridged.ingest.adding.position import Partway
from unabridged.ingest.adding.roots import Given, Top
from unabridged.ingest.adding.scan import Scan
from unabridged.ingest.adding.walk import Found, Place, Problem, Scope, walk
from unabridged.ingest.catalog import ocr_due, storing, writes
from unabridged.ingest.catalog.database import LIBRARY_FAULTS, connect, explain, rollback, transaction
from unabridged.ingest.catalog.reindex import refresh_index
from unabridged.ingest.catalog.rows import AddItem, FileDone, Progress
from unabridged.ingest.catalog.tokens import Encoder
from unabridged.ingest.errors import IngestError
from unabridged.ingest.library import DEFAULT, Library
from unabridged.ingest.limits import Limits
from unabridged.ingest.paths import shown, stored
from unabridged.ingest.worker import Workers

_PROGRESS_SECONDS = 0.2
_MOST_JOBS = 4
_REMOVED_AT_ONCE = 200


class AddOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How files are added. `include`, `exclude`: patterns in gitignore syntax, relative to each named folder. What is
    None is as it was when the folder was added last; at first nothing but hidden names is left out."""

    limits: Limits = Limits()
    jobs: int = 0  # files read at a time; 0: one per core, at most 4
    passwords: tuple[str, ...] = ()  # tried on what is locked, in this order; never stored
    force: bool = False  # read unchanged files again
    hidden: bool | None = None  # names that begin with a dot too
    gitignore: bool | None = None  # heed .gitignore files too
    include: tuple[str, ...] | None = None
    exclude: tuple[str, ...] | None = None
    only: Collection[str] | None = None  # of the folders that were added before, look at these absolute paths only

    @property
    def given(self) -> Given:
        """What is said of the rules of the walk."""
        return Given(include=self.include, exclude=self.exclude, hidden=self.hidden, gitignore=self.gitignore)


def add(
    library: Library,
    paths: Sequence[str | Path],
    collection: str = DEFAULT,
    tokenizer: Encoder | None = None,
    options: AddOptions | None = None,
    workers: Workers | None = None,
) -> Generator[AddItem, None, None]:
    """Adds what lies at `paths` (none: looks again at all folders of the collection) and says file by file what came of
    it. Pages get their tokens at once where there is a tokenizer. The generator may be advanced from different threads,
    one at a time; closing it drops the file in work. `workers` (from `readers`, closed at the end) let another thread
    end it while it waits for a file: `workers.abort()`.

    Raises PathNotFound, PatternInvalid, LibraryBusy, LibraryDamaged, and IngestError when the disk is full or no reader
    can start.
    """
    options = options or AddOptions()
    try:
        with (
            library.lock(),
            closing(connect(library.path)) as connection,
            workers or readers(options) as reading,
            closing(_fetcher(library.path, connection, reading, options)) as fetcher,
        ):
            adding = _Adding(connection, collection, tokenizer, fetcher, library.path.parent)
            yield from adding.run(paths, options, reading.count)
    except LIBRARY_FAULTS as error:
        raise explain(error, library.path) from error


def _fetcher(database: Path, connection: sqlite3.Connection, reading: Workers, options: AddOptions) -> Fetcher:
    due = ocr_due.contents(connection, options.limits)
    return Fetcher(database, reading, options.passwords, options.force, due)


def readers(options: AddOptions) -> Workers:
    """The processes that read for one `add`; none is started yet."""
    return Workers(options.jobs or min(_MOST_JOBS, os.cpu_count() or 1), options.limits)


class _Adding:
    """One addition, on the writing connection."""

    def __init__(
        self, connection: sqlite3.Connection, collection: str, tokenizer: Encoder | None, fetcher: Fetcher, own: Path
    ) -> None:
        self._connection = connection
        self._fetcher = fetcher
        self._own = own
        with transaction(connection):
            storing.drop_unfinished(connection)
            writes.drop_orphans(connection)
            self._collection = writes.ensure_collection(connection, collection)
        self._scan = Scan(connection, self._collection, fetcher.wants)
        self._filing = Filing(connection, self._collection, tokenizer, fetcher.steps, self._scan.seen)
        self._done = 0

    def run(self, paths: Sequence[str | Path], options: AddOptions, jobs: int) -> Iterator[AddItem]:
        """All of it: looks at what lies there, reads what is new, then looks for what is gone."""
        check(options.given.over(Rules()))
        for done, total in refresh_index(self._connection):
            yield Progress(done=done, total=total, walked=True, current="the search index", pages=0)
        tops = roots.tops(self._connection, self._collection, paths, options.given)
        scope = None if options.only is None else Scope.of(options.only)
        places = [walk(top.path, top.rules, scope, self._own) for top in tops]
        found: list[int] = []
        for walked in places:
            before = self._scan.found
            yield from self._look(walked)
            found.append(self._scan.found - before)
        try:
            yield from self._read(jobs)
        finally:
            rollback(self._connection)
        for top, number in zip(tops, found, strict=True):
            if top.path.is_dir():
                yield from self._folder_done(top, scope, empty=not number)
        self._filing.drop_loose()

    def _look(self, places: Iterator[Place]) -> Iterator[AddItem]:
        said = time.monotonic()
        for item in self._scan.look(places):
            if item is not None:
                self._done += isinstance(item, FileDone)
                yield item
            elif time.monotonic() - said > _PROGRESS_SECONDS:
                said = time.monotonic()
                yield Progress(done=self._done, total=self._scan.found, walked=False, current="", pages=0)

    def _read(self, jobs: int) -> Iterator[AddItem]:
        """Reads what the scan has left."""
        todo = self._scan.todo
        pace = Pace(todo.files, todo.bytes)
        with closing(read_ahead(self._tasks(), self._start, jobs, self._fetcher.abort, weigh)) as streams:
            for task, stream in streams:
                yield self._progress(pace, task)
                for item in self._file(task, stream):
                    self._done += isinstance(item, FileDone)
                    yield item if isinstance(item, FileDone) else self._progress(pace, task, item)
                pace.file(_size(task.place))
            for done in self._filing.flush():
                self._done += 1
                yield done

    def _file(self, task: Task, stream: Stream[Step] | None) -> Iterator[Partway | FileDone]:
        if stream is not None:
            return self._filing.store(task, stream)
        assert isinstance(task.place, Problem)
        return self._filing.problem(task, task.place)

    def _progress(self, pace: Pace, task: Task, partway: Partway | None = None) -> Progress:
        part = int(partway.share * _size(task.place)) if partway else 0
        return Progress(
            done=self._done,
            total=max(self._scan.found, self._done),
            walked=True,
            current=task.path,
            pages=partway.pages if partway else 0,
            bytes_done=pace.bytes_done + part,
            bytes_total=pace.bytes_total,
            seconds_left=pace.seconds_left(part),
        )

    def _tasks(self) -> Iterator[Task]:
        for places in self._scan.todo.chunks():
            known = self._scan.known(places)
            for place in places:
                path = stored(place.path)
                row = known.get(path)
                yield Task(place, path, row, row is not None and self._fetcher.wants(row))

    def _start(self, task: Task) -> Iterator[Step] | None:
        return None if isinstance(task.place, Problem) else self._fetcher.steps(task.place.path, task.reread)

    def _folder_done(self, top: Top, scope: Scope | None, empty: bool) -> Iterator[FileDone]:
        """Remembers the folder, and takes out of the collection the files of it that are gone from the disk."""
        path = shown(top.path)
        with transaction(self._connection):
            roots.remember(self._connection, self._collection, path, top.rules)
        known = [row for row in self._unseen(path, scope) if writes.gone(row["path"])]
        if known and empty and not any(top.path.iterdir()):
            raise IngestError(
                f"the folder {path} is empty now, but {len(known)} files of it were read", roots.gone_hint(path)
            )
        for at in range(0, len(known), _REMOVED_AT_ONCE):
            part = known[at : at + _REMOVED_AT_ONCE]
            writes.detach(self._connection, [row["path"] for row in part], self._collection)
            yield from (file_done(self._connection, row["path"], row, "removed") for row in part)

    def _unseen(self, top: str, scope: Scope | None) -> Iterator[sqlite3.Row]:
        """The files of the collection below a folder, and within the scope, that no walk has come to."""
        tops = [top] if scope is None else [shown(path) for path in scope.paths]
        for path in tops:
            for row in roots.files_below(self._connection, self._collection, path):
                if row["file_id"] not in self._scan.seen:
                    yield row


def _size(place: Found | Problem) -> int:
    return place.size if isinstance(place, Found) else 0
