"""Bringing a context's KV into the pool: what is there, what the disk has, what must be read.

A segment is prefilled behind the prefix alone, so its KV serves every context that puts the same prefix in front.
Segments are read several to a forward pass when they are short. Everything finished stays when reading is cancelled; a
segment cut in the middle goes on from there next time.
"""

import hashlib
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Generic

from unabridged.engine.attention.config import AttentionConfig
from unabridged.engine.errors import StoreError
from unabridged.engine.events import Progress
from unabridged.engine.kv.cache import Entry, KvCache
from unabridged.engine.kv.late import LateStore
from unabridged.engine.kv.store import KvStore
from unabridged.engine.layout import Layout, filled
from unabridged.engine.runner import CourseT, Runner

# Stored segments that are asked for ahead of the one that is loaded.
_EXPECTED = 8


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
    layout: Layout = field(default_factory=lambda: Layout((), 1))  # of `order`
    cached: int = 0  # tokens that were in the pool or on the disk
    notes: list[str] = field(default_factory=list)


@dataclass
class _Reading(Generic[CourseT]):
    """An entry on its way into the pool. `ids`: its `tokens` tokens, filled up to whole pages."""

    entry: Entry
    ids: "array[int]"
    tokens: int
    course: CourseT | None = None

    @property
    def left(self) -> int:
        return len(self.ids) - len(self.entry.ids)

    @property
    def done(self) -> int:
        """Tokens that are there, without the filler."""
        return min(len(self.entry.ids), self.tokens)


class Reader(Generic[CourseT]):
    """Fills the pool for requests. The generators may be closed at any step and may take turns."""

    def __init__(
        self,
        runner: Runner[CourseT],
        cache: KvCache,
        store: KvStore | LateStore | None,
        config: AttentionConfig,
        fingerprint: str,
        filler: int,
    ) -> None:
        """`config`: how a segment longer than the window attends to itself; `filler`: the token that fills up pages."""
        self._runner, self._cache, self._store = runner, cache, store
        self._config, self._fingerprint, self._filler = config, fingerprint, filler

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
            held.holds.append(self._cache.add(key, filled(len(named[key]) // 4, self._runner.page)))
        order = list(named)
        held.holds.sort(key=lambda entry: order.index(entry.key))
        self._cache.make_room(more)
        waiting: list[_Reading[CourseT]] = [self._reading(entry, named[entry.key]) for entry in held.holds]
        yield from self._restore(request, waiting, held)
        held.cached = sum(one.done for one in waiting)
        yield from self._read(request, waiting, held, behind=waiting[0].entry if prefix else None)
        entries = {one.entry.key: one for one in waiting}
        ordered = [entries[key.decode()] for key in self._keys(prefix, segments)]
        held.order = [one.entry for one in ordered]
        held.layout = Layout([one.tokens for one in ordered], self._runner.page)

    def _keys(self, prefix: bytes, segments: Sequence[bytes]) -> list[bytes]:
        keys = [segment_key(self._fingerprint, b"", prefix)] if prefix else []
        keys += [segment_key(self._fingerprint, prefix, one) for one in segments if one]
        return [key.encode() for key in keys]

    def _named(self, prefix: bytes, segments: Sequence[bytes]) -> dict[str, bytes]:
        runs = [run for run in (prefix, *segments) if run]
        return {key.decode(): run for key, run in zip(self._keys(prefix, segments), runs, strict=True)}

    def _reading(self, entry: Entry, run: bytes) -> _Reading[CourseT]:
        ids = array("i", run)
        tokens = len(ids)
        ids.extend([self._filler] * (filled(tokens, self._runner.page) - tokens))
        return _Reading(entry, ids, tokens)

    def _restore(self, request: str, waiting: Sequence[_Reading[CourseT]], held: Held) -> Iterator[Progress | None]:
        store = self._store
        if store is None:
            return
        stored = [one for one in waiting if not one.entry.ids and store.has(one.entry.key)]
        done, total = 0, sum(one.tokens for one in stored)
        try:
            for number, one in enumerate(stored):
                for near in stored[number : number + _EXPECTED]:
                    store.expect(near.entry.key, self._cache.pool, len(near.ids))
                while not store.ready(one.entry.key):
                    yield None
                # Another request may have loaded it by now.
                if not one.entry.ids:
                    self._load(store, one, held)
                done += one.tokens
                yield Progress(id=request, phase="restore", done=done, total=total)
        finally:
            store.forget(one.entry.key for one in stored)

    def _load(self, store: KvStore | LateStore, one: _Reading[CourseT], held: Held) -> None:
        try:
            store.load(one.entry.key, self._cache.pool, one.entry.runs)
            one.entry.ids = one.ids[:]
        except StoreError as error:
            held.notes.append(f"{error.message}: read again")

    def _read(
        self, request: str, waiting: Sequence[_Reading[CourseT]], held: Held, behind: Entry | None
    ) -> Iterator[Progress | None]:
        before = sum(one.done for one in waiting)
        total = sum(one.tokens for one in waiting) - before
        if total:
            yield Progress(id=request, phase="read", done=0, total=total)
        try:
            for group in (
                [one for one in waiting if one.entry is behind],
                [one for one in waiting if one.entry is not behind],
            ):
                while any(one.left for one in group):
                    while not (room := self._runner.chunk()):
                        yield None
                    # Meanwhile another request may have read what they share.
                    if pending := [one for one in group if one.left]:
                        self._step(pending, behind, held, room)
                    done = sum(one.done for one in waiting) - before
                    yield Progress(id=request, phase="read", done=done, total=total)
        finally:
            for one in waiting:
                _close(one)

    def _step(self, pending: Sequence[_Reading[CourseT]], behind: Entry | None, held: Held, room: int) -> None:
        """One forward pass over as many of the pending tokens as there is room for."""
        parts: list[tuple[_Reading[CourseT], CourseT, int]] = []
        for one in pending:
            course = self._course(one, behind)
            tokens = course.fits(room, one.left)
            parts.append((one, course, tokens))
            room -= tokens
            if room <= 0 or tokens < one.left:
                break
        self._runner.read([(course, one.ids[len(one.entry.ids) :][:tokens]) for one, course, tokens in parts])
        for one, _, tokens in parts:
            self._advance(one, tokens, held)

    def _course(self, one: _Reading[CourseT], behind: Entry | None) -> CourseT:
        before = [] if behind is None or one.entry is behind else behind.filled()
        length = sum(run.length for run in before) + len(one.entry.ids)
        # Another request may have read on in the same entry since the last step.
        if one.course is None or one.course.length != length:
            _close(one)
            one.course = self._runner.course(before, one.entry.runs, length, self._config)
        return one.course

    def _advance(self, one: _Reading[CourseT], tokens: int, held: Held) -> None:
        done = len(one.entry.ids)
        one.entry.ids.extend(one.ids[done : done + tokens])
        if one.left:
            return
        _close(one)
        if self._store is not None:
            try:
                self._store.save(one.entry.key, self._cache.pool, one.entry.runs)
            except StoreError as error:
                held.notes.append(str(error))
                self._store = None


def _close(one: _Reading[CourseT]) -> None:
    if one.course is not None:
        one.course.close()
        one.course = None
