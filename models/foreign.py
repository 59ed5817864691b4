"""Typed access to what others wrote: config.json and GGUF metadata, with errors that name the key. Torch-free."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from unabridged.models.errors import ModelDamaged


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
            raise ModelDamaged(f"{self.where}: {key} is {value!r}, not a whole number")
        return value

    def number(self, key: str, default: float | None = None) -> float:
        """A number. Raises ModelDamaged."""
        value = self._needed(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ModelDamaged(f"{self.where}: {key} is {value!r}, not a number")
        return float(value)

    def maybe(self, key: str) -> float | None:
        """A number above 0, or None where there is none. Raises ModelDamaged."""
        return None if self.get(key) is None else self.number(key) or None

    def _needed(self, key: str, default: float | None) -> Any:
        value = self.get(key)
        if value is None:
            value = default
        if value is None:
            raise ModelDamaged(f"{self.where} lacks {key}", "copy the checkpoint's own file again")
        return value


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
