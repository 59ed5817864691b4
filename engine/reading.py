"""Bringing a context's KV into the pool: what is there, what the disk has, what must be read.

A segment is prefilled behind the prefix alone, so its KV serves every context that puts the same prefix in front.
Segments are read several to a forward pass when they are short. Everything finished stays when reading is cancelled; a
segment cut in the middle goes on from there next time.
"""

import hashlib
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import torch

from unabridged.engine.attention.attend import ContextAttention, Packed, Shape
from unabridged.engine.attention.config import AttentionConfig
from unabridged.engine.attention.rope import Rotary
from unabridged.engine.errors import StoreError
from unabridged.engine.events import Progress
from unabridged.engine.kv.cache import Entry, KvCache
from unabridged.engine.kv.pool import KvPool
from unabridged.engine.kv.store import KvStore
from unabridged.engine.kv.tables import Context
from unabridged.models.llama import Llama


def segment_key(fingerprint: str, prefix: bytes, segment: bytes) -> str:
    """The name of a segment's KV: it changes with the model, the KV format, the prefix and the tokens."""
    digest = hashlib.sha256()
    for part in (fingerprint.encode(), prefix, segment):
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)
    return digest.hexdigest()


@dataclass
class Held:
    """The KV of one request's prefix and segments."""

    holds: list[Entry] = field(default_factory=list)  # each entry once; the owner releases them
    order: list[Entry] = field(default_factory=list)  # as they stand in the context, once they are all there
    cached: int = 0  # tokens that were in the pool or on the disk
    notes: list[str] = field(default_factory=list)

    @property
    def tokens(self) -> int:
        """Tokens of prefix and segments."""
        return sum(len(entry.ids) for entry in self.order)


@dataclass
class _Reading:
    """A segment on its way into the pool."""

    entry: Entry
    ids: "array[int]"
    attention: ContextAttention | None = None

    @property
    def left(self) -> int:
        return len(self.ids) - len(self.entry.ids)


class Reader:
    """Fills the pool for requests. The generators may be closed at any step and may take turns."""

    def __init__(
        self,
        model: Llama,
        rotary: Rotary,
        shape: Shape,
        cache: KvCache[KvPool],
        store: KvStore | None,
        config: AttentionConfig,
        fingerprint: str,
        chunk: int,
    ) -> None:
        """`config`: how a segment longer than the window attends to itself; `chunk`: tokens of a forward pass."""
        self._model, self._rotary, self._shape = model, rotary, shape
        self._cache, self._store = cache, store
        self._config, self._fingerprint, self._chunk = config, fingerprint, chunk

    def context_key(self, prefix: bytes, segments: Sequence[bytes]) -> str:
        """A name for prefix and segments in this order: conversations over them start with the same KV."""
        return segment_key(self._fingerprint, prefix, b"".join(self._keys(prefix, segments)))

    def hold(
        self, request: str, prefix: bytes, segments: Sequence[bytes], held: Held, more: int = 0
    ) -> Iterator[Progress | None]:
        """Bring prefix and segments into the pool and add their entries to `held`, whose owner releases them.

        All slots are taken before anything is read, and `more` besides is seen to: raises OutOfMemory at once.
        """
        named = self._named(prefix, segments)
        there = {key: entry for key in named if (entry := self._cache.hold(key))}
        held.holds += there.values()
        for key in named.keys() - there.keys():
            held.holds.append(self._cache.add(key, len(named[key]) // 4))
        order = list(named)
        held.holds.sort(key=lambda entry: order.index(entry.key))
        self._cache.make_room(more)
        waiting = [_Reading(entry, array("i", named[entry.key])) for entry in held.holds]
        yield from self._restore(request, waiting, held)
        held.cached = sum(len(entry.ids) for entry in held.holds)
        yield from self._read(request, waiting, held, behind=waiting[0].entry if prefix else None)
        entries = {entry.key: entry for entry in held.holds}
        held.order = [entries[key.decode()] for key in self._keys(prefix, segments)]

    def _keys(self, prefix: bytes, segments: Sequence[bytes]) -> list[bytes]:
        keys = [segment_key(self._fingerprint, b"", prefix)] if prefix else []
        keys += [segment_key(self._fingerprint, prefix, one) for one in segments if one]
        return [key.encode() for key in keys]

    def _named(self, prefix: bytes, segments: Sequence[bytes]) -> dict[str, bytes]:
        runs = [run for run in (prefix, *segments) if run]
        return {key.decode(): run for key, run in zip(self._keys(prefix, segments), runs, strict=True)}

    def _restore(self, request: str, waiting: Sequence[_Reading], held: Held) -> Iterator[Progress | None]:
        if self._store is None:
            return
        stored = [one for one in waiting if not one.entry.ids and self._store.has(one.entry.key)]
        done, total = 0, sum(len(one.ids) for one in stored)
        for one in stored:
            try:
                self._store.load(one.entry.key, self._cache.pool, one.entry.runs)
                one.entry.ids = one.ids[:]
            except StoreError as error:
                held.notes.append(f"{error.message}: read again")
            done += len(one.ids)
            yield Progress(id=request, phase="restore", done=done, total=total)

    def _read(
        self, request: str, waiting: Sequence[_Reading], held: Held, behind: Entry | None
    ) -> Iterator[Progress | None]:
        done, total = 0, sum(one.left for one in waiting)
        if total:
            yield Progress(id=request, phase="read", done=0, total=total)
        for group in (
            [one for one in waiting if one.entry is behind],
            [one for one in waiting if one.entry is not behind],
        ):
            while pending := [one for one in group if one.left]:
                done += self._step(pending, behind, held)
                yield Progress(id=request, phase="read", done=done, total=total)

    @torch.inference_mode()
    def _step(self, pending: Sequence[_Reading], behind: Entry | None, held: Held) -> int:
        """One forward pass over as many of the pending tokens as a chunk takes."""
        parts: list[tuple[_Reading, int]] = []
        room = self._chunk
        for one in pending:
            tokens = self._attention(one, behind).fits(min(room, one.left))
            parts.append((one, tokens))
            room -= tokens
            if room <= 0 or tokens < one.left:
                break
        ids = [token for one, tokens in parts for token in one.ids[len(one.entry.ids) :][:tokens]]
        packed = Packed([(self._attention(one, behind), tokens) for one, tokens in parts])
        self._model.forward(torch.tensor(ids), packed)
        packed.end()
        for one, tokens in parts:
            self._advance(one, tokens, held)
        return len(ids)

    def _attention(self, one: _Reading, behind: Entry | None) -> ContextAttention:
        before = [] if behind is None or one.entry is behind else behind.filled()
        length = sum(run.length for run in before) + len(one.entry.ids)
        # Another request may have read on in the same entry since the last step.
        if one.attention is None or one.attention.context.length != length:
            context = Context(self._cache.pool, before, one.entry.runs)
            context.length = length
            one.attention = ContextAttention(context, self._config, self._shape, self._rotary)
        return one.attention

    def _advance(self, one: _Reading, tokens: int, held: Held) -> None:
        done = len(one.entry.ids)
        one.entry.ids.extend(one.ids[done : done + tokens])
        if one.left:
            return
        one.attention = None
        if self._store is not None:
            try:
                self._store.save(one.entry.key, self._cache.pool, one.entry.runs)
            except StoreError as error:
                held.notes.append(str(error))
                self._store = None
