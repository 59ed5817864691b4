"""Where versions lie, and which of them is in use.

    PREFIX/versions/ID/      one version each, complete from the moment it has its name
    PREFIX/versions/.incoming-ID/   one that is being made; what a dead installer left is deleted by the next
    PREFIX/current           a link to the version in use: replacing it is the one step that changes anything
    PREFIX/versions/ID/previous     the id that was in use before it: where `rollback` leads

Standard library only.
"""

import ctypes
import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from unabridged.app.installer.codes import BUSY, NOTHING, PERMISSION, Stop
from unabridged.app.installer.manifest import FACTS, Facts, Malformed, read_facts

_INCOMING = ".incoming-"
# From <fcntl.h> and <linux/fs.h>.
_AT_FDCWD, _RENAME_EXCHANGE = -100, 2
OURS = ".unabridged"
"""A file that marks a folder as a prefix of ours: nothing is deleted in a folder without it."""


class Prefix:
    """The folder that holds all versions."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.versions = folder / "versions"
        self.current = folder / "current"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """One installer at a time. The folder is made where it is missing. Raises Stop."""
        try:
            self.refuse_others()
            self.folder.mkdir(mode=0o755, parents=True, exist_ok=True)
            lock = (self.folder / OURS).open("a")
        except OSError as error:
            raise Stop(
                PERMISSION,
                f"{self.folder} cannot be written: {error.strerror}",
                "choose another folder with --prefix, or run with the rights for it (sudo, for --system)",
            ) from error
        with lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise Stop(BUSY, f"another installer works in {self.folder}", "wait for it to end") from error
            yield

    def refuse_others(self) -> None:
        """Raises Stop where the folder is in use for something else."""
        if self.folder.is_dir() and not (self.folder / OURS).exists() and any(self.folder.iterdir()):
            raise Stop(NOTHING, f"{self.folder} holds other files", "choose an empty or new folder with --prefix")

    def incoming(self, id: str) -> Path:
        """The folder in which a version is made; see `adopt`."""
        return self.versions / (_INCOMING + id)

    def clean(self) -> None:
        """Delete what interrupted installers left."""
        for left in self.versions.glob(_INCOMING + "*"):
            shutil.rmtree(left)
        for left in self.folder.glob(".current-*"):
            left.unlink()

    def unmark(self) -> None:
        """Give the folder up: what is still in it is not ours."""
        (self.folder / OURS).unlink()

    def adopt(self, id: str) -> None:
        """Give a finished version its name; one of the same name that was there is deleted."""
        target, made = self.versions / id, self.incoming(id)
        if target.exists():
            _exchange(made, target)
            shutil.rmtree(made)
        else:
            made.rename(target)
        _sync(self.versions)

    def in_use(self) -> str | None:
        """The id that `current` leads to; None before the first installation."""
        with suppress(OSError):
            target = self.current.readlink()
            if target.parent.name == "versions" and (self.folder / target).is_dir():
                return target.name
        return None

    def use(self, id: str) -> None:
        """Make `current` lead to a version, in one step."""
        beside = self.folder / f".current-{os.getpid()}"
        beside.unlink(missing_ok=True)
        beside.symlink_to(Path("versions", id))
        beside.replace(self.current)
        _sync(self.folder)

    def note_previous(self, folder: Path, id: str | None) -> None:
        """Write into a version's folder which one was in use before it."""
        if id is None:
            (folder / "previous").unlink(missing_ok=True)
        else:
            (folder / "previous").write_text(id + "\n", "ascii")

    def previous(self, id: str) -> str | None:
        """The id that was in use before `id`, if it is still there."""
        try:
            before = (self.versions / id / "previous").read_text("ascii").strip()
        except FileNotFoundError:
            return None
        return before if before and (self.versions / before / "bundle" / FACTS).is_file() else None

    def facts(self, id: str) -> Facts:
        """What a version's bundle said of itself. Raises Stop when it is damaged."""
        try:
            return read_facts(self.versions / id / "bundle" / FACTS)
        except (Malformed, OSError) as error:
            raise Stop(NOTHING, f"the version {id} is damaged: {error}", "install it again") from error

    def ids(self) -> list[str]:
        """All complete versions, by name."""
        return sorted(path.name for path in self.versions.glob("*") if (path / "bundle" / FACTS).is_file())

    def prune(self, keep: frozenset[str]) -> list[str]:
        """Delete the versions that are not to be kept; their ids."""
        doomed = [id for id in self.ids() if id not in keep]
        for id in doomed:
            gone = self.incoming(id)
            (self.versions / id).rename(gone)
            shutil.rmtree(gone)
        return doomed


def _exchange(one: Path, other: Path) -> None:
    """Two folders take each other's names in one step: at no moment is one of them missing. Raises Stop."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.renameat2(_AT_FDCWD, bytes(one), _AT_FDCWD, bytes(other), _RENAME_EXCHANGE):
        why = os.strerror(ctypes.get_errno())
        raise Stop(NOTHING, f"{other} cannot be replaced in one step: {why}", "uninstall, then install again")


def _sync(folder: Path) -> None:
    """Have the folder's entries on the disk."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
