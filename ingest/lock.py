"""A lock file that one process holds: the kernel frees it when the process ends, however it ends.

It knows nothing of what it guards. The file stays behind when the lock is released (removing it would race with the
next taker); it holds the pid of the last holder, so that a refusal can name it.
"""

import fcntl
import os
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from unabridged.ingest.errors import IngestError, LibraryBusy

_POLL_SECONDS = 0.05


class Lock:
    """An exclusive lock on `path`. Use as a context manager, or `acquire` and `release`.

    Two `Lock`s on one path exclude each other within a process as well. Not re-entrant.
    """

    def __init__(self, path: Path, what: str = "the library") -> None:
        self.path = path
        self.what = what
        self._file: int | None = None

    def acquire(self, wait_seconds: float = 0.0) -> None:
        """Takes the lock, waiting at most `wait_seconds`. Raises LibraryBusy naming the holder's pid, IngestError when
        the lock file cannot be made."""
        end = time.monotonic() + wait_seconds
        file = self._open()
        while not _try(file):
            if time.monotonic() >= end:
                holder = _holder(file)
                os.close(file)
                raise LibraryBusy(
                    f"{self.what} {self.path.parent} is in use by process {holder or 'unknown'}",
                    "wait until it has finished, or stop it",
                )
            time.sleep(_POLL_SECONDS)
        with suppress(OSError):  # a full disk: the lock holds, only a refusal cannot name us
            os.ftruncate(file, 0)
            os.pwrite(file, str(os.getpid()).encode(), 0)
        self._file = file

    def release(self) -> None:
        """Gives the lock back; harmless when it is not held."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def holder(self) -> int | None:
        """The pid of the process that holds the lock now, None when nobody does."""
        file = self._open()
        try:
            return None if _try(file) else _holder(file)
        finally:
            os.close(file)

    def _open(self) -> int:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            return os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise IngestError(f"cannot open the lock file {self.path}: {error.strerror}") from error

    def __enter__(self) -> Self:
        self.acquire()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


def _try(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _holder(file: int) -> int | None:
    content = os.pread(file, 32, 0).strip()
    return int(content) if content.isdigit() else None
