"""Reading ahead: the KV of many segments onto the disk, before anybody asks.

The disk is what is filled, so that a corpus may be larger than the pool: segments that stand behind the prefix alone
are read a batch at a time. What is on the disk is passed over; a request that was ended anyhow goes on where it was,
in the middle of a document, when it is made again. What the store has no room for is said first and left out.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Generic

from unabridged.engine.composing import Part
from unabridged.engine.errors import BadRequest, StoreError
from unabridged.engine.events import Event, Finished, Outlook, Prefill, Progress, Usage
from unabridged.engine.kv.blocks import whole_blocks
from unabridged.engine.kv.cache import KvCache
from unabridged.engine.kv.format import file_bytes
from unabridged.engine.kv.late import LateStore
from unabridged.engine.kv.shelves import Shelf
from unabridged.engine.layout import filled
from unabridged.engine.reading import Held, Reader
from unabridged.engine.runner import CourseT

# Tokens of a batch: of the pool, whose other tenants should stay, this share; and at most so many.
_SHARE = 4
_MOST = 32768


@dataclass(frozen=True)
class Identity:
    """Who computes KV, for shelves. `model`: for people; `fingerprint`: see kv.store."""

    model: str
    fingerprint: str


class Ahead(Generic[CourseT]):
    """Serves Prefill requests."""

    def __init__(
        self, reader: Reader[CourseT], cache: KvCache, store: LateStore | None, page: int, identity: Identity
    ) -> None:
        """`page`: slots that a part fills up."""
        self._reader, self._cache, self._store = reader, cache, store
        self._page, self._identity = page, identity

    def run(self, request: Prefill, parts: Sequence[Part], held: Held) -> Iterator[Event | None]:
        """All events. `held` owns what is held at the moment. Raises BadRequest where nothing is stored,
        StoreError for what cannot be written, OutOfMemory."""
        began, store = time.perf_counter(), self._store
        if store is None:
            raise BadRequest("nothing is stored: reading ahead has no use", "unabridged config set engine.store_mib")
        unique = list({part.key: part for part in parts}.values())
        if request.shelf:
            self._shelve(store, request, unique)
        outlook, fitting = self._look(request.id, store, unique)
        missing = [part for part in fitting if not store.has(part.key)]
        yield outlook
        with store.folder.keeping(part.key for part in fitting):
            yield from self._read(request.id, store, unique, missing, held)
        usage = Usage(prompt=outlook.total, cached=outlook.stored, completion=0)
        seconds = time.perf_counter() - began
        yield Finished(id=request.id, reason="stop", usage=usage, prefill_seconds=seconds, notes=tuple(held.notes))

    def _read(
        self, id: str, store: LateStore, parts: Sequence[Part], missing: Sequence[Part], held: Held
    ) -> Iterator[Event | None]:
        left = {part.key: part.tokens for part in missing}
        total = sum(left.values())
        for batch in self._batches(parts, missing):
            done = total - sum(left.values())
            for event in self._reader.hold(id, batch, held):
                if event is None or event.phase == "restore":
                    yield None
                else:
                    yield Progress(id=id, phase="read", done=done + event.done, total=total)
            self._keep(store, held)
            for entry in held.holds:
                left.pop(entry.key, None)
                self._cache.release(entry)
            held.holds.clear()
        while not self._reader.settle(held):
            yield None
        self._check(held)

    def _shelve(self, store: LateStore, request: Prefill, parts: Sequence[Part]) -> None:
        of, listed = self._identity, {part.key: part.tokens for part in parts}
        old = store.folder.shelves.get(request.shelf, of.fingerprint) if request.adding else None
        if old is not None:
            listed = dict(zip(old.keys, old.tokens, strict=True)) | listed
        shelf = Shelf(
            name=request.shelf,
            model=of.model,
            fingerprint=of.fingerprint,
            keys=tuple(listed),
            tokens=tuple(listed.values()),
        )
        store.folder.shelve(shelf)

    def _look(self, id: str, store: LateStore, parts: Sequence[Part]) -> tuple[Outlook, list[Part]]:
        """The outlook and the parts that fit."""
        files, pinned = store.folder.stored(), store.folder.shelves.pinned_keys()
        room = store.folder.room(files, pinned)
        stored = {one.key: one.size for one in files}
        pinned &= stored.keys()
        own = {part.key for part in parts}
        others = {key: size for key, size in stored.items() if key not in own}
        most = room.most - sum(others[key] for key in others.keys() & pinned)
        # What is pinned of it stays even where it is behind what fits.
        taken, fitting = sum(stored[key] for key in own & pinned), []
        for part in parts:
            taken += 0 if part.key in pinned else self._size(part)
            if taken > most:
                break
            fitting.append(part)
        if parts and not fitting:
            raise StoreError(
                f"the KV store has room for {max(0, most):,} bytes, the first section takes {self._size(parts[0]):,}",
                "raise engine.store_mib, free space on its disk, or unpin: unabridged store unpin",
            )
        for part in fitting:
            # What is used last goes last.
            store.folder.touch(part.key)
        size = sum(map(self._size, fitting))
        outlook = Outlook(
            id=id,
            total=sum(part.tokens for part in parts),
            stored=sum(part.tokens for part in parts if part.key in stored),
            fits=sum(part.tokens for part in fitting),
            missing=sum(part.tokens for part in fitting if part.key not in stored),
            size=sum(map(self._size, parts)),
            stored_size=sum(stored.get(part.key, 0) for part in parts),
            room=most,
            goes=max(0, size + sum(others.values()) - room.most),
        )
        return outlook, fitting

    def _batches(self, parts: Sequence[Part], missing: Sequence[Part]) -> Iterator[list[Part]]:
        """What is held at a time: a few parts behind the prefix, or, where parts stand behind others, all of them."""
        if not missing:
            return
        if any(part.behind > 1 for part in parts):
            yield list(parts[: parts.index(missing[-1]) + 1])
            return
        # At most one part, the prefix, stands in front of others.
        before = [part for part in parts[:1] if any(other.behind for other in parts)]
        most = min(_MOST, self._cache.pool.slots // _SHARE)
        batch: list[Part] = []
        tokens = 0
        for part in missing:
            if part in before:
                continue
            if batch and tokens + whole_blocks(part.tokens) > most:
                yield [*before, *batch]
                batch, tokens = [], 0
            batch.append(part)
            tokens += whole_blocks(part.tokens)
        yield [*before, *batch]

    def _keep(self, store: LateStore, held: Held) -> None:
        """Save what was in the pool and not on the disk. Raises what saving did."""
        self._check(held)
        for entry in held.order:
            if not store.knows(entry.key):
                store.save(entry.key, self._cache.pool, entry.runs)

    def _check(self, held: Held) -> None:
        if held.failed is not None:
            raise held.failed

    def _size(self, part: Part) -> int:
        return file_bytes(self._cache.pool.token_bytes * filled(part.tokens, self._page))
