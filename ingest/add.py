"""Adds files and folders to a collection: reads what is new or changed, notes what moved or went.

    for item in add(library, [Path("~/case")], "default", tokenizer): ...

Each file is committed by itself; whatever stops the addition, files that were reported are in the library and the one
in work is not seen. The user's files are only ever read. A file that cannot be read is a document with a status and a
reason, and is not tried again until it changes, is forced, or gets the password that it lacked.
"""

import os
import sqlite3
import time
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing
from pathlib import Path

import msgspec

from unabridged.ingest import storing, writes
from unabridged.ingest.ahead import Stream, read_ahead
from unabridged.ingest.database import LIBRARY_FAULTS, connect, explain, rollback, transaction
from unabridged.ingest.document import Status
from unabridged.ingest.errors import IngestError, PathNotFound
from unabridged.ingest.fetch import Fetcher, Step
from unabridged.ingest.filing import Filing, Task, file_done
from unabridged.ingest.library import DEFAULT, Library
from unabridged.ingest.limits import Limits
from unabridged.ingest.paths import shown
from unabridged.ingest.rows import AddItem, FileDone, Progress
from unabridged.ingest.tokens import Encoder
from unabridged.ingest.walk import Found, Problem, Rules, walk
from unabridged.ingest.worker import Workers

_PROGRESS_SECONDS = 0.2
_MOST_JOBS = 4

# Said of a file whose bytes were not hashed: nothing of it changes as long as its size and time do not.
_SETTLED = (Status.TOO_LARGE, Status.UNSUPPORTED)


class AddOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How files are added. `include`, `exclude`: patterns in gitignore syntax, relative to each named folder."""

    limits: Limits = Limits()
    jobs: int = 0  # files read at a time; 0: one per core, at most 4
    password: str | None = None  # tried on every file that wants one; never stored
    force: bool = False  # read unchanged files again
    hidden: bool = False  # names that begin with a dot too
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()

    @property
    def rules(self) -> Rules:
        """What the walk leaves out."""
        return Rules(self.include, self.exclude, self.hidden)


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

    Raises PathNotFound, LibraryBusy, LibraryDamaged, and IngestError when the disk is full or no reader can start.
    """
    options = options or AddOptions()
    try:
        with (
            library.lock(),
            closing(connect(library.path)) as connection,
            workers or readers(options) as reading,
        ):
            fetcher = Fetcher(library.path, reading, options.password, options.force)
            yield from _Adding(connection, collection, tokenizer, fetcher).run(paths, options.rules, reading.count)
    except LIBRARY_FAULTS as error:
        raise explain(error, library.path) from error


def readers(options: AddOptions) -> Workers:
    """The processes that read for one `add`; none is started yet."""
    return Workers(options.jobs or min(_MOST_JOBS, os.cpu_count() or 1), options.limits)


class _Adding:
    """One addition, on the writing connection."""

    def __init__(
        self, connection: sqlite3.Connection, collection: str, tokenizer: Encoder | None, fetcher: Fetcher
    ) -> None:
        self._connection = connection
        self._fetcher = fetcher
        with transaction(connection):
            storing.drop_unfinished(connection)
            self._collection = writes.ensure_collection(connection, collection)
        writes.refresh_index(connection)
        self._filing = Filing(connection, self._collection, tokenizer, fetcher.steps)
        self._seen: set[str] = set()
        self._done = 0
        self._total = 0

    def run(self, paths: Sequence[str | Path], rules: Rules, jobs: int) -> Iterator[AddItem]:
        """All of it: counts the files, deals with each, then looks for those that are gone."""
        tops = [Path(path).expanduser() for path in paths] or self._roots()
        walks = [walk(top, rules) for top in tops]
        for top in tops:
            yield from self._count(walk(top, rules))
        for top, places in zip(tops, walks, strict=True):
            before = len(self._seen)
            yield from self._files(places, jobs)
            if top.is_dir():
                yield from self._folder_done(shown(top), empty=len(self._seen) == before)

    def _roots(self) -> list[Path]:
        rows = self._connection.execute("SELECT path FROM roots WHERE collection_id = ?", (self._collection,))
        roots = [Path(row["path"]) for row in rows]
        for root in roots:
            if not root.is_dir():
                raise PathNotFound(f"the folder {root} is gone", _gone_hint(str(root)))
        return roots

    def _count(self, places: Iterable[Found | Problem]) -> Iterator[Progress]:
        said = time.monotonic()
        for place in places:
            self._total += 1
            if time.monotonic() - said > _PROGRESS_SECONDS:
                said = time.monotonic()
                yield self._progress(shown(place.path), walked=False)

    def _progress(self, current: str, pages: int = 0, walked: bool = True) -> Progress:
        total = max(self._total, self._done)
        return Progress(done=self._done, total=total, walked=walked, current=current, pages=pages)

    def _files(self, places: Iterable[Found | Problem], jobs: int) -> Iterator[AddItem]:
        with closing(read_ahead(self._tasks(places), self._start, jobs, self._fetcher.abort)) as streams:
            for task, stream in streams:
                if stream is not None:
                    yield self._progress(task.path)
                yield (yield from self._deal_with(task, stream))
                self._done += 1

    def _tasks(self, places: Iterable[Found | Problem]) -> Iterator[Task]:
        for place in places:
            path = shown(place.path)
            if path not in self._seen:
                self._seen.add(path)
                yield self._task(place, path)

    def _task(self, place: Found | Problem, path: str) -> Task:
        known = self._known(path)
        same = known is not None and isinstance(place, Found) and _same(known, place)
        wanted = known is not None and self._fetcher.wants(known)
        return Task(place, path, known, same and not wanted, wanted)

    def _known(self, path: str) -> sqlite3.Row | None:
        row: sqlite3.Row | None = self._connection.execute(
            """
            SELECT c.*, f.size AS file_size, f.mtime_ns, m.file_id IS NOT NULL AS member
            FROM files f JOIN contents c ON c.id = f.content_id
            LEFT JOIN collection_files m ON m.file_id = f.id AND m.collection_id = ?
            WHERE f.path = ?
            """,
            (self._collection, path),
        ).fetchone()
        return row

    def _start(self, task: Task) -> Iterator[Step] | None:
        if task.unchanged or isinstance(task.place, Problem):
            return None
        return self._fetcher.steps(task.place, task.reread)

    def _deal_with(self, task: Task, stream: Stream[Step] | None) -> Generator[Progress, None, FileDone]:
        if isinstance(task.place, Problem):
            return self._filing.problem(task, task.place)
        if stream is None:
            return self._filing.keep(task)
        try:
            filing = self._filing.store(task, task.place, iter(stream))
            while True:
                try:
                    yield self._progress(task.path, next(filing))
                except StopIteration as end:
                    done: FileDone = end.value
                    return done
        finally:
            stream.close()
            rollback(self._connection)

    def _folder_done(self, top: str, empty: bool) -> Iterator[FileDone]:
        """Remembers the folder, and takes out of the collection the files of it that are gone from the disk."""
        writes.remember_root(self._connection, self._collection, top)
        known = self._files_below(top)
        if empty and known and all(writes.gone(row["path"]) for row in known):
            raise IngestError(
                f"the folder {top} is empty now, but {len(known)} files of it were read",
                _gone_hint(top),
            )
        for row in known:
            if row["path"] not in self._seen and writes.gone(row["path"]):
                writes.detach(self._connection, row["path"], self._collection)
                yield file_done(row["path"], row, "removed")

    def _files_below(self, top: str) -> list[sqlite3.Row]:
        prefix = top.rstrip("/") + "/"
        return self._connection.execute(
            """
            SELECT c.*, f.path FROM files f JOIN contents c ON c.id = f.content_id
            WHERE f.path >= ? AND f.path < ?
              AND f.id IN (SELECT file_id FROM collection_files WHERE collection_id = ?)
            ORDER BY f.path
            """,
            (prefix, prefix[:-1] + "0", self._collection),
        ).fetchall()


def _gone_hint(top: str) -> str:
    return f"if its disk is not mounted, mount it; if it is gone for good: unabridged rm {top}/"


def _same(known: sqlite3.Row, found: Found) -> bool:
    """Whether the file lies there as it did when it was read."""
    if known["sha256"] is None and known["status"] not in _SETTLED:
        return False
    return (known["file_size"], known["mtime_ns"]) == (found.size, found.mtime_ns)
