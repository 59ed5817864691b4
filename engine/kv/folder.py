"""The folder of stored KV: which files are there, which may go, and how a new one comes.

Several processes may use it at a time. Whoever makes room holds the folder's lock for that moment; a file under way has
a name of its own, its full length at once and a lock of its own, so that it counts, and so that what a killed writer
left is told from what another one writes. A finished file appears whole, and stays after a power cut. What is pinned
never goes (`shelves`). Knows keys and bytes, not what they mean. Torch-free.
"""

import contextlib
import fcntl
import logging
import os
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from unabridged.engine.errors import StoreError
from unabridged.engine.kv.format import open_file
from unabridged.engine.kv.shelves import Shelf, Shelves

SUFFIX = ".kv"
_NEW = ".new"
# Of the disk, what is left to others: a share, and no more than so many bytes.
_LEFT_SHARE = 50
_LEFT_BYTES = 512 << 20

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Stored:
    """A file: `used` is when it was written or loaded last, in seconds since the epoch."""

    key: str
    path: Path
    size: int
    used: float


@dataclass(frozen=True)
class Room:
    """Bytes. `quota`: all files may take; `used`: they take; `pinned`: of these, what stays; `disk`: the disk gives."""

    quota: int
    used: int
    pinned: int
    disk: int

    @property
    def most(self) -> int:
        """What new files can take, if all that is not pinned goes for them."""
        return max(0, min(self.quota - self.pinned, self.disk + self.used - self.pinned))


class Folder:
    """See the module. Raises StoreError where the folder cannot be made, listed or written."""

    def __init__(self, path: Path, quota_bytes: int) -> None:
        self.path, self.quota = path, quota_bytes
        self.shelves = Shelves(path)
        self._seen: tuple[int, int] | None = None  # the folder's last change, and bytes of all files then
        with _explained(path):
            path.mkdir(parents=True, exist_ok=True, mode=0o700)
            with self._locked():
                self._sweep()

    def file(self, key: str) -> Path:
        """Where the file of `key` is, or would be."""
        return self.path / f"{key}{SUFFIX}"

    def has(self, key: str) -> bool:
        """Whether a file of this key is there; whether it is whole shows when it is read."""
        return self.file(key).is_file()

    def stored(self) -> list[Stored]:
        """Every finished file, the one that was used longest ago first."""
        with _explained(self.path):
            return sorted(self._files(SUFFIX), key=lambda one: one.used)

    def room(self) -> Room:
        """What is taken and what is left."""
        stored, pinned = self.stored(), self.shelves.pinned_keys()
        return Room(
            quota=self.quota,
            used=sum(one.size for one in stored),
            pinned=sum(one.size for one in stored if one.key in pinned),
            disk=self._disk(),
        )

    def shelve(self, shelf: Shelf) -> None:
        """Put a shelf, replacing an older one."""
        with _explained(self.path):
            self.shelves.put(shelf)

    def touch(self, key: str) -> None:
        """Note that a file was used. Where the folder is read-only the order of leaving suffers, nothing else."""
        with contextlib.suppress(OSError):
            os.utime(self.file(key))

    def drop(self, keys: Iterable[str]) -> int:
        """Delete files, pinned or not. Returns the bytes that they took."""
        freed = 0
        with _explained(self.path):
            for key in keys:
                with contextlib.suppress(FileNotFoundError):
                    size = self.file(key).stat().st_size
                    self.file(key).unlink()
                    freed += size
        return freed

    @contextmanager
    def writing(self, key: str, size: int) -> Iterator[int]:
        """An open file of `size` bytes that becomes `key`'s at the end, or leaves no trace.

        Files go for it if they must, the one used longest ago first. Raises StoreError.
        """
        with _explained(self.path, "what was read is used, but it will be read again next time"):
            with self._locked():
                used = self._make_room(size)
                file, temporary = self._begin(key, size)
                self._seen = (self._changed(), used + size)
            try:
                yield file
                os.fsync(file)
                alone = self._seen is not None and self._seen[0] == self._changed()
                temporary.replace(self.file(key))
                _sync(self.path)
                self._seen = (self._changed(), self._seen[1]) if alone and self._seen else None
            except BaseException:
                temporary.unlink(missing_ok=True)
                raise
            finally:
                os.close(file)

    def _begin(self, key: str, size: int) -> tuple[int, Path]:
        path = self.path / f"{key}.{os.getpid()}-{time.monotonic_ns()}{_NEW}"
        file = open_file(path, os.O_RDWR | os.O_CREAT)
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            os.posix_fallocate(file, 0, size)
        except BaseException:
            path.unlink(missing_ok=True)
            os.close(file)
            raise
        return file, path

    def _make_room(self, wanted: int) -> int:
        """What is used besides then."""
        left = self._disk()
        # A library of mails has many thousand files: they are listed when something else has changed the folder.
        if self._seen is not None and self._seen[0] == self._changed():
            used = self._seen[1]
            if used + wanted <= self.quota and wanted <= left:
                return used
        stored, pinned = self.stored(), self.shelves.pinned_keys()
        used = sum(one.size for one in (*stored, *self._files(_NEW)))
        going, free = [], 0
        for one in stored:
            if used - free + wanted <= self.quota:
                break
            if one.key not in pinned:
                going.append(one)
                free += one.size
        if used - free + wanted > self.quota:
            raise StoreError(
                f"KV of {wanted:,} bytes does not fit into the store's {self.quota:,}, of which {used - free:,} are "
                "pinned or being written",
                "raise engine.store_mib, or unpin: unabridged store unpin",
            )
        if wanted > left + free:
            raise StoreError(
                f"the disk of {self.path} has {max(0, left):,} bytes to spare, KV of {wanted:,} is to be stored",
                "free some space, or: unabridged store evict",
            )
        for one in going:
            one.path.unlink(missing_ok=True)
            log.info("dropped stored KV %s: the quota of %d bytes is reached", one.key, self.quota)
        return used - free

    def _changed(self) -> int:
        return self.path.stat().st_mtime_ns

    def _disk(self) -> int:
        """Bytes that may be taken of the disk."""
        state = os.statvfs(self.path)
        whole = state.f_blocks * state.f_frsize
        return state.f_bavail * state.f_frsize - min(_LEFT_BYTES, whole // _LEFT_SHARE)

    def _files(self, suffix: str) -> Iterator[Stored]:
        with os.scandir(self.path) as entries:
            for entry in entries:
                if entry.name.endswith(suffix):
                    with contextlib.suppress(FileNotFoundError):
                        state = entry.stat()
                        path = Path(entry.path)
                        yield Stored(path.stem, path, state.st_size, state.st_mtime)

    def _sweep(self) -> None:
        """Remove what killed writers left: nobody holds its lock."""
        for one in list(self._files(_NEW)):
            with contextlib.suppress(FileNotFoundError):
                file = os.open(one.path, os.O_RDWR | os.O_CLOEXEC)
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    one.path.unlink(missing_ok=True)
                except BlockingIOError:
                    continue
                finally:
                    os.close(file)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        file = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield
        finally:
            os.close(file)


def _sync(folder: Path) -> None:
    """A name is on the disk when its folder is."""
    file = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(file)
    finally:
        os.close(file)


@contextmanager
def _explained(folder: Path, hint: str = "check the folder's permissions and the disk") -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StoreError(f"the KV store {folder} cannot be used: {error.strerror or error}", hint) from error
