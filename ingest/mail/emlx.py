"""What Apple Mail writes behind a message in an .emlx file: a property list with its state and its day of arrival."""

import re
from datetime import UTC, datetime
from typing import NamedTuple

_MOST = 1 << 20  # bytes of a property list that are looked at
_FLAGS = ((0, "seen"), (1, "deleted"), (2, "replied"), (4, "flagged"), (6, "draft"), (8, "forwarded"))
_NUMBER = re.compile(rb"<key>(flags|date-received)</key>\s*<(?:integer|real)>(\d{1,15})")


class Frame(NamedTuple):
    """The state as words, and the day of arrival as (ISO 8601, its source)."""

    flags: tuple[str, ...] = ()
    dated: tuple[tuple[str, str], ...] = ()


NONE = Frame()


def frame(tail: bytes) -> Frame:
    """The frame of a message, from what stands behind it; NONE where that is no property list."""
    found = {name: int(number) for name, number in _NUMBER.findall(tail[:_MOST])}
    bits, arrived = found.get(b"flags", 0), found.get(b"date-received", 0)
    words = tuple(word for bit, word in _FLAGS if bits >> bit & 1)
    if not 0 < arrived < 7_000_000_000:
        return Frame(words)
    return Frame(words, ((datetime.fromtimestamp(arrived, UTC).isoformat(), "Apple Mail"),))
