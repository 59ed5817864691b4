"""Links from the places where a system looks for commands, pages, completions and units to the version in use.

All lead through PREFIX/current, so that an upgrade does not touch them. A file of the same name that is not ours is
left alone and named. Standard library only.
"""

import os
from collections.abc import Iterator
from pathlib import Path

_UNIT = "unabridged.service"
# Where a link stands below the base (~/.local, /usr/local), and where it leads to below PREFIX/current.
_LINKS = {
    "bin/unabridged": "bin/unabridged",
    "share/man/man1/unabridged.1": "share/man/man1/unabridged.1",
    "share/bash-completion/completions/unabridged": "share/completions/unabridged.bash",
    "share/zsh/site-functions/_unabridged": "share/completions/unabridged.zsh",
    "share/fish/vendor_completions.d/unabridged.fish": "share/completions/unabridged.fish",
    "share/applications/unabridged.desktop": "share/applications/unabridged.desktop",
}


def link(prefix: Path, base: Path) -> Iterator[str]:
    """Make the links; a sentence for each that cannot be."""
    # The unit names the command by its whole path, which only this machine knows.
    template = (prefix / "current" / "share/systemd" / _UNIT).read_text("utf-8")
    unit = prefix / _UNIT
    unit.write_text(template.replace("@COMMAND@", _word(str(base / "bin/unabridged"))), "utf-8")
    for place, target in _all(prefix, base):
        if os.path.lexists(place) and not _ours(place, prefix):
            yield f"{place} is not ours and was left alone"
            continue
        place.parent.mkdir(parents=True, exist_ok=True)
        beside = place.with_name(f".{place.name}.{os.getpid()}")
        beside.symlink_to(target)
        beside.replace(place)


def unlink(prefix: Path, base: Path) -> None:
    """Remove the links that lead into the prefix."""
    for place, _ in _all(prefix, base):
        if _ours(place, prefix):
            place.unlink()
    (prefix / _UNIT).unlink(missing_ok=True)


def _all(prefix: Path, base: Path) -> Iterator[tuple[Path, Path]]:
    for place, target in _LINKS.items():
        yield base / place, prefix / "current" / target
    yield base / "share/systemd/user" / _UNIT, prefix / _UNIT


def _word(command: str) -> str:
    """A path as one word of a systemd unit."""
    for special in ("\\", '"'):
        command = command.replace(special, "\\" + special)
    command = command.replace("%", "%%")
    return f'"{command}"' if set(command) & set(" \t\\\"';") else command


def _ours(place: Path, prefix: Path) -> bool:
    return place.is_symlink() and place.readlink().is_relative_to(prefix)
