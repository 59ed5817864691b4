"""Who is next on the GPU while some answers decode and others still read: each side gets half of the time."""


class Pace:
    """Seconds that reading has had and decoding has not."""

    def __init__(self) -> None:
        self._owed = 0.0

    def read(self, seconds: float, decoding: bool) -> None:
        """A piece was read in so many seconds, while answers were under way or not."""
        self._owed = self._owed + seconds if decoding else 0.0

    def decoded(self, seconds: float) -> None:
        """Answers had so many seconds."""
        self._owed = max(0.0, self._owed - seconds)

    def reads(self, decoding: bool) -> bool:
        """Whether a piece may be read now."""
        return not decoding or self._owed <= 0.0
