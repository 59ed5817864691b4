"""How far the reading of one file is, from the steps that it gives: for the progress of files that take long."""

import time
from collections.abc import Iterator
from dataclasses import dataclass

from unabridged.ingest.adding.fetch import Announced, Step
from unabridged.ingest.adding.walk import Found
from unabridged.ingest.document import Opened, Page

_SECONDS = 0.2


@dataclass(frozen=True)
class Partway:
    """Pages so far, and the share of the file that is read; 0 where that is not known."""

    pages: int
    share: float


class Position:
    """Follows the steps of one file."""

    def __init__(self, found: Found) -> None:
        self._size = found.size
        self._pages = 0
        self._own = 0
        self._announced = 0
        self._offset = 0
        self._said = time.monotonic()

    def follow(self, step: Step) -> Iterator[Partway]:
        """Takes note of a step, and says now and then how far the file is."""
        if isinstance(step, Page):
            self._pages += 1
            self._own += step.ref == 0
        elif isinstance(step, Announced):
            self._announced = step.pages
        elif isinstance(step, Opened) and step.parent == 0 and step.meta.get("offset", "").isdecimal():
            self._offset = int(step.meta["offset"])  # of a message in its mailbox
        if time.monotonic() - self._said > _SECONDS:
            self._said = time.monotonic()
            yield Partway(self._pages, self._share())

    def _share(self) -> float:
        if self._announced:
            return min(1.0, self._own / self._announced)
        return min(1.0, self._offset / self._size) if self._size else 0.0
