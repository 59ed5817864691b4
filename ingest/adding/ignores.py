"""What a walk leaves out, and by which rule: patterns of the caller, ignore files, hidden names. Opens no other file.

Patterns have gitignore's syntax. Ignore files nest as git's do: the innermost that says anything about a path decides,
and `.unabridgedignore` decides over a `.gitignore` beside it. A rule is named by words that people can look up:
"hidden", "--exclude old/", "letters/.unabridgedignore: *.log".
"""

import os
import stat
from dataclasses import dataclass

import msgspec
from pathspec import GitIgnoreSpec

from unabridged.ingest.adding.leftovers import LEFTOVER, is_leftover
from unabridged.ingest.errors import PatternInvalid
from unabridged.ingest.opening import open_at_once

IGNORE_FILE = ".unabridgedignore"
GIT_IGNORE_FILE = ".gitignore"
HIDDEN = "hidden"
NOT_INCLUDED = "no --include pattern fits"
_MOST_BYTES = 1 << 20


class Rules(msgspec.Struct, frozen=True):
    """What a walk leaves out. `include`, `exclude`: patterns relative to the named folder."""

    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    hidden: bool = False  # names that begin with a dot are walked too
    gitignore: bool = False  # .gitignore files hold too


class Patterns:
    """The rules that hold in the whole of one walk. Raises PatternInvalid."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self._include = _spec("--include", rules.include)
        self._exclude = _spec("--exclude", rules.exclude)

    def leave_out(self, name: str, relative: str, is_folder: bool) -> str:
        """The rule that leaves an entry of this name out; "" for none. `relative`: its path below the named folder,
        with a slash behind a folder's."""
        if name.startswith(".") and not self.rules.hidden:
            return HIDDEN
        if not is_folder and is_leftover(name):
            return LEFTOVER
        if self._exclude is not None:
            said = self._exclude.check_file(relative)
            if said.include and said.index is not None:
                return f"--exclude {self.rules.exclude[said.index]}"
        if self._include is not None and not is_folder and not self._include.match_file(relative):
            return NOT_INCLUDED
        return ""


def check(rules: Rules) -> None:
    """Raises PatternInvalid where a pattern has no meaning."""
    Patterns(rules)


@dataclass(frozen=True)
class _IgnoreFile:
    """The patterns of one ignore file."""

    folder: str  # that they are relative to
    name: str  # below the named folder
    lines: tuple[str, ...]
    spec: GitIgnoreSpec

    def says(self, path: str, is_folder: bool) -> tuple[bool, str] | None:
        """Whether the path is ignored, and by which line; None where no line fits."""
        said = self.spec.check_file(below(path, self.folder) + ("/" if is_folder else ""))
        if said.include is None or said.index is None:
            return None
        return said.include, f"{self.name}: {self.lines[said.index].strip()}"


@dataclass(frozen=True)
class Ignores:
    """The ignore files that hold in a folder, outermost first."""

    files: tuple[_IgnoreFile, ...] = ()

    def within(self, folder: str, top: str, name: str) -> "Ignores":
        """These and the folder's own of that name. Raises OSError where it cannot be read and PatternInvalid where a
        line has no meaning."""
        return Ignores((*self.files, _read(folder, top, name)))

    def leave_out(self, path: str, is_folder: bool) -> str:
        """The rule that leaves the path out; "" for none."""
        for file in reversed(self.files):
            said = file.says(path, is_folder)
            if said is not None:
                return said[1] if said[0] else ""
        return ""


def ignore_files(rules: Rules) -> tuple[str, ...]:
    """Names of ignore files, the weakest first."""
    return (GIT_IGNORE_FILE, IGNORE_FILE) if rules.gitignore else (IGNORE_FILE,)


def below(path: str, folder: str) -> str:
    """The path relative to a folder that it lies in."""
    return path[len(folder.rstrip("/")) + 1 :]


def count_files(folder: str) -> int:
    """How many entries that are no folders lie below a folder that is left out. Links are not followed."""
    total, stack = 0, [folder]
    while stack:
        try:
            with os.scandir(stack.pop()) as scan:
                for entry in scan:
                    if entry.is_dir(follow_symlinks=False):
                        stack.append(entry.path)
                    elif not is_folder(entry):
                        total += 1
        except OSError:  # what may not be listed cannot be counted, and it is left out anyway
            continue
    return total


def is_folder(entry: os.DirEntry[str]) -> bool:
    """Whether an entry is a folder, or a link to one."""
    try:
        return entry.is_dir()
    except OSError:
        return False


def _read(folder: str, top: str, name: str) -> _IgnoreFile:
    path = os.path.join(folder, name)  # noqa: PTH118 - bytes that are no UTF-8 stay as they are
    shown = below(path, top)
    with open_at_once(path) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(0, "not a regular file")
        data = file.read(_MOST_BYTES + 1)
    if len(data) > _MOST_BYTES:
        raise PatternInvalid(f"{shown} has more than {_MOST_BYTES:,} bytes", "an ignore file is a list of patterns")
    lines = tuple(data.decode("utf-8-sig", "surrogateescape").splitlines())
    return _IgnoreFile(folder, shown, lines, _compiled(shown, lines))


def _spec(option: str, patterns: tuple[str, ...]) -> GitIgnoreSpec | None:
    return _compiled(option, patterns) if patterns else None


def _compiled(source: str, lines: tuple[str, ...]) -> GitIgnoreSpec:
    try:
        return GitIgnoreSpec.from_lines(lines)
    except ValueError:
        bad = next(line for line in lines if not _valid(line))
        raise PatternInvalid(
            f"{source}: {bad.strip()!r} is no pattern", "patterns are written as in .gitignore; a \\ before ! or #"
        ) from None


def _valid(line: str) -> bool:
    try:
        GitIgnoreSpec.from_lines([line])
    except ValueError:
        return False
    return True
