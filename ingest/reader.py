"""The process that reads files: `python -m unabridged.ingest.reader LIMITS`, driven by `worker` over its two pipes.

It parses hostile input, so it holds nothing worth stealing and may do little: user files are opened read-only, no file
can be written (RLIMIT_FSIZE 0), there is no network, memory is bounded, and the kernel ends it when a page takes too
much processor time. One file at a time; the process is reused for the next.
"""

import errno
import math
import os
import resource
import stat
import sys
import time
from collections.abc import Generator, Iterator
from io import BufferedReader
from pathlib import Path
from typing import BinaryIO

import msgspec

from unabridged.ingest import wire
from unabridged.ingest.detect import HEAD, detect
from unabridged.ingest.document import CONTAINERS, Closed, Item, Kind, Opened, Status
from unabridged.ingest.extract import guarded, read_source, reader_of
from unabridged.ingest.limits import Limits
from unabridged.ingest.magic import Detected
from unabridged.ingest.mail import place as mail_place
from unabridged.ingest.reading import Place, Reading, Source, Unreadable
from unabridged.ingest.texts.normalise import normalise
from unabridged.models.no_network import give_up

_MAIL = (Kind.MESSAGE, Kind.MAILBOX)


def main() -> None:
    """Serves requests until the other side closes its pipe."""
    limits = msgspec.json.decode(sys.argv[1].encode(), type=Limits)
    requests, replies = _pipes()
    confine(limits)
    replies.write(wire.frame(wire.Started()))
    while header := requests.read(wire.HEADER):
        request = wire.decode_read(requests.read(int.from_bytes(header, "little")))
        serve(request, limits, replies)


def _pipes() -> tuple[BinaryIO, BinaryIO]:
    """The two pipes, moved away from where a library might read or print."""
    requests = os.fdopen(os.dup(0), "rb")
    replies = os.fdopen(os.dup(1), "wb", buffering=0)
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    return requests, replies


def confine(limits: Limits) -> None:
    """Gives up what reading does not need."""
    _soften(resource.RLIMIT_AS, limits.memory_bytes)
    _soften(resource.RLIMIT_FSIZE, 0)
    _soften(resource.RLIMIT_CORE, 0)


def _soften(which: int, value: int) -> None:
    _, hard = resource.getrlimit(which)
    resource.setrlimit(which, (value if hard == resource.RLIM_INFINITY else min(value, hard), hard))


class Meter:
    """Processor time of one file. The kernel's limit is set anew at every step, so that a step which never returns
    ends the process; a file that is slow as a whole is stopped between two steps."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.start = time.process_time()
        self.steps = 0
        self.arm()

    def used(self) -> float:
        """CPU seconds of this file."""
        return time.process_time() - self.start

    def allow(self, seconds: float) -> None:
        """The step that runs may take so much longer, and the file with it."""
        self.start += seconds
        self.arm(self.limits.page_seconds + seconds)

    def arm(self, seconds: float | None = None) -> None:
        """Gives the next step its time."""
        _soften(resource.RLIMIT_CPU, math.ceil(time.process_time() + (seconds or self.limits.page_seconds)))

    def step(self, item: Item) -> bool:
        """Counts what came; False when the file has used up its time."""
        if not isinstance(item, Opened):
            self.steps += 1
            self.arm()
        return self.used() < self.limits.cpu_seconds + self.limits.page_credit * self.steps


def serve(request: wire.Read, limits: Limits, replies: BinaryIO) -> None:
    """Reads one file and sends what it gives."""

    def send(message: wire.Reply) -> None:
        data = memoryview(wire.frame(message))
        while data:
            data = data[replies.write(data) or 0 :]

    meter = Meter(limits)
    reading = Reading(
        limits=limits,
        child=read_source,
        passwords=request.passwords,
        expect=lambda ref, pages: send(wire.Expect(ref=ref, pages=pages)),
        allow=meter.allow,
        coming=lambda name: send(wire.Coming(name=name)),
        skip=request.skip,
        first_ref=request.first_ref,
    )
    items = read_path(request.path, reading)
    item = next(items, None)
    while item is not None:
        send(item)
        item = next(items, None) if meter.step(item) else _stop(items, limits)
    send(wire.Done(peak_bytes=_peak_bytes(), cpu_seconds=meter.used()))


def _peak_bytes() -> int:
    """The largest resident size of this program. `ru_maxrss` would also count the parent's at the time of the start."""
    try:
        status = Path("/proc/self/status").read_text()
        return int(status.partition("VmHWM:")[2].split()[0]) * 1024
    except (OSError, IndexError):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _stop(items: Generator[Item, None, None], limits: Limits) -> Item | None:
    """Ends the document that is being read; the reader of a container goes on with the next."""
    reason = f"stopped: takes more than {limits.cpu_seconds:g} seconds of processor time"
    try:
        return items.throw(Unreadable(Status.DAMAGED, reason))
    except StopIteration:
        return None


def read_path(path: bytes, reading: Reading) -> Generator[Item, None, None]:
    """The items of a file on disk."""
    name = normalise(Path(os.fsdecode(path)).name)
    try:
        file = _open(path)
    except OSError as error:
        yield from _unopened(name, reading, f"cannot be opened: {error.strerror}")
        return
    with file:
        yield from _read_open(file, path, name, reading)


def _open(path: bytes) -> BufferedReader:
    """The file, for reading only; never a pipe or a device, which could block for ever."""
    file = os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC), "rb")
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(errno.EINVAL, "not a regular file")
    return file


def _read_open(file: BufferedReader, path: bytes, name: str, reading: Reading) -> Iterator[Item]:
    there = os.fstat(file.fileno())
    size = there.st_size
    found = detect(file.read(HEAD), name)
    at = mail_place.of(os.fsdecode(path), there.st_mtime)
    if at.message and found.kind in (Kind.TEXT, Kind.MARKDOWN, Kind.CODE):
        found = Detected(Kind.MESSAGE)
    source = Source(name, file=file, dated=at.dated)
    limit = reading.limits.file_bytes
    if found.kind == Kind.OTHER and size > limit:
        reason = f"{found.what}: not read in this version"
        yield from _refused(source, Kind.OTHER, reading, Status.UNSUPPORTED, reason)
        return
    if found.kind not in (*CONTAINERS, Kind.OTHER):
        if size > limit:
            reason = f"{size >> 20:,} MB: files of more than {limit >> 20:,} MB are not read"
            yield from _refused(source, found.kind, reading, Status.TOO_LARGE, reason)
            return
        file.seek(0)
        source = Source(name, data=file.read(), dated=at.dated)
    yield from guarded(
        reader_of(found), source, reading, Place(meta=at.meta if found.kind in _MAIL else {}), found.kind
    )


def _refused(source: Source, kind: Kind, reading: Reading, status: Status, reason: str) -> Iterator[Item]:
    ref = reading.ref()
    yield Opened(ref=ref, parent=None, name=source.name, kind=kind, size=source.size)
    yield Closed(ref=ref, status=status, reason=reason)


def _unopened(name: str, reading: Reading, reason: str) -> Iterator[Item]:
    yield from _refused(Source(name), Kind.OTHER, reading, Status.DAMAGED, reason)


if __name__ == "__main__":
    give_up()
    main()
