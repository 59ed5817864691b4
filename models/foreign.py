"""Typed access to what others wrote: config.json and GGUF metadata, with errors that name the key. Torch-free."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from unabridged.models.errors import ModelDamaged

_COPY = "copy the checkpoint's own file again"


@dataclass(frozen=True, slots=True)
class Reader:
    """`where` is what errors call the mapping; `other` the words that this file may use instead of a key."""

    where: str
    raw: Mapping[str, Any]
    other: Mapping[str, str] = field(default_factory=dict)

    def get(self, key: str) -> Any:
        """The value, or None."""
        value = self.raw.get(self.other[key]) if key in self.other else None
        return self.raw.get(key) if value is None else value

    def whole(self, key: str, default: int | None = None) -> int:
        """A whole number. Raises ModelDamaged."""
        value = self._needed(key, default)
        if isinstance(value, bool) or not isinstance(value, int):
            raise ModelDamaged(f"{self.where}: {key} is {shown(value)}, not a whole number", _COPY)
        return value

    def size(self, key: str, default: int | None = None) -> int:
        """A whole number above 0. Raises ModelDamaged."""
        value = self.whole(key, default)
        if value < 1:
            raise ModelDamaged(f"{self.where}: {key} is {value}, not above 0", _COPY)
        return value

    def number(self, key: str, default: float | None = None) -> float:
        """A finite number. Raises ModelDamaged."""
        value = self._needed(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not _is_finite(value):
            raise ModelDamaged(f"{self.where}: {key} is {shown(value)}, not a number", _COPY)
        return float(value)

    def positive(self, key: str, default: float | None = None) -> float:
        """A finite number above 0. Raises ModelDamaged."""
        value = self.number(key, default)
        if value <= 0:
            raise ModelDamaged(f"{self.where}: {key} is {value:g}, not above 0", _COPY)
        return value

    def inner(self, key: str) -> "Reader | None":
        """The object under this key, None where there is none or an empty one. Raises ModelDamaged."""
        value = self.get(key)
        if not value:
            return None
        if not isinstance(value, Mapping):
            raise ModelDamaged(f"{self.where}: {key} is {shown(value)}, not an object", _COPY)
        return Reader(f"{self.where} {key}", value)

    def maybe(self, key: str) -> float | None:
        """A number above 0, or None where there is none or 0. Raises ModelDamaged."""
        return None if self.get(key) in (None, 0) else self.positive(key)

    def _needed(self, key: str, default: float | None) -> Any:
        value = self.get(key)
        if value is None:
            value = default
        if value is None:
            raise ModelDamaged(f"{self.where} lacks {key}", _COPY)
        return value


def _is_finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:
        # A whole number past every float.
        return False


def shown(value: Any) -> str:
    """A value in an error, cut where it is long."""
    text = repr(value)
    return text if len(text) <= 40 else text[:40] + "..."


def token_ids(value: Any) -> tuple[int, ...]:
    """A token id, a list of them or nothing, as a tuple. Raises ModelDamaged."""
    if value is None:
        return ()
    values = value if isinstance(value, list) else [value]
    if not all(isinstance(one, int) for one in values):
        raise ModelDamaged(f"token id {value!r} is not a whole number")
    return tuple(values)


def first_id(value: Any) -> int | None:
    """The only or first of them."""
    ids = token_ids(value)
    return ids[0] if ids else None


def merged_ids(*values: Any) -> tuple[int, ...]:
    """All of them, ascending, each once."""
    return tuple(sorted({one for value in values for one in token_ids(value)}))
