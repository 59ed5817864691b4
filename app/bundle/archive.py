"""Tar archives that are the same bytes for the same files, and the list of what a folder holds."""

import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from unabridged.app.installer.manifest import sha256_of


def listed(folder: Path) -> dict[str, str]:
    """SHA-256 of every file below, by path."""
    return {path.relative_to(folder).as_posix(): sha256_of(path) for path in files_of(folder)}


def files_of(folder: Path) -> Iterator[Path]:
    """All files below, in the order of their paths."""
    found = (path for path in folder.rglob("*") if path.is_file())
    yield from sorted(found, key=lambda path: path.relative_to(folder).as_posix())


def pack(folder: Path, archive: Path, epoch: int) -> None:
    """Write `folder`, under its own name, into a tar: sorted, of root, every time `epoch`, modes 755 and 644.

    It is not compressed: wheels and models are already, and a plain tar can be read while it is copied.
    """
    with tarfile.open(archive, "w", format=tarfile.GNU_FORMAT) as out:
        for path in sorted((folder, *folder.rglob("*")), key=lambda one: one.relative_to(folder).as_posix()):
            name = Path(folder.name, path.relative_to(folder)).as_posix()
            if path.is_dir():
                out.addfile(member(name, epoch, folder=True))
            else:
                with path.open("rb") as source:
                    add(out, name, source, path.stat().st_size, epoch, executable=bool(path.stat().st_mode & 0o100))


def member(name: str, epoch: int, *, folder: bool = False, link: str = "") -> tarfile.TarInfo:
    """An entry of root with the given time; a file of mode 644 unless said otherwise."""
    entry = tarfile.TarInfo(name)
    entry.mtime, entry.uname, entry.gname, entry.mode = epoch, "root", "root", 0o644
    if folder:
        entry.type, entry.mode = tarfile.DIRTYPE, 0o755
    elif link:
        entry.type, entry.linkname, entry.mode = tarfile.SYMTYPE, link, 0o777
    return entry


def add(out: tarfile.TarFile, name: str, source: IO[bytes], size: int, epoch: int, *, executable: bool = False) -> None:
    """Add a file of `size` bytes."""
    entry = member(name, epoch)
    entry.size, entry.mode = size, 0o755 if executable else 0o644
    out.addfile(entry, source)
