"""Follows folders: says which of their paths have changed, when they have come to rest, so that they can be looked at.

    watch = Watch(find, stop, own=data_folder)
    for batch in watch.batches(): ...           # Batch | Notice; `watch.again(batch)` where it could not be dealt with

The kernel tells of changes (watchfiles); on network disks, and where the kernel's watches are used up, everything is
looked at every `every` seconds instead, which costs seconds for a hundred thousand files. A path is said once nothing
has happened to it for `settle` seconds. Now and then everything is looked at anyway, in case something was not told.
Reads no file and knows no library.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import NamedTuple

from unabridged.ingest.adding.ignores import GIT_IGNORE_FILE, IGNORE_FILE, Rules
from unabridged.ingest.adding.mounts import untold
from unabridged.ingest.adding.notifier import Notifier, WatchesUsedUp
from unabridged.ingest.paths import lies_in

_NEVER = float("-inf")
_STEP_SECONDS = 0.25
_FOLDERS_SECONDS = 5.0
_MOST_PATHS = 2_000  # of one batch; beyond, the whole folder is looked at


class Folder(NamedTuple):
    """A folder of a collection, and what is left out of it."""

    collection: str
    path: str  # on the disk
    rules: Rules


class Batch(NamedTuple):
    """What is to be looked at of a folder: these paths; None: all of it."""

    collection: str
    folder: str
    only: frozenset[str] | None


class Notice(NamedTuple):
    """Something that people should know of the watch."""

    text: str


@dataclass(frozen=True)
class Pauses:
    """Seconds: until a path has come to rest, between two looks where changes are not told, and where they are, and
    until what could not be dealt with is said again."""

    settle: float = 2.0
    every: float = 60.0
    sweep: float = 900.0
    again: float = 5.0


class Watch:
    """One watch. `find` says which folders are followed and is asked now and then; `own` is never looked at."""

    def __init__(self, find: Callable[[], Sequence[Folder]], stop: Event, own: Path, pauses: Pauses | None = None):
        self._find = find
        self._stop = stop
        self._own = f"{own}/"
        self._pauses = pauses or Pauses()
        self._folders: list[Folder] = []
        self._present: dict[str, tuple[int, int]] = {}
        self._looked: dict[tuple[str, str], float] = {}  # when all of a collection's folder was looked at last
        self._pending: dict[str, float] = {}  # when something happened to a path last
        self._notifier = Notifier()
        self._told: set[str] = set()
        self._began = False

    def batches(self) -> Iterator[Batch | Notice]:
        """Ends when `stop` is set."""
        asked = 0.0
        with closing(self._notifier):
            while not self._stop.is_set():
                if time.monotonic() - asked >= _FOLDERS_SECONDS or not asked:
                    asked = time.monotonic()
                    yield from self._refresh()
                self._note(self._notifier.changes(_STEP_SECONDS, self._stop))
                yield from self._due()

    def again(self, batch: Batch) -> None:
        """The batch is said once more, after a while."""
        paths = batch.only or {batch.folder}
        self._pending.update(dict.fromkeys(paths, time.monotonic() + self._pauses.again))

    def _refresh(self) -> Iterator[Notice]:
        """Follows what is to be followed now: folders come, go, and come back."""
        self._folders = list(self._find())
        before, self._present = self._present, {}
        for path in dict.fromkeys(folder.path for folder in self._folders):
            if (identity := _identity(path)) is None:
                yield from self._say(f"{path} is gone: it is followed again when it is back")
            else:
                self._present[path] = identity
                self._told.discard(f"{path} is gone: it is followed again when it is back")
        for folder in self._folders:
            key = (folder.collection, folder.path)
            if key not in self._looked or before.get(folder.path) != self._present.get(folder.path):
                # At the beginning it has just been looked at.
                self._looked[key] = _NEVER if self._began else time.monotonic()
        self._began = True
        if self._present != before:
            yield from self._follow()

    def _follow(self) -> Iterator[Notice]:
        told = []
        for path in self._present:
            if kind := untold(Path(path)):
                yield from self._say(f"{path} lies on {kind}: it is looked at every {self._pauses.every:g} seconds")
            else:
                told.append(path)
        try:
            self._notifier.follow(told)
        except WatchesUsedUp as error:
            yield from self._say(f"{error}: folders are looked at every {self._pauses.every:g} seconds")

    def _say(self, text: str) -> Iterator[Notice]:
        if text not in self._told:
            self._told.add(text)
            yield Notice(text)

    def _note(self, paths: set[str]) -> None:
        now = time.monotonic()
        for path in paths:
            if path.startswith(self._own):
                continue
            folders = [folder for folder in self._folders if lies_in(path, folder.path)]
            if path.rpartition("/")[2] in (IGNORE_FILE, GIT_IGNORE_FILE):
                self._looked.update({(folder.collection, folder.path): _NEVER for folder in folders})
            elif any(not _hidden(path, folder) for folder in folders):
                self._pending[path] = now

    def _due(self) -> Iterator[Batch]:
        """What has come to rest. What is said is forgotten before, since whoever is told may ask for it `again`."""
        now = time.monotonic()
        still = {path for path, at in self._pending.items() if now - at >= self._pauses.settle}
        for path in still:
            del self._pending[path]
        for folder in self._folders:
            if folder.path not in self._present:
                continue
            pause = self._pauses.sweep if folder.path in self._notifier.followed else self._pauses.every
            mine = {path for path in still if lies_in(path, folder.path)}
            if now - self._looked[folder.collection, folder.path] >= pause or len(mine) > _MOST_PATHS:
                self._looked[folder.collection, folder.path] = now
                yield Batch(folder.collection, folder.path, None)
            elif mine:
                yield Batch(folder.collection, folder.path, _tops(mine))


def _identity(path: str) -> tuple[int, int] | None:
    try:
        there = Path(path).stat()
    except OSError:
        return None
    return there.st_dev, there.st_ino


def _hidden(path: str, folder: Folder) -> bool:
    names = path[len(folder.path) :].split("/")
    return not folder.rules.hidden and any(name.startswith(".") for name in names)


def _tops(paths: set[str]) -> frozenset[str]:
    """Without what lies below another of them."""
    return frozenset(path for path in paths if not any(str(parent) in paths for parent in Path(path).parents))
