"""The folder of stored KV: which files are there, which may go, and how a new one comes.

Several processes may use it at a time. Whoever makes room holds the folder's lock for that moment; a file under way has
a name of its own, its full length at once and a lock of its own, so that it counts, and so that what a killed writer
left is told from what another one writes. A finished file appears whole, and stays after a power cut. What is pinned
never goes (`shelves`). A folder that may not be written is read. Knows keys and bytes, not what they mean. Torch-free.
"""

import contextlib
import errno
import fcntl
import logging
import os
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from unabridged.engine.errors import StoreError
from unabridged.engine.kv.format import open_file
from unabridged.engine.kv.room import Room, Stored, leaving, spare
from unabridged.engine.kv.shelves import Shelf, Shelves

SUFFIX = ".kv"
_NEW = ".new"
# The way out of what the system says.
_SPACE = "free some space on its disk, or: unabridged store evict"
_ALLOWED = "allow this user to write there"
_WAYS = {
    errno.ENOSPC: _SPACE,
    errno.EDQUOT: _SPACE,
    errno.EFBIG: "allow larger files: ulimit -f",
    errno.EROFS: _ALLOWED,
    errno.EACCES: _ALLOWED,
}

log = logging.getLogger(__name__)


class Folder:
    """See the module. Raises StoreError where the folder cannot be made, listed or written."""

    def __init__(self, path: Path, quota_bytes: int) -> None:
        self.path, self.quota = path, quota_bytes
        self.shelves = Shelves(path)
        self._seen: tuple[int, int] | None = None  # the folder's last change, and bytes of all files then
        self._kept: list[frozenset[str]] = []
        with _explained(path):
            path.mkdir(parents=True, exist_ok=True, mode=0o700)
            if self.writable:
                with self._locked():
                    self._sweep()
            else:
                os.scandir(path).close()

    @property
    def writable(self) -> bool:
        """Whether anything can be stored or deleted here."""
        return os.access(self.path, os.W_OK | os.X_OK)

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

    def room(self, stored: Sequence[Stored], pinned: Collection[str]) -> Room:
        """What is taken and what is left. `stored`: every file; `pinned`: keys that stay."""
        return Room(
            quota=self.quota,
            used=sum(one.size for one in stored),
            pinned=sum(one.size for one in stored if one.key in pinned),
            disk=spare(self.path),
        )

    def shelve(self, shelf: Shelf) -> None:
        """Put a shelf, replacing an older one."""
        with _explained(self.path, "written"):
            self.shelves.put(shelf)

    def pin(self, name: str) -> None:
        """Keep what is read of a collection, now and later."""
        with _explained(self.path, "written"):
            self.shelves.pin(name)

    def unpin(self, name: str) -> bool:
        """The opposite. Whether it was pinned."""
        with _explained(self.path, "written"):
            return self.shelves.unpin(name)

    def forget(self, shelf: Shelf) -> None:
        """Remove a shelf; its files stay."""
        with _explained(self.path, "written"):
            self.shelves.remove(shelf)

    @contextmanager
    def keeping(self, keys: Iterable[str]) -> Iterator[None]:
        """While this is open none of these goes for what is written here, as if they were pinned."""
        kept = frozenset(keys)
        self._kept.append(kept)
        try:
            yield
        finally:
            self._kept.remove(kept)

    def touch(self, key: str) -> None:
        """Note that a file was used. Where the folder is read-only the order of leaving suffers, nothing else."""
        with contextlib.suppress(OSError):
            os.utime(self.file(key))

    def drop(self, keys: Iterable[str]) -> int:
        """Delete files, pinned or not. Returns the bytes that they took."""
        freed = 0
        with _explained(self.path, "written"):
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
        with _explained(self.path, "written"):
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
        # A library of mails has many thousand files: they are listed when something else has changed the folder.
        if self._seen is not None and self._seen[0] == self._changed():
            used = self._seen[1]
            if used + wanted <= self.quota and wanted <= spare(self.path):
                return used
        stored, staying = self.stored(), self.shelves.pinned_keys().union(*self._kept)
        used = sum(one.size for one in (*stored, *self._files(_NEW)))
        room = Room(quota=self.quota, used=used, disk=spare(self.path))
        going = leaving(wanted, stored, staying, self.path, room)
        for one in going:
            one.path.unlink(missing_ok=True)
            log.info("dropped stored KV %s: its room is needed", one.key)
        return used - sum(one.size for one in going)

    def _changed(self) -> int:
        return self.path.stat().st_mtime_ns

    def _files(self, suffix: str) -> Iterator[Stored]:
        with os.scandir(self.path) as entries:
            for entry in entries:
                if entry.name.endswith(suffix) and entry.is_file(follow_symlinks=False):
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
def _explained(folder: Path, done: str = "used") -> Iterator[None]:
    try:
        yield
    except OSError as error:
        way = _WAYS.get(error.errno or 0, "check the folder's permissions and the disk")
        raise StoreError(f"the KV store {folder} cannot be {done}: {error.strerror or error}", way) from error
