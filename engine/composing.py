"""A context's parts: what is read and stored as one, under which name, and behind what.

*Composable*: each segment is a part that is read behind the prefix alone. Its name changes with its own tokens and the
prefix, so that its KV serves in every context that puts this prefix in front.

*Joint*: the context is read as one text. A part is read behind everything before it and its name is a chain: it changes
with any token before it, so that no KV is used behind another text than the one that it was read behind. The first part
is the same in both. Far into a text short segments are joined to parts that grow with it, because a pass over a few
tokens costs as much as fetching all before them.
"""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from unabridged.engine.attention.config import AttentionConfig
from unabridged.engine.events import Composition
from unabridged.engine.layout import filled

# A joint part has at least one token for so many before it: adding a document reads so much again at most.
_BEFORE = 32


@dataclass(frozen=True)
class Part:
    """Ids (int32) whose KV is stored under `key`. It is read behind the first `behind` parts of its context."""

    key: str
    ids: bytes
    behind: int

    @property
    def tokens(self) -> int:
        """How many ids."""
        return len(self.ids) // 4


def named(*parts: bytes) -> str:
    """A name that changes with each of these, and with where one ends and the next begins."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)
    return digest.hexdigest()


class Composer:
    """Names parts. One for an engine."""

    def __init__(self, fingerprint: str, page: int, config: AttentionConfig, selection: str) -> None:
        """`fingerprint`: of the model and the form of its KV; `config`: how parts attend; `selection`: what their
        selection depends on besides, past the window."""
        self._fingerprint, self._page = fingerprint.encode(), page
        self._below, self._selects = config.dense_below, f"{config}\n{selection}".encode()

    def parts(self, prefix: bytes, segments: Iterable[bytes], composition: Composition) -> list[Part]:
        """The parts of a context in order; the prefix, if there is one, is the first."""
        own = [segment for segment in segments if segment]
        if composition == "joint":
            own = _joined(prefix, own)
        parts = [self._part(b"", prefix, 0, 0)] if prefix else []
        name, end = prefix, self._slots(prefix)
        behind = len(parts)
        for ids in own:
            parts.append(self._part(name, ids, end, behind))
            if composition == "joint":
                name, end, behind = parts[-1].key.encode(), end + self._slots(ids), len(parts)
        return parts

    def context(self, parts: Sequence[Part]) -> str:
        """A name for these parts in this order: conversations over them start with the same KV."""
        return named(self._fingerprint, *(part.key.encode() for part in parts))

    def _part(self, name: bytes, ids: bytes, start: int, behind: int) -> Part:
        """`name`: of what stands before it, up to slot `start`."""
        # Inside the window nothing is selected.
        sparse = start + self._slots(ids) > self._below
        return Part(named(self._fingerprint, name, ids, *([self._selects] if sparse else [])), ids, behind)

    def _slots(self, ids: bytes) -> int:
        return filled(len(ids) // 4, self._page)


def _joined(prefix: bytes, segments: Iterable[bytes]) -> list[bytes]:
    """Segments one behind the other, in parts of at least one token for `_BEFORE` before them."""
    parts: list[bytes] = []
    open_: list[bytes] = []
    before, length = len(prefix), 0
    for segment in segments:
        open_.append(segment)
        length += len(segment)
        if length * _BEFORE >= before:
            parts.append(b"".join(open_))
            before, length = before + length, 0
            open_ = []
    return [*parts, b"".join(open_)] if open_ else parts
