"""What all archives share: their files become children, each read in its own bounds, or refused with a reason.

A file of the archive on the disk has an allowance of its own, like a message of a mailbox; what archives within it hold
counts against that one, so that nesting multiplies nothing.
"""

from collections.abc import Callable, Iterator

from unabridged.ingest.document import Closed, Item, Kind, Opened, Status
from unabridged.ingest.reading import Place, Reading, Source

_TOTAL = 4 << 30  # bytes that any archive may unpack to
_RATIO = 20  # and how many times its own size a larger one may
_SYSTEM = ("__MACOSX/", ".DS_Store", "Thumbs.db", "desktop.ini")


class Refused(Exception):
    """A file of an archive that is not read."""

    def __init__(self, status: Status, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


class Container:
    """One archive that is being read. `damage` is filled by its reader."""

    def __init__(self, source: Source, reading: Reading, place: Place) -> None:
        self._source = source
        self._reading = reading
        self._place = place
        self._ref = reading.ref()
        self._outer = place.parent is None
        self._skip = reading.skip if self._outer else 0
        self._left = max(_TOTAL, _RATIO * source.size)
        self._seen = self._locked = 0
        self.damage: list[str] = []

    def open(self, meta: dict[str, str] | None = None) -> Item:
        """The archive itself."""
        small = self._source.size <= self._reading.limits.file_bytes
        return Opened(
            ref=self._ref,
            parent=self._place.parent,
            name=self._source.name,
            kind=Kind.ARCHIVE,
            meta={**self._place.meta, **(meta or {})},
            sha256=self._source.sha256 if small else "",
            size=self._source.size,
        )

    def member(self, name: str, size: int, load: Callable[[int], bytes]) -> Iterator[Item]:
        """A file in it, of `size` bytes as claimed; `load(limit)` unpacks it or raises Refused."""
        if own_to_system(name):
            return
        self._seen += 1
        if self._seen <= self._skip:
            return
        if self._outer:
            self._reading.fresh()
            self._reading.coming(name)
        try:
            data = load(self._allow(size))
            self._left -= len(data)
        except Refused as refused:
            self._locked += refused.status is Status.NEEDS_PASSWORD
            ref = self._reading.ref()
            yield Opened(ref=ref, parent=self._ref, name=name, kind=Kind.OTHER, size=size)
            yield Closed(ref=ref, status=refused.status, reason=refused.reason)
            return
        where = Place(parent=self._ref, depth=self._place.depth + 1)
        yield from self._reading.child(Source(name, data), self._reading, where)

    def close(self) -> Item:
        """The end of the archive."""
        reason = "; ".join(self.damage)
        if not self._seen:
            return Closed(ref=self._ref, status=Status.NO_TEXT, reason=reason or "an archive without files")
        if self._locked and self._locked == self._seen:
            return Closed(ref=self._ref, status=Status.NEEDS_PASSWORD, reason="its files are encrypted")
        return Closed(ref=self._ref, status=Status.PARTIAL if reason else Status.READ, reason=reason)

    def _allow(self, size: int) -> int:
        """How many bytes the next file may have. Raises Refused."""
        limits = self._reading.limits
        most = limits.message_bytes if self._outer else limits.attachment_bytes
        if size > most:
            raise Refused(Status.TOO_LARGE, f"{size >> 20:,} MB: more than {most >> 20:,} MB within an archive")
        if size > self._left:
            raise Refused(Status.TOO_LARGE, "not unpacked: the archive unpacks to far more than its own size")
        # Files of the outer archive do not count as parts of each other.
        why = self._reading.refuses(0 if self._outer else size, self._place.depth + 1)
        if why:
            raise Refused(Status.TOO_LARGE, f"not read: {why}")
        return min(most, self._left)


def own_to_system(name: str) -> bool:
    """A file that an operating system keeps for itself beside the user's."""
    return name.startswith(_SYSTEM[0]) or name.rpartition("/")[2] in _SYSTEM[1:]
