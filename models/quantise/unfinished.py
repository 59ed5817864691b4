"""Where quantising works, and what it left unfinished there. Torch-free.

Work on a folder lies in a hidden folder beside it (see `work`). Models that are to be installed are made below one
hidden folder of the models directory.
"""

import fcntl
import os
import shlex
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_BEFORE, _BEHIND = ".", ".quantising"


@dataclass(frozen=True, slots=True)
class Unfinished:
    """Work on the model `name`: where it lies, its bytes on disk, and whether a process is at it."""

    name: str
    path: Path
    size: int
    held: bool

    @property
    def remedy(self) -> str:
        """What to do about it when no process is at it."""
        return f"finish it with the same `unabridged models quantize`, or: rm -r {shlex.quote(str(self.path))}"


def folder_of(output: Path) -> Path:
    """Where unfinished work on `output` lies."""
    return output.with_name(f"{_BEFORE}{output.name}{_BEHIND}")


def to_install(models: Path, name: str) -> Path:
    """The output while a model is made that will be installed in the directory `models` under `name`."""
    return _below(models) / name


def unfinished(models: Path) -> Iterator[Unfinished]:
    """All work on models that were to be installed in the directory `models`, by name."""
    for path in sorted(_below(models).glob(f"{_BEFORE}*{_BEHIND}")):
        # It may end meanwhile.
        with suppress(FileNotFoundError):
            held = _held(path)
            yield Unfinished(path.name.removeprefix(_BEFORE).removesuffix(_BEHIND), path, _size(path), held)


def _below(models: Path) -> Path:
    return models / ".quantised"


def _held(folder: Path) -> bool:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def _size(folder: Path) -> int:
    size = 0
    for path in folder.rglob("*"):
        # A process that is at it renames and deletes.
        with suppress(FileNotFoundError):
            size += path.stat().st_size if path.is_file() else 0
    return size
