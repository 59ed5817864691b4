"""Finds the files below the paths that were named. Looks, never opens a file but ignore files.

Files come in natural order, one at a time, however large the tree. What cannot be listed, followed or read as a file is
a `Problem`; what a rule leaves out (`ignores`) is `Passed` with the number of its files, so that found, problems and
passed add up to all there is. Links to folders are followed after all else, so that what lies in the tree itself is
found where it lies; a folder that was walked already is not walked again.
"""

import os
import stat
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from unabridged.ingest.adding import maildir
from unabridged.ingest.adding.ignores import Ignores, Patterns, Rules, below, count_files, ignore_files, is_folder
from unabridged.ingest.document import Status
from unabridged.ingest.errors import PathNotFound, PatternInvalid
from unabridged.ingest.paths import natural

OWN_DATA = "unabridged's own data"
ELSEWHERE = "a way to a folder that is walked elsewhere"


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
class Passed:
    """A file, or a folder with so many files below it, that a rule leaves out."""

    path: str
    rule: str
    files: int


Place = Found | Problem | Passed


@dataclass(frozen=True)
class Scope:
    """The parts of a folder that are walked: these paths and what lies below them."""

    paths: frozenset[str]
    ways: frozenset[str]  # the folders that lead there

    @classmethod
    def of(cls, paths: Iterable[str]) -> "Scope":
        """The scope of absolute paths."""
        wanted = frozenset(paths)
        return cls(wanted, frozenset(str(parent) for path in wanted for parent in Path(path).parents))


@dataclass(frozen=True)
class _Folder:
    """A folder that is to be walked next. `whole`: all of it is in the scope; `link`: the path is a link to it."""

    path: str
    ignores: Ignores
    whole: bool
    link: bool = False


@dataclass
class _Walk:
    """One walk from one named folder."""

    top: str
    patterns: Patterns
    scope: Scope | None
    own: tuple[int, int] | None
    visited: set[tuple[int, int]] = field(default_factory=set)
    links: deque[_Folder] = field(default_factory=deque)

    def run(self) -> Iterator[Place]:
        """The files of the top folder and of those in it. A stack instead of recursion: trees may be deep."""
        whole = self.scope is None or self.top in self.scope.paths
        yield from self._tree(_Folder(self.top, Ignores(), whole))
        while self.links:
            yield from self._tree(self.links.popleft())

    def _tree(self, folder: _Folder) -> Iterator[Place]:
        stack = [self._entries(folder)]
        while stack:
            step = next(stack[-1], None)
            if step is None:
                stack.pop()
            elif not isinstance(step, _Folder):
                yield step
            elif step.link:
                self.links.append(step)
            else:
                stack.append(self._entries(step))

    def _entries(self, folder: _Folder) -> Iterator["Place | _Folder"]:
        try:
            where = _identity(folder.path)
            if where == self.own:
                yield Passed(folder.path, OWN_DATA, count_files(folder.path))
                return
            if where in self.visited or (folder.link and self.scope is not None and self._within(folder.path)):
                if self.scope is None:
                    yield Passed(folder.path, ELSEWHERE, 1 if folder.link else count_files(folder.path))
                return
            self.visited.add(where)
            with os.scandir(folder.path) as scan:
                entries = sorted(scan, key=lambda entry: natural(entry.name))
        except OSError as error:
            yield Problem(folder.path, Status.DAMAGED, f"cannot be listed: {error.strerror}")
            return
        names = {entry.name for entry in entries}
        ignores = folder.ignores
        for name in ignore_files(self.patterns.rules):
            if name in names:
                try:
                    ignores = ignores.within(folder.path, self.top, name)
                except (OSError, PatternInvalid) as error:
                    yield _not_heeded(f"{folder.path.rstrip('/')}/{name}", error)
                    names.remove(name)
        box = maildir.is_box(names)
        for entry in entries:
            if entry.name in names:
                index = maildir.is_summary(entry.path, names) and not is_folder(entry)
                yield from self._entry(entry, folder.whole, ignores, box, maildir.SUMMARY if index else "")

    def _within(self, link: str) -> bool:
        """Whether a link leads to what lies in the tree itself."""
        return Path(link).resolve().is_relative_to(Path(self.top).resolve())

    def _entry(
        self, entry: os.DirEntry[str], whole: bool, ignores: Ignores, box: bool, said: str
    ) -> Iterator["Place | _Folder"]:
        path, folder = entry.path, is_folder(entry)
        if not whole and self.scope is not None:
            whole = path in self.scope.paths
            if not (whole or (folder and path in self.scope.ways)):
                return
        relative = below(path, self.top) + ("/" if folder else "")
        rule = self.patterns.leave_out(entry.name, relative, folder)
        rule = maildir.rule(path, folder, rule) if box else rule
        rule = rule or said or ignores.leave_out(path, folder)
        if rule:
            if self.scope is None:
                yield Passed(path, rule, count_files(path) if folder else 1)
        elif folder:
            yield _Folder(path, ignores, whole, entry.is_symlink())
        elif (place := _look(entry)) is not None:
            yield place


def walk(
    path: str | Path, rules: Rules | None = None, scope: Scope | None = None, own: Path | None = None
) -> Iterator[Place]:
    """The file at `path`, or the files below the folder at `path`, those in `scope` (None: all; with one, what rules
    leave out is not said). The folder `own` is passed over. Raises PathNotFound when nothing lies there,
    PatternInvalid."""
    top = os.path.abspath(path)  # noqa: PTH100 - links stay as named
    patterns = Patterns(rules or Rules())
    if not os.path.lexists(top):
        raise PathNotFound(f"nothing lies at {path}", "check the spelling; relative paths start at the current folder")
    return _below(top, patterns, scope, own)


def _below(top: str, patterns: Patterns, scope: Scope | None, own: Path | None) -> Iterator[Place]:
    if Path(top).is_dir():
        mine = _identity(str(own)) if own is not None and own.is_dir() else None
        yield from _Walk(top, patterns, scope, mine).run()
    else:
        yield look(top)


def look(path: str) -> Found | Problem:
    """What lies at a path that is no folder."""
    try:
        return _place(path, os.stat(path))  # noqa: PTH116 - a hundred thousand times
    except OSError as error:
        return _unseen(path, error)


def _look(entry: os.DirEntry[str]) -> Found | Problem | None:
    """What lies at an entry that is no folder; None where it has gone since it was listed."""
    try:
        return _place(entry.path, entry.stat())
    except OSError as error:
        return _unseen(entry.path, error) if os.path.lexists(entry.path) else None


def _place(path: str, there: os.stat_result) -> Found | Problem:
    if stat.S_ISREG(there.st_mode):
        return Found(path, there.st_size, there.st_mtime_ns)
    return Problem(path, Status.UNSUPPORTED, f"no file but a {_special(there.st_mode)}")


def _unseen(path: str, error: OSError) -> Problem:
    if isinstance(error, FileNotFoundError):
        gone = "a link to nothing: " + _target(path) if Path(path).is_symlink() else "gone since it was listed"
        return Problem(path, Status.DAMAGED, gone)
    return Problem(path, Status.DAMAGED, f"cannot be looked at: {error.strerror}")


def _not_heeded(path: str, error: OSError | PatternInvalid) -> Problem:
    """An ignore file that hides nothing, which its owner must know."""
    reason = error.message if isinstance(error, PatternInvalid) else f"cannot be read: {error.strerror}"
    return Problem(path, Status.DAMAGED, f"not heeded as an ignore file: {reason}")


def _identity(path: str) -> tuple[int, int]:
    there = Path(path).stat()
    return there.st_dev, there.st_ino


def _target(path: str) -> str:
    try:
        return os.fsencode(Path(path).readlink()).decode("utf-8", "backslashreplace")
    except OSError as error:
        return str(error.strerror)


def _special(mode: int) -> str:
    kinds = {stat.S_IFIFO: "pipe", stat.S_IFSOCK: "socket", stat.S_IFCHR: "device", stat.S_IFBLK: "device"}
    return kinds.get(stat.S_IFMT(mode), "special file")
