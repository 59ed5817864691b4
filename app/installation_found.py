"""The installation as `doctor` sees it: where it came from, whether its packages fit together, who holds which lock."""

import fcntl
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import TYPE_CHECKING

from unabridged.app import verifying
from unabridged.app.bundle.errors import BundleFailed
from unabridged.app.finding import Finding

if TYPE_CHECKING:
    from unabridged.app.locations import Locations

_LOWEST = re.compile(r"(?P<name>[A-Za-z0-9._-]+)\s*(?P<bounds>[^;\[]*)")
_BOUND = re.compile(r"(>=|<)\s*([0-9.]+)")


def look(locations: "Locations") -> Iterator[Finding]:
    """Bundle, packages and locks. The files themselves are for `unabridged verify`, which reads all of them."""
    yield _bundle()
    yield _packages()
    yield from _locks(locations)


def _bundle() -> Finding:
    folder = verifying.installation()
    if folder is None:
        return Finding(check="installation", level="ok", text="not from a bundle")
    try:
        facts = verifying.facts_of(folder)
    except BundleFailed as error:
        return Finding(check="installation", level="fail", text=error.message, remedy=error.hint)
    text = f"bundle {facts.id} of commit {facts.commit[:12]}, in {folder}"
    return Finding(check="installation", level="ok", text=text)


def _packages() -> Finding:
    """Whether what we need is there in a version that we accept."""
    try:
        needed = [line for line in requires("unabridged") or [] if "extra ==" not in line]
    except PackageNotFoundError:
        return Finding(check="packages", level="ok", text="run from its sources, without metadata to compare with")
    wrong = [problem for line in needed for problem in _unmet(line)]
    if wrong:
        return Finding(check="packages", level="fail", text="; ".join(wrong), remedy="install Unabridged again")
    return Finding(check="packages", level="ok", text=f"{len(needed)} packages, each in a version that is accepted")


def _unmet(requirement: str) -> Iterator[str]:
    match = _LOWEST.match(requirement)
    assert match is not None, requirement
    try:
        found = version(match["name"])
    except PackageNotFoundError:
        yield f"{match['name']} is missing"
        return
    for sign, bound in _BOUND.findall(match["bounds"]):
        if (_numbers(found) < _numbers(bound)) == (sign == ">="):
            yield f"{match['name']} is {found}, not {sign}{bound}"


def _numbers(text: str) -> tuple[int, ...]:
    """The release of a version; what stands behind it does not matter here."""
    release = re.match(r"[0-9]+(?:\.[0-9]+)*", text)
    numbers = [int(part) for part in release[0].split(".")] if release else []
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)


def _locks(locations: "Locations") -> Iterator[Finding]:
    held: list[str] = []
    files = (locations.server_lock, *sorted(locations.data.glob("*.lock")), locations.models / ".lock")
    for file in dict.fromkeys(files):
        holder = _holder(file)
        if holder is not None:
            held.append(f"{file}{f' by process {holder}' if holder else ''}")
    text = "held: " + ", ".join(held) if held else "none is held"
    yield Finding(check="locks", level="ok", text=text)


def _holder(file: Path) -> str | None:
    """Who holds a lock file, "" where that is not known; None where nobody does."""
    with suppress(OSError):
        fd = os.open(file, os.O_RDONLY)
        try:
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            words = os.read(fd, 64).decode("ascii", "replace").split()
            return words[0] if words and words[0].isdecimal() else ""
        finally:
            os.close(fd)
    return None
