"""Paths as text: how they are stored, ordered and matched. Touches no file, but to find one of an odd name."""

import os
import re
from collections.abc import Sequence
from fnmatch import translate
from pathlib import Path

_GLOB = re.compile(r"[*?\[]")
_ESCAPED = re.compile(r"\\x([89a-f][0-9a-f])")
_DIGITS = re.compile(r"(\d+)")


def shown(path: str | Path) -> str:
    """The absolute path as text that any database and terminal takes: bytes that are not UTF-8 become `\\xNN`."""
    return stored(os.path.abspath(path))  # noqa: PTH100 - links stay as named


def stored(path: str) -> str:
    """As `shown`, for a path that is absolute already."""
    return path if path.isascii() else os.fsencode(path).decode("utf-8", "backslashreplace")


def on_disk(path: str) -> str:
    """The path of the disk that a stored one stands for: one of the two that `\\xNN` in it may mean."""
    if _ESCAPED.search(path) and not os.path.lexists(path):
        return _ESCAPED.sub(lambda found: os.fsdecode(bytes([int(found[1], 16)])), path)
    return path


def lies_in(path: str, folder: str) -> bool:
    """Whether an absolute path is a folder, or lies in it, by its text."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def expanded(path: str | Path) -> Path:
    """The path with its "~" or "~name" at the beginning replaced by that home folder. What names no user is a name as
    any other: "~$lease.docx" is what Word leaves beside a document."""
    return Path(os.path.expanduser(path))  # noqa: PTH111 - Path.expanduser raises for a name of no user


def natural(path: str) -> tuple[tuple[tuple[int, int, str], ...], str]:
    """A sort key: page2 before page10, case only as the last resort, a folder's files together."""
    pieces = (piece for part in path.casefold().split("/") for piece in (*_DIGITS.split(part), "/"))
    return tuple(_piece(piece) for piece in pieces if piece), path


def _piece(piece: str) -> tuple[int, int, str]:
    if piece == "/":
        return (0, 0, "")
    return (1, int(piece), "") if piece.isdecimal() and len(piece) < 4000 else (2, 0, piece)


class Patterns:
    """Any of several patterns: a glob where it has *, ? or [, otherwise a part of the path. Case does not count.

    A glob without a slash in front matches the end of a path from any slash on: "*.pdf", "letters/*".
    """

    def __init__(self, patterns: Sequence[str]) -> None:
        self._parts = [pattern.casefold() for pattern in patterns if not _GLOB.search(pattern)]
        # A path may hold brackets itself: as a substring every pattern counts too.
        self._parts += [pattern.casefold() for pattern in patterns if "[" in pattern and not set(pattern) & {"*", "?"}]
        self._globs = [_glob(pattern.casefold()) for pattern in patterns if _GLOB.search(pattern)]

    def match(self, path: str) -> bool:
        """Whether one of the patterns fits `path`."""
        folded = path.casefold()
        return any(part in folded for part in self._parts) or any(glob.fullmatch(folded) for glob in self._globs)


def _glob(pattern: str) -> re.Pattern[str]:
    return re.compile(translate(pattern if pattern.startswith("/") else f"*/{pattern}"))
