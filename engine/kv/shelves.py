"""Shelves: named lists of stored KV, one for a collection and model, and which of them are pinned.

A shelf says which keys belong to a name; reading ahead writes it before it begins, so that what comes is kept as well.
A name is pinned, not a file: what a pinned name's shelves list never leaves the store by itself. Shelves of another
version of the engine pin nothing: their KV cannot be used any more. Small files, replaced whole. Torch-free.
"""

import contextlib
import hashlib
import os
from collections.abc import Iterable
from pathlib import Path

import msgspec

from unabridged import __version__

_SHELF = ".shelf"
_PIN = ".pin"


class Shelf(msgspec.Struct, frozen=True, kw_only=True):
    """`name`: a collection's; `model`: what read it, for people; `fingerprint`: what its KV depends on; `tokens`: of
    each key's KV. Raises ValueError where these are not as many as keys."""

    name: str
    model: str
    fingerprint: str
    keys: tuple[str, ...]
    tokens: tuple[int, ...]
    version: str = __version__

    def __post_init__(self) -> None:
        if len(self.keys) != len(self.tokens):
            raise ValueError(f"{len(self.keys)} keys, tokens of {len(self.tokens)}")


class Shelves:
    """The shelves of one folder. Any process may write them; the last one counts. Raises OSError."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def put(self, shelf: Shelf) -> None:
        """Replace the shelf of this name and fingerprint."""
        _replace(self._path(shelf), msgspec.json.encode(shelf))

    def all(self) -> list[Shelf]:
        """Every shelf, by name. One that cannot be read is left out: it pins nothing and can be written anew."""
        found = []
        for path in self._folder.glob(f"*{_SHELF}"):
            with contextlib.suppress(msgspec.MsgspecError, FileNotFoundError, IsADirectoryError):
                found.append(msgspec.json.decode(path.read_bytes(), type=Shelf))
        return sorted(found, key=lambda shelf: (shelf.name, shelf.model, shelf.fingerprint))

    def get(self, name: str, fingerprint: str) -> Shelf | None:
        """The shelf of this name and fingerprint."""
        return next((one for one in self.all() if (one.name, one.fingerprint) == (name, fingerprint)), None)

    def remove(self, shelf: Shelf) -> None:
        """Forget a shelf; its files stay."""
        self._path(shelf).unlink(missing_ok=True)

    def pin(self, name: str) -> None:
        """Keep what the shelves of this name list, now and later."""
        _replace(self._folder / f"{_hashed(name)}{_PIN}", name.encode())

    def unpin(self, name: str) -> bool:
        """The opposite. Whether it was pinned."""
        path = self._folder / f"{_hashed(name)}{_PIN}"
        there = path.exists()
        path.unlink(missing_ok=True)
        return there

    def pinned(self) -> set[str]:
        """The names that are pinned."""
        names = set()
        for path in self._folder.glob(f"*{_PIN}"):
            with contextlib.suppress(FileNotFoundError, IsADirectoryError):
                names.add(path.read_bytes().decode(errors="replace"))
        return names

    def pinned_keys(self) -> set[str]:
        """The keys that pinned names list."""
        names = self.pinned()
        if not names:
            return set()
        return listed(shelf for shelf in self.all() if shelf.name in names and usable(shelf))

    def _path(self, shelf: Shelf) -> Path:
        return self._folder / f"{_hashed(shelf.name)}-{shelf.fingerprint[:16]}{_SHELF}"


def listed(shelves: Iterable[Shelf]) -> set[str]:
    """The keys that these list."""
    return {key for shelf in shelves for key in shelf.keys}


def usable(shelf: Shelf) -> bool:
    """Whether this version of the engine may use what it lists."""
    return release(shelf.version) == release(__version__)


def release(version: str) -> str:
    """The part of a version that stored KV depends on."""
    return ".".join(version.split(".")[:2])


def _hashed(name: str) -> str:
    return hashlib.sha256(name.encode(errors="surrogateescape")).hexdigest()[:24]


def _replace(path: Path, content: bytes) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
