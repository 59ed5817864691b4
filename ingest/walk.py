"""Finds the files below the paths that were named. Looks, never opens a file but `.unabridgedignore`.

Files come in natural order, one at a time, however large the tree. What cannot be listed, followed or read as a file is
a `Problem`, so that nothing vanishes without a word. Left out by rule, and therefore silent: names that begin with a
dot (unless `hidden`, or named themselves), what `.unabridgedignore` files say (gitignore syntax, nested as git does),
`exclude` and `include` patterns (the same syntax, relative to the named folder), and a folder that was walked already
by another way (links).
"""

import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pathspec import GitIgnoreSpec

from unabridged.ingest.document import Status
from unabridged.ingest.errors import PathNotFound
from unabridged.ingest.paths import natural

IGNORE_FILE = ".unabridgedignore"


@dataclass(frozen=True)
class Found:
    """A regular file, links resolved. `path` is absolute and as the user named it."""

    path: str
    size: int
    mtime_ns: int


@dataclass(frozen=True)
class Problem:
    """A place that gives no file."""

    path: str
    status: Status
    reason: str


@dataclass(frozen=True)
class Rules:
    """What a walk leaves out."""

    include: Sequence[str] = ()
    exclude: Sequence[str] = ()
    hidden: bool = False


@dataclass(frozen=True)
class _Ignores:
    """The ignore patterns that hold in a folder, outermost first, each with the folder that it is relative to."""

    specs: tuple[tuple[str, GitIgnoreSpec], ...] = ()

    def within(self, folder: str, names: set[str]) -> "_Ignores":
        """These and the folder's own."""
        if IGNORE_FILE not in names:
            return self
        lines = Path(folder, IGNORE_FILE).read_text("utf-8", "replace").splitlines()
        return _Ignores((*self.specs, (folder, GitIgnoreSpec.from_lines(lines))))

    def cover(self, path: str, is_folder: bool) -> bool:
        """Whether the path is ignored: the innermost file that says anything about it decides."""
        for folder, spec in reversed(self.specs):
            said = spec.check_file(_relative(path, folder, is_folder)).include
            if said is not None:
                return said
        return False


@dataclass(frozen=True)
class _Folder:
    """A folder that is to be walked next."""

    path: str
    ignores: _Ignores


@dataclass
class _Walk:
    """One walk from one named folder."""

    top: str
    rules: Rules
    visited: set[tuple[int, int]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._include = GitIgnoreSpec.from_lines(self.rules.include) if self.rules.include else None
        self._exclude = GitIgnoreSpec.from_lines(self.rules.exclude) if self.rules.exclude else None

    def run(self) -> Iterator[Found | Problem]:
        """The files of the top folder and of those in it. A stack instead of recursion: trees may be deep."""
        stack = [self._entries(self.top, _Ignores())]
        while stack:
            step = next(stack[-1], None)
            if step is None:
                stack.pop()
            elif isinstance(step, _Folder):
                stack.append(self._entries(step.path, step.ignores))
            else:
                yield step

    def _entries(self, path: str, ignores: _Ignores) -> Iterator["Found | Problem | _Folder"]:
        try:
            if not self._first_visit(path):
                return
            with os.scandir(path) as scan:
                entries = sorted(scan, key=lambda entry: natural(entry.name))
            ignores = ignores.within(path, {entry.name for entry in entries})
        except OSError as error:
            yield Problem(path, Status.DAMAGED, f"cannot be listed: {error.strerror}")
            return
        for entry in entries:
            is_folder = _is_folder(entry)
            if not self._left_out(entry, is_folder, ignores):
                yield _Folder(entry.path, ignores) if is_folder else look(entry.path)

    def _first_visit(self, path: str) -> bool:
        where = Path(path).stat()
        new = (where.st_dev, where.st_ino) not in self.visited
        self.visited.add((where.st_dev, where.st_ino))
        return new

    def _left_out(self, entry: os.DirEntry[str], is_folder: bool, ignores: _Ignores) -> bool:
        if entry.name.startswith(".") and not self.rules.hidden:
            return True
        name = _relative(entry.path, self.top, is_folder)
        if self._exclude is not None and self._exclude.match_file(name):
            return True
        if self._include is not None and not is_folder and not self._include.match_file(name):
            return True
        return ignores.cover(entry.path, is_folder)


def walk(path: str | Path, rules: Rules | None = None) -> Iterator[Found | Problem]:
    """The file at `path`, or the files below the folder at `path`. Raises PathNotFound when nothing lies there."""
    top = os.path.abspath(path)  # noqa: PTH100 - links stay as named
    if not os.path.lexists(top):
        raise PathNotFound(f"nothing lies at {path}", "check the spelling; relative paths start at the current folder")
    return _below(top, rules or Rules())


def _below(top: str, rules: Rules) -> Iterator[Found | Problem]:
    if Path(top).is_dir():
        yield from _Walk(top, rules).run()
    else:
        yield look(top)


def look(path: str) -> Found | Problem:
    """What lies at a path that is no folder."""
    try:
        there = Path(path).stat()
    except FileNotFoundError:
        return Problem(path, Status.DAMAGED, f"a link to nothing: {_target(path)}")
    except OSError as error:
        return Problem(path, Status.DAMAGED, f"cannot be looked at: {error.strerror}")
    if stat.S_ISREG(there.st_mode):
        return Found(path, there.st_size, there.st_mtime_ns)
    return Problem(path, Status.UNSUPPORTED, f"no file but a {_special(there.st_mode)}")


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False


def _relative(path: str, folder: str, is_folder: bool) -> str:
    return path[len(folder.rstrip("/")) + 1 :] + ("/" if is_folder else "")


def _target(path: str) -> str:
    try:
        return os.fsencode(Path(path).readlink()).decode("utf-8", "backslashreplace")
    except OSError as error:
        return str(error.strerror)


def _special(mode: int) -> str:
    kinds = {stat.S_IFIFO: "pipe", stat.S_IFSOCK: "socket", stat.S_IFCHR: "device", stat.S_IFBLK: "device"}
    return kinds.get(stat.S_IFMT(mode), "special file")
