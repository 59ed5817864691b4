"""Bringing a context's KV into the pool: what is there, what the disk has, what must be read.

A part is read behind those that `composing` says: each alone behind the prefix, or all as one text. Short parts are
read several to a forward pass. Everything finished stays when reading is cancelled; a part cut in the middle goes on
from there next time.
"""

import itertools
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Generic

from unabridged.engine.attention.config import AttentionConfig
from unabridged.engine.composing import Part
from unabridged.engine.errors import StoreError
from unabridged.engine.events import Progress
from unabridged.engine.kv.cache import Entry, KvCache
from unabridged.engine.kv.late import LateStore
from unabridged.engine.layout import Layout, filled
from unabridged.engine.runner import CourseT, Runner

# Stored segments that are asked for ahead of the one that is loaded.
_EXPECTED = 12


@dataclass
class Held:
    """The KV of one request's prefix and segments."""

    holds: list[Entry] = field(default_factory=list)  # each entry once; the owner releases them
    order: list[Entry] = field(default_factory=list)  # as they stand in the context, once they are all there
    layout: Layout = field(default_factory=lambda: Layout((), 1))  # of `order`
    cached: int = 0  # tokens that were in the pool or on the disk
    notes: list[str] = field(default_factory=list)
    failed: StoreError | None = None  # the first write that did

    def fails(self, error: StoreError) -> None:
        """Nothing more is stored for this request, and it is said once."""
        if self.failed is None:
            self.failed = error
            self.notes.append(f"what was read is not stored: {error}")


@dataclass
class _Reading:
    """An entry on its way into the pool. `ids`: its `tokens` tokens, filled up to whole pages."""

    entry: Entry
    ids: "array[int]"
    tokens: int

    @property
    def left(self) -> int:
        return len(self.ids) - len(self.entry.ids)

    @property
    def done(self) -> int:
        """Tokens that are there, without the filler."""
        return min(len(self.entry.ids), self.tokens)


@dataclass
class _Stretch(Generic[CourseT]):
    """Parts that are read as one text behind `before`, which is all there by then."""

    before: Sequence[Entry]
    readings: list[_Reading]
    course: CourseT | None = None

    @property
    def left(self) -> bool:
        """Whether there is something to read."""
        return any(one.left for one in self.readings)

    def next(self) -> tuple[int, list[_Reading]]:
        """The slots in front of the first token to read, and what is read from there on without a gap."""
        at = next(at for at, one in enumerate(self.readings) if one.left)
        there = [*self.before, *(one.entry for one in self.readings[: at + 1])]
        first, *others = self.readings[at:]
        behind = itertools.takewhile(lambda one: not one.entry.ids, others)
        return sum(len(entry.ids) for entry in there), [first, *behind]

    def close(self) -> None:
        """Nothing is read in it for now."""
        if self.course is not None:
            self.course.close()
            self.course = None


class Reader(Generic[CourseT]):
    """Fills the pool for requests. The generators may be closed at any step and may take turns."""

    def __init__(
        self,
        runner: Runner[CourseT],
        cache: KvCache,
        store: LateStore | None,
        config: AttentionConfig,
        filler: int,
    ) -> None:
        """`config`: how what is read past the window attends; `filler`: the token that fills up pages."""
        self._runner, self._cache, self._store = runner, cache, store
        self._config, self._filler = config, filler

    def hold(self, request: str, parts: Sequence[Part], held: Held, more: int = 0) -> Iterator[Progress | None]:
        """Bring a context's parts into the pool and add their entries to `held`, whose owner releases them.

        All slots are taken before anything is read, and `more` besides is seen to: raises OutOfMemory at once.
        """
        named = {part.key: part.ids for part in parts}
        there = {key: entry for key in named if (entry := self._cache.hold(key))}
        held.holds += there.values()
        for key in named.keys() - there.keys():
            held.holds.append(self._cache.add(key, filled(len(named[key]) // 4, self._runner.page)))
        order = {key: number for number, key in enumerate(named)}
        held.holds.sort(key=lambda entry: order[entry.key])
        self._cache.make_room(more)
        waiting = [self._reading(entry, named[entry.key]) for entry in held.holds]
        yield from self._restore(request, waiting, held)
        held.cached = sum(one.done for one in waiting)
        entries = {one.entry.key: one for one in waiting}
        ordered = [entries[part.key] for part in parts]
        yield from self._read(request, waiting, held, self._stretches(parts, ordered))
        held.order = [one.entry for one in ordered]
        held.layout = Layout([one.tokens for one in ordered], self._runner.page)

    def settle(self, held: Held) -> bool:
        """Whether all that was saved is on the disk. What could not be written is noted."""
        try:
            return self._store is None or self._store.settled()
        except StoreError as error:
            held.fails(error)
            return True

    def _stretches(self, parts: Sequence[Part], ordered: Sequence[_Reading]) -> list[_Stretch[CourseT]]:
        """The parts, each once, as they are read; first those that others may stand behind."""
        first: list[_Stretch[CourseT]] = []
        later: list[_Stretch[CourseT]] = []
        seen: set[str] = set()
        for at, (part, one) in enumerate(zip(parts, ordered, strict=True)):
            if part.key in seen:
                continue
            seen.add(part.key)
            if part.behind > 1 and part.behind == at:
                later[-1].readings.append(one)
            else:
                before = [other.entry for other in ordered[: part.behind]]
                (later if before else first).append(_Stretch(before, [one]))
        return [*first, *later]

    def _reading(self, entry: Entry, run: bytes) -> _Reading:
        ids = array("i", run)
        tokens = len(ids)
        ids.extend([self._filler] * (filled(tokens, self._runner.page) - tokens))
        return _Reading(entry, ids, tokens)

    def _restore(self, request: str, waiting: Sequence[_Reading], held: Held) -> Iterator[Progress | None]:
        store = self._store
        if store is None:
            return
        stored = [one for one in waiting if not one.entry.ids and store.has(one.entry.key)]
        done, total = 0, sum(one.tokens for one in stored)
        try:
            for number, one in enumerate(stored):
                for near in stored[number : number + _EXPECTED]:
                    # What another request reads or has loaded by now is not to be written to.
                    if not near.entry.ids:
                        store.expect(near.entry.key, self._cache.pool, near.entry.runs)
                while not store.ready(one.entry.key):
                    yield None
                if not one.entry.ids:
                    self._load(store, one, held)
                done += one.tokens
                yield Progress(id=request, phase="restore", done=done, total=total)
        finally:
            store.forget(one.entry.key for one in stored)

    def _load(self, store: LateStore, one: _Reading, held: Held) -> None:
        try:
            store.load(one.entry.key, self._cache.pool, one.entry.runs)
            one.entry.ids = one.ids[:]
        except StoreError as error:
            held.notes.append(f"{error.message}: read again")

    def _read(
        self, request: str, waiting: Sequence[_Reading], held: Held, stretches: Sequence[_Stretch[CourseT]]
    ) -> Iterator[Progress | None]:
        before = sum(one.done for one in waiting)
        total = sum(one.tokens for one in waiting) - before
        if total:
            yield Progress(id=request, phase="read", done=0, total=total)
        try:
            for group in ([one for one in stretches if not one.before], [one for one in stretches if one.before]):
                while any(one.left for one in group):
                    while self._being_loaded(waiting) or not (room := self._runner.chunk()):
                        yield None
                    # Meanwhile another request may have read what they share.
                    if pending := [one for one in group if one.left]:
                        self._step(pending, held, room)
                    done = sum(one.done for one in waiting) - before
                    yield Progress(id=request, phase="read", done=done, total=total)
        finally:
            for one in stretches:
                one.close()

    def _being_loaded(self, waiting: Sequence[_Reading]) -> bool:
        """Whether another request has the disk write into what this one would read."""
        return self._store is not None and self._store.expects(one.entry.key for one in waiting if one.left)

    def _step(self, pending: Sequence[_Stretch[CourseT]], held: Held, room: int) -> None:
        """One forward pass over as many of the pending tokens as there is room for."""
        passes: list[tuple[_Stretch[CourseT], CourseT, list[_Reading], array[int]]] = []
        for stretch in pending:
            length, readings = stretch.next()
            course = self._course(stretch, length)
            ids = self._take(course, readings, room)
            passes.append((stretch, course, readings, ids))
            room -= len(ids)
            if room <= 0 or not self._runner.packs or len(ids) < sum(one.left for one in readings):
                break
        self._runner.read([(course, ids) for _, course, _, ids in passes])
        for stretch, _, readings, ids in passes:
            self._advance(readings, ids, held)
            if not stretch.left:
                stretch.close()

    def _course(self, stretch: _Stretch[CourseT], length: int) -> CourseT:
        # Another request may have read on in the same entries since the last step.
        if stretch.course is None or stretch.course.length != length:
            stretch.close()
            before = [run for entry in stretch.before for run in entry.filled()]
            own = [run for one in stretch.readings for run in one.entry.runs]
            stretch.course = self._runner.course(before, own, length, self._config)
        return stretch.course

    def _take(self, course: CourseT, readings: Sequence[_Reading], room: int) -> "array[int]":
        """The next ids, of so many that a pass takes. Past the window a pass ends with a part: queries of the next one
        would have a say in what this one's last ones select, and what follows a part must leave no trace in it."""
        tokens = course.fits(room, sum(one.left for one in readings))
        if not self._runner.packs or course.length + tokens > self._config.dense_below:
            tokens = course.fits(room, readings[0].left)
        ids = array("i")
        for one in readings:
            if len(ids) < tokens:
                ids.extend(one.ids[len(one.entry.ids) :])
        return ids[:tokens]

    def _advance(self, readings: Sequence[_Reading], ids: "array[int]", held: Held) -> None:
        at = 0
        for one in readings:
            own = ids[at : at + one.left]
            at += len(own)
            one.entry.ids.extend(own)
            if own and not one.left:
                self._save(one, held)

    def _save(self, one: _Reading, held: Held) -> None:
        if self._store is not None and held.failed is None:
            try:
                self._store.save(one.entry.key, self._cache.pool, one.entry.runs)
            except StoreError as error:
                held.fails(error)
