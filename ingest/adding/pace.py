"""How long an addition still takes, from bytes and files that are done with. Knows no clock but the one it is given."""

from collections import deque
from collections.abc import Callable
from time import monotonic

_FILE_BYTES = 20_000  # what a file costs whatever its size, in bytes of text
_WINDOW_SECONDS = 30.0
_LEAST_SECONDS = 2.0


class Pace:
    """The work of an addition: `files` of `size` bytes together."""

    def __init__(self, files: int, size: int, clock: Callable[[], float] = monotonic) -> None:
        self.bytes_total = size
        self.bytes_done = 0
        self._total = size + files * _FILE_BYTES
        self._done = 0
        self._clock = clock
        self._samples = deque([(clock(), 0.0)])

    def file(self, size: int) -> None:
        """A file is done with."""
        self.bytes_done += size
        self._done += size + _FILE_BYTES

    def seconds_left(self, part: int = 0) -> float | None:
        """Seconds at the pace of the last half minute, with `part` bytes of the current file read; None while that is
        too short to say."""
        now, done = self._clock(), self._done + part
        if now - self._samples[-1][0] > 0.2:
            self._samples.append((now, done))
        while len(self._samples) > 2 and now - self._samples[1][0] > _WINDOW_SECONDS:
            self._samples.popleft()
        began, before = self._samples[0]
        if now - began < _LEAST_SECONDS or done <= before:
            return None
        return max(0.0, (self._total - done) * (now - began) / (done - before))
