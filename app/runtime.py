"""The runtime file and the lock of a running server: how its clients find it and a second server learns of it.

The lock (flock on <data>/server.lock) says whether a server runs: the kernel drops it with the process, so it is never
stale. The file (<runtime>/server.json, readable by the user only) says where it listens and with which key; it is a
hint, as a killed server leaves it behind. Knows no HTTP.
"""

import fcntl
import os
import secrets
from contextlib import suppress
from pathlib import Path

import msgspec

from unabridged.app import private
from unabridged.app.errors import ServerBusy


class Running(msgspec.Struct, frozen=True, kw_only=True):
    """What a running server says about itself."""

    url: str
    pid: int
    key: str  # accepted as bearer token beside the configured one, and alone good for /v1/shutdown
    version: str
    certificate: str = ""  # a file with it, where connections are encrypted


def new_key() -> str:
    """A key that cannot be guessed, for one run of a server."""
    return secrets.token_urlsafe(32)


def read(file: Path) -> Running | None:
    """What `file` says, or None when there is none or it is cut short."""
    try:
        return msgspec.json.decode(file.read_bytes(), type=Running)
    except (FileNotFoundError, NotADirectoryError, msgspec.DecodeError):
        return None


def write(file: Path, running: Running) -> None:
    """Replace the file as a whole; only the user can read it, at every moment."""
    private.replace(file, msgspec.json.encode(running))


def remove(file: Path, pid: int) -> None:
    """Remove the file if it is still that of `pid`."""
    with suppress(OSError):  # a folder that cannot be read or written any more
        found = read(file)
        if found is not None and found.pid == pid:
            file.unlink(missing_ok=True)


def alive(pid: int) -> bool:
    """Whether a process of that id exists. It may be another one that got the id since."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


class ServerLock:
    """Holds <data>/server.lock while open. One server a data directory."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._fd = -1

    def __enter__(self) -> "ServerLock":
        """Take the lock. Raises ServerBusy, naming the holder's process id as far as it is known."""
        self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        fd = os.open(self._file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(fd)
            raise ServerBusy(f"a server already runs for {self._file.parent}{_holder(self._file)}") from error
        self._fd = fd
        self.note(str(os.getpid()))
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):
            os.ftruncate(self._fd, 0)
        os.close(self._fd)
        self._fd = -1

    def note(self, text: str) -> None:
        """Say in the lock file who holds it, for the message that a second server prints. A full disk keeps it mum."""
        with suppress(OSError):
            os.ftruncate(self._fd, 0)
            os.pwrite(self._fd, text.encode(), 0)


def _holder(file: Path) -> str:
    try:
        pid, _, url = file.read_text("ascii").partition(" ")
    except (OSError, UnicodeDecodeError):
        return ""
    return (f", process {pid}" if pid else "") + (f", listening at {url}" if url else "")
