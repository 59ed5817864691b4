"""Reads files in processes of their own, so that a file that crashes, hangs or swells its parser harms nothing else.

    with Workers(2) as workers:
        for item in workers.read(path): ...            # from any thread; one process a call

However a reader process ends, the stream of its file is whole: every document that was opened is closed with a status
and a reason, and every page that was announced comes, read or flagged UNREAD. A file never raises; `ReaderUnavailable`
is raised when no reader process can be started at all. `Workers.abort`, from any thread, ends all readings at once.
"""

import os
import queue
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO, cast

import msgspec

from unabridged.ingest import wire
from unabridged.ingest.document import CONTAINERS, Closed, Flag, Item, Kind, Opened, Page, Status
from unabridged.ingest.errors import ReaderUnavailable, ReadingAborted
from unabridged.ingest.limits import Limits

_START_SECONDS = 60
_STARTS = 5
_RESUMES = 5  # pages or messages of one file that may each cost a process
_RECYCLE_BYTES = 512 << 20
_RECYCLE_FILES = 2_000


class _Gone(Exception):
    """The reader process ended, or was ended, in the middle of a file. `killed`: from outside, which is hardly the
    fault of the file."""

    def __init__(self, reason: str, killed: bool = False) -> None:
        super().__init__(reason)
        self.killed = killed


class _Alive:
    """The processes that run, so that all of them can be ended from another thread."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._processes: set[subprocess.Popen[bytes]] = set()
        self.aborted = False

    def add(self, process: subprocess.Popen[bytes]) -> None:
        """A process was started."""
        with self._guard:
            self._processes.add(process)
            if self.aborted:
                process.kill()

    def remove(self, process: subprocess.Popen[bytes]) -> None:
        """A process has ended."""
        with self._guard:
            self._processes.discard(process)

    def abort(self) -> None:
        """Ends all that run, and all that will be started."""
        with self._guard:
            self.aborted = True
            for process in self._processes:
                process.kill()

    def check(self) -> None:
        """Raises ReadingAborted after `abort`."""
        if self.aborted:
            raise ReadingAborted("reading was stopped")


class _Process:
    """One reader process."""

    def __init__(self, limits: Limits, alive: _Alive) -> None:
        # -P: never import a module from the folder that the user happens to be in.
        command = [sys.executable, "-P", "-B", "-m", "unabridged.ingest.reader", msgspec.json.encode(limits).decode()]
        pipe = subprocess.PIPE
        self._popen = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, cwd="/", start_new_session=True)
        self._in = cast(IO[bytes], self._popen.stdin)
        self._out = cast(IO[bytes], self._popen.stdout)
        self._err = cast(IO[bytes], self._popen.stderr)
        self._alive = alive
        alive.add(self._popen)
        self._buffer = bytearray()
        self.files = 0
        self.peak_bytes = 0
        self._await_start()

    def _await_start(self) -> None:
        try:
            self.receive(_START_SECONDS)
        except _Gone as gone:
            self.kill()
            self._alive.check()
            said = self._err.read().decode("utf-8", "replace").strip().splitlines()
            hint = said[-1] if said else str(gone)
            raise ReaderUnavailable("the process that reads files does not start", hint) from gone
        finally:
            self._err.close()

    def send(self, request: wire.Read) -> None:
        """Asks for a file."""
        try:
            self._in.write(wire.frame(request))
            self._in.flush()
        except OSError as error:
            raise self._gone() from error

    def receive(self, seconds: float) -> wire.Reply:
        """The next message. Raises _Gone when none comes within `seconds`, or the process has ended."""
        while (body := self._whole()) is None:
            ready, _, _ = select.select([self._out], [], [], seconds)
            if not ready:
                self.kill()
                raise _Gone(f"stopped: nothing came for {seconds:g} seconds")
            data = os.read(self._out.fileno(), 1 << 16)
            if not data:
                raise self._gone()
            self._buffer += data
        return wire.decode_reply(body)

    def _whole(self) -> bytes | None:
        """The body of the first message if it is here completely."""
        if len(self._buffer) < wire.HEADER:
            return None
        end = wire.HEADER + int.from_bytes(self._buffer[: wire.HEADER], "little")
        if len(self._buffer) < end:
            return None
        body = bytes(self._buffer[wire.HEADER : end])
        del self._buffer[:end]
        return body

    def _gone(self) -> _Gone:
        reason = self._epitaph()
        return _Gone(reason, killed=self._popen.returncode == -signal.SIGKILL)

    def _epitaph(self) -> str:
        """Why the process ended, for people."""
        try:
            code = self._popen.wait(10)
        except subprocess.TimeoutExpired:
            self.kill()
            return "its reader stopped answering"
        if code == -signal.SIGXCPU:
            return "stopped: takes too much processor time"
        if code in (-signal.SIGABRT, -signal.SIGTRAP, -signal.SIGILL):
            return "its reader was stopped: out of memory, or a fault in the file"
        if code < 0:
            return f"its reader crashed (signal {signal.Signals(-code).name})"
        return f"its reader ended unexpectedly (exit code {code})"

    def worn(self) -> bool:
        """Time for a new process: memory that a parser took is seldom given back."""
        return self.files >= _RECYCLE_FILES or self.peak_bytes > _RECYCLE_BYTES

    def kill(self) -> None:
        """Ends the process now."""
        self._popen.kill()
        self._popen.wait()
        self._alive.remove(self._popen)
        with suppress(BrokenPipeError):  # what it was asked last has not gone out
            self._in.close()
        self._out.close()


def _started(limits: Limits, alive: _Alive) -> _Process:
    """A new process. One that was killed at birth, as by a system short of memory, is tried again."""
    for _ in range(_STARTS - 1):
        alive.check()
        try:
            return _Process(limits, alive)
        except ReaderUnavailable as error:
            if "signal" not in error.hint:
                raise
    return _Process(limits, alive)


class _Ledger:
    """What the stream of a file still owes: documents to close, pages announced and not come."""

    def __init__(self) -> None:
        self.open: dict[int, int] = {}  # document: its last page
        self.announced: dict[int, int] = {}
        self.kind: Kind | None = None  # of the file itself
        self.refs = 0
        self.messages = 0  # of a mailbox, or files of an archive, begun
        self.since = 0  # items since the file, or the child of a container, began
        self.message_ref = 0
        self.coming = ""  # the name of the archive's file that is read next

    def follow(self, item: Item) -> None:
        """Keeps the books."""
        if isinstance(item, Opened):
            self.open[item.ref] = 0
            self.refs = max(self.refs, item.ref + 1)
            self.kind = self.kind or item.kind
            if self.kind in CONTAINERS and item.parent == 0:
                self.messages += 1
                self.since, self.message_ref = 0, item.ref
        elif isinstance(item, Page):
            self.open[item.ref] = item.number
        else:
            del self.open[item.ref]
        self.since += 1

    def done(self) -> int:
        """Pages of a PDF, or children of a container, that are dealt with."""
        return self.messages if self.kind in CONTAINERS else self.open.get(0, 0)

    def untorn(self) -> bool:
        """Reading could go on in another process from where it stopped."""
        if self.kind is None:
            return True
        return list(self.open) == [0] and (self.kind in CONTAINERS or (self.kind == Kind.PDF and self.refs == 1))

    def sacrifice(self, reason: str) -> list[Item]:
        """The items that stand for the page or message that ended the process, so that the rest can be read; none
        where reading cannot go on."""
        if self.kind in CONTAINERS and 0 in self.open:
            return self._lost_message(reason)
        if self.kind == Kind.PDF and list(self.open) == [0] and self.open[0] + 1 < self.announced.get(0, 0):
            return [Page(ref=0, number=self.open[0] + 1, text="", flags=(Flag.UNREAD,), score=0.0)]
        return []

    def _lost_message(self, reason: str) -> list[Item]:
        inner = [ref for ref in self.open if ref != 0]
        if inner:
            return list(self._settled(inner, reason))
        name = self.coming or str(self.messages + 1)
        kind = Kind.MESSAGE if self.kind == Kind.MAILBOX else Kind.OTHER
        return [
            Opened(ref=self.refs, parent=0, name=name, kind=kind),
            Closed(ref=self.refs, status=Status.DAMAGED, reason=reason),
        ]

    def settle(self, path: Path, reason: str) -> Iterator[Item]:
        """Everything that is owed."""
        if self.kind is None:
            self.open[0] = 0
            yield Opened(ref=0, parent=None, name=path.name, kind=Kind.OTHER)
        yield from self._settled(list(self.open), reason)

    def _settled(self, refs: list[int], reason: str) -> Iterator[Item]:
        """Missing pages and the ends of these documents, the innermost first."""
        for ref in reversed(refs):
            got, total = self.open[ref], self.announced.get(ref, 0)
            for number in range(got + 1, total + 1):
                yield Page(ref=ref, number=number, text="", flags=(Flag.UNREAD,), score=0.0)
            where = f" after page {got:,} of {total:,}" if got and total else f" at page {got + 1:,}" if got else ""
            partial = got or (ref == 0 and self.messages)
            yield Closed(ref=ref, status=Status.PARTIAL if partial else Status.DAMAGED, reason=f"{reason}{where}")


class Workers:
    """A pool of reader processes, started when needed and reused. Safe to use from several threads."""

    def __init__(self, count: int = 1, limits: Limits | None = None) -> None:
        self.count = count
        self.limits = limits or Limits()
        self.peak_bytes = 0
        self._alive = _Alive()
        self._slots: queue.LifoQueue[_Process | None] = queue.LifoQueue()
        for _ in range(count):
            self._slots.put(None)

    def __enter__(self) -> "Workers":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def read(
        self, path: Path, passwords: Sequence[str] = (), *, expect: Callable[[int], None] = lambda pages: None
    ) -> Generator[Item, None, None]:
        """The items of one file, as they come. Waits while all processes are busy. Leaving the iterator early ends the
        process that reads. `expect` is told how many pages the file has, where its reader knows it before. Raises
        ReadingAborted after `abort`."""
        process = self._slots.get()
        whole = False
        try:
            reading = _FileReading(path.absolute(), passwords, self.limits, self._alive, process, expect)
            process = None
            try:
                yield from reading.items()
                whole = True
            finally:
                process = reading.keep(whole)
        finally:
            self.peak_bytes = max(self.peak_bytes, process.peak_bytes if process else 0)
            self._slots.put(process)

    def abort(self) -> None:
        """Ends all readings now, whatever they wait for; no file can be read any more. Safe to call from any thread."""
        self._alive.abort()

    def check(self) -> None:
        """Raises ReadingAborted after `abort`."""
        self._alive.check()

    def close(self) -> None:
        """Ends the processes. Waits for those in use."""
        for _ in range(self.count):
            if process := self._slots.get():
                process.kill()
        for _ in range(self.count):
            self._slots.put(None)


class _FileReading:
    """One file through one process, or through its successors where a page ends it."""

    def __init__(
        self,
        path: Path,
        passwords: Sequence[str],
        limits: Limits,
        alive: _Alive,
        process: _Process | None,
        expect: Callable[[int], None],
    ) -> None:
        self.path = path
        self.passwords = tuple(passwords)
        self.limits = limits
        self.alive = alive
        self.process = process
        self.expect = expect
        self.ledger = _Ledger()
        self.lost: list[str] = []
        self.resumed_at = (-1, -1)
        self.replay = False

    def items(self) -> Iterator[Item]:
        """The whole stream."""
        while True:
            try:
                yield from self._attempt()
                return
            except _Gone as gone:
                self._bury()
                self.alive.check()
                reason = str(gone)
                if gone.killed and self._once_more():
                    continue
            owed = self.ledger.sacrifice(reason) if len(self.lost) < _RESUMES else []
            if not owed:
                yield from self.ledger.settle(self.path, "; ".join([*self.lost, reason]))
                return
            for item in owed:
                self.ledger.follow(item)
                yield item
            what = {Kind.MAILBOX: "message", Kind.ARCHIVE: "file"}.get(self.ledger.kind or Kind.OTHER, "page")
            self.lost.append(f"{what} {self.ledger.done():,} unread: {reason}")

    def _once_more(self) -> bool:
        """Whether to try the same place of the file a second time: once for each. What is torn is read again from its
        beginning, and what came before is not passed on twice."""
        place = (self.ledger.done(), self.ledger.since)
        torn = not self.ledger.untorn()
        if place == self.resumed_at or (torn and self.lost and self.ledger.kind not in CONTAINERS):
            return False
        self.resumed_at, self.replay = place, torn
        return True

    def _attempt(self) -> Iterator[Item]:
        self.process = process = self.process or _started(self.limits, self.alive)
        ledger, resumed, drop = self.ledger, self.ledger.kind is not None, 0
        skip, first = ledger.done(), max(1, ledger.refs)
        if self.replay and ledger.kind in CONTAINERS:
            skip, first, drop = ledger.messages - 1, ledger.message_ref, ledger.since
        elif self.replay:
            skip, first, drop, resumed = 0, 1, ledger.since, False
        self.replay = False
        process.send(wire.Read(path=os.fsencode(self.path), passwords=self.passwords, skip=skip, first_ref=first))
        while not isinstance(message := process.receive(self.limits.idle_seconds), wire.Done):
            if isinstance(message, wire.Expect):
                self.ledger.announced[message.ref] = message.pages
                if message.ref == 0:
                    self.expect(message.pages)
            elif isinstance(message, wire.Coming):
                self.ledger.coming = message.name
            elif isinstance(message, Opened | Page | Closed):
                if resumed and isinstance(message, Opened) and message.ref == 0:
                    continue
                if drop:
                    drop -= 1
                    continue
                self.ledger.follow(message)
                yield self._amended(message)
        process.files += 1
        process.peak_bytes = message.peak_bytes

    def _amended(self, item: Item) -> Item:
        """The end of a file that lost pages or messages on the way says so."""
        if not (self.lost and isinstance(item, Closed) and item.ref == 0):
            return item
        status = Status.PARTIAL if item.status in (Status.READ, Status.NO_TEXT) else item.status
        return Closed(ref=0, status=status, reason="; ".join(filter(None, [*self.lost, item.reason])))

    def _bury(self) -> None:
        if self.process:
            self.process.kill()
        self.process = None

    def keep(self, whole: bool) -> _Process | None:
        """The process if it is fit for another file."""
        if self.process and (not whole or self.process.worn()):
            self._bury()
        return self.process


def read_file(path: Path, limits: Limits | None = None, passwords: Sequence[str] = ()) -> Iterator[Item]:
    """The items of one file, read in a process of its own."""
    with Workers(1, limits) as workers:
        yield from workers.read(path, passwords)
