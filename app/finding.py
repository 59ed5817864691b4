"""What `doctor` says of one thing that it looked at. No I/O."""

from typing import Literal

import msgspec

Level = Literal["ok", "warn", "fail"]


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that was looked at; `remedy` says what to do about it, or is empty."""

    check: str
    level: Level
    text: str
    remedy: str = ""
