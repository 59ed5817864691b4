"""What a check of the library says. No I/O."""

from typing import Literal, NamedTuple


class Finding(NamedTuple):
    """Something that is not as it should be. "damaged": the library holds what it should not; "stale": the disk, or the
    program, has moved on since."""

    grade: Literal["damaged", "stale"]
    text: str
    hint: str = ""
    path: str = ""  # of the file it is about


class Checked(NamedTuple):
    """How far a check is: `done` of `total`, 0 of 0 where that is not counted."""

    part: str
    done: int = 0
    total: int = 0
