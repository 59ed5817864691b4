"""An installed version against the list of what installing gives: every difference, by name.

The list was made from the wheels when the bundle was built and is covered by its signature, so nothing that the
machine wrote is trusted. What an installation adds by itself is named here, and all else is a difference; bytecode is
never among it, since the launcher has Python keep that in the user's cache. Standard library only.
"""

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from unabridged.app.installer.manifest import sha256_of

# The environment's own file, what pip notes beside a package, and the bundle's papers, which the manifest covers
# instead of the list.
_OWN = re.compile(
    r"pyvenv\.cfg|previous"
    r"|lib/python3\.\d+/site-packages/[^/]+\.dist-info/(?:RECORD|INSTALLER|REQUESTED)"
    r"|bundle/(?:MANIFEST|MANIFEST\.sig|bundle\.json|installed\.sha256)"
)

# The interpreter's: the system has the program itself.
_LINKS = re.compile(r"bin/python[0-9.]*|lib64")
_ENVIRONMENT = "pyvenv.cfg"
# Packages of the system would be imported beside ours otherwise.
_ALONE = re.compile(r"include-system-site-packages *= *false")


@dataclass(frozen=True)
class Difference:
    """One file that is not as it was built. `path`: relative to the version's folder."""

    path: str
    reason: str


def differences(folder: Path, listed: Mapping[str, str]) -> Iterator[Difference]:
    """What differs below `folder`."""
    present = dict(_walk(folder))
    for path in sorted(listed):
        kind = present.pop(path, "")
        if kind == "file":
            yield from _content(folder / path, path, listed[path])
        else:
            yield Difference(path, f"is a {kind}, not a file" if kind else "is missing")
    for path in sorted(present):
        expected = {"file": _OWN, "link": _LINKS}.get(present[path])
        if expected is None or expected.fullmatch(path) is None:
            yield Difference(path, f"is a {present[path]} that the bundle does not have")
    yield from _environment(folder / _ENVIRONMENT)


def _environment(file: Path) -> Iterator[Difference]:
    try:
        lines = file.read_text("utf-8", errors="replace").splitlines()
    except OSError as error:
        yield Difference(_ENVIRONMENT, f"cannot be read: {error.strerror}")
        return
    said = [line for line in lines if line.startswith("include-system-site-packages")]
    if len(said) != 1 or _ALONE.fullmatch(said[0].strip()) is None:
        yield Difference(_ENVIRONMENT, "lets the system's packages in")


def _content(file: Path, path: str, expected: str) -> Iterator[Difference]:
    try:
        found = sha256_of(file)
    except OSError as error:
        yield Difference(path, f"cannot be read: {error.strerror}")
        return
    if found != expected:
        yield Difference(path, f"has sha256 {found}, not {expected}")


def _walk(folder: Path) -> Iterator[tuple[str, str]]:
    """Everything below that is no folder: its path, and "file", "link" or "special file"."""
    for parent, folders, files in os.walk(folder):
        for name in (*files, *folders):
            path = Path(parent, name)
            relative = path.relative_to(folder).as_posix()
            if path.is_symlink():
                yield relative, "link"
            elif path.is_file():
                yield relative, "file"
            elif not path.is_dir():
                yield relative, "special file"
