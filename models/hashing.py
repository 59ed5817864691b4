"""SHA-256 of files, while they are read or copied; files that are replaced in one step. Torch-free."""

import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

# Called with the number of bytes done since the last call.
Progress = Callable[[int], None]

_BLOCK = 1 << 20


def sha256_of(path: Path, progress: Progress | None = None) -> str:
    """Hex digest of a file."""
    digest = hashlib.sha256()
    for block in _blocks(path):
        digest.update(block)
        if progress:
            progress(len(block))
    return digest.hexdigest()


def copy_hashed(source: Path, target: Path, progress: Progress | None = None) -> str:
    """Copy a file, flushed to the disk, and give its hex digest."""
    digest = hashlib.sha256()
    with _naming(target), target.open("xb") as out:
        for block in _blocks(source):
            digest.update(block)
            out.write(block)
            if progress:
                progress(len(block))
        sync(out.fileno())
    return digest.hexdigest()


def link_hashed(source: Path, target: Path, progress: Progress | None = None) -> str:
    """A second name for a file where the file system can, else a copy; gives its hex digest."""
    try:
        target.hardlink_to(source)
    except OSError:
        return copy_hashed(source, target, progress)
    with target.open("rb") as file:
        sync(file.fileno())
    return sha256_of(target, progress)


def replace(path: Path, data: bytes) -> None:
    """Write a file in one step: whatever happens, the old content is there or the new."""
    temporary = path.with_name(path.name + ".new")
    with _naming(temporary), temporary.open("wb") as out:
        out.write(data)
        out.flush()
        sync(out.fileno())
    temporary.replace(path)
    sync_folder(path.parent)


def sync(descriptor: int) -> None:
    """Have the operating system write what it holds of this file or folder."""
    os.fsync(descriptor)


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """The system names no file when it refuses to read or write an open one: it is this."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = str(path)
        raise


def sync_folder(path: Path) -> None:
    """Make renames and new names in a folder durable."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _blocks(path: Path) -> Iterator[bytes]:
    with _naming(path), path.open("rb") as file:
        while block := file.read(_BLOCK):
            yield block
