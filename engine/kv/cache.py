"""Which KV stays in the pool: segments shared between conversations, and the ends of recent conversations.

Entries in use are held (counted); the others stay until their blocks are needed and go least recently used first.
"""

import itertools
from array import array
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from unabridged.engine.errors import OutOfMemory
from unabridged.engine.kv.blocks import BLOCK, Pool, Run
from unabridged.engine.layout import filled

T = TypeVar("T")


@dataclass(eq=False)
class Entry:
    """KV in the pool. `ids`: the tokens whose KV is there; `runs` may reserve more slots than that."""

    key: str
    runs: list[Run]
    ids: "array[int]" = field(default_factory=lambda: array("i"))
    holders: int = 0

    @property
    def reserved(self) -> int:
        """Tokens that the runs have room for."""
        return sum(run.length for run in self.runs)

    def filled(self) -> list[Run]:
        """The part of the runs that holds KV."""
        return first_tokens(self.runs, len(self.ids))


def first_tokens(runs: Iterable[Run], tokens: int) -> list[Run]:
    """The runs of the first `tokens` tokens."""
    out = []
    for run in runs:
        if tokens <= 0:
            break
        out.append(Run(run.start, min(run.length, tokens)))
        tokens -= run.length
    return out


class KvCache:
    """Entries of one pool. Keys of conversation ends are "<context>/<number>"."""

    def __init__(self, pool: Pool, page: int = 1) -> None:
        """Entries get whole pages of `page` slots; blocks are whole pages."""
        self.pool = pool
        self._page = page
        self._entries: OrderedDict[str, Entry] = OrderedDict()  # least recently used first
        self._numbers = itertools.count()

    def hold(self, key: str) -> Entry | None:
        """The entry, kept until `release`; None when it is not there."""
        entry = self._entries.get(key)
        if entry is not None:
            self._entries.move_to_end(key)
            entry.holders += 1
        return entry

    def has(self, key: str) -> bool:
        """Whether `key` has its slots."""
        return key in self._entries

    def add(self, key: str, tokens: int) -> Entry:
        """A new held entry with room for `tokens`. Evicts what nobody holds. Raises OutOfMemory and changes nothing
        that is held."""
        entry = Entry(key, self._allocate(tokens), holders=1)
        self._entries[key] = entry
        return entry

    def grow(self, entry: Entry, tokens: int) -> list[Run]:
        """More room for a held entry, none when `tokens` is not positive. Returns the new runs."""
        runs = self._allocate(tokens) if tokens > 0 else []
        entry.runs += runs
        return runs

    def grow_at_most(self, entry: Entry, tokens: int) -> list[Run]:
        """`grow` by `tokens`, or by what there is. Raises OutOfMemory when that is nothing."""
        try:
            return self.grow(entry, tokens)
        except OutOfMemory:
            # What nobody holds has gone by now.
            if not self.pool.free_tokens:
                raise
        return self.grow(entry, self.pool.free_tokens)

    def make_room(self, tokens: int) -> None:
        """See that `tokens` slots can be had, evicting for them. Raises OutOfMemory when they cannot."""
        self._until_there_is_room(lambda: self.pool.check(filled(tokens, self._page)))

    def release(self, entry: Entry) -> None:
        """End one hold. An entry without any token of KV goes at once."""
        entry.holders -= 1
        if entry.holders == 0 and not entry.ids:
            self.drop(entry)

    def drop(self, entry: Entry) -> None:
        """Forget an entry and free its blocks."""
        if self._entries.pop(entry.key, None) is not None:
            self.pool.free(entry.runs)
            entry.runs = []

    def trim(self, entry: Entry, tokens: int) -> None:
        """Keep the first `tokens` tokens, their pages and the blocks they lie in."""
        del entry.ids[tokens:]
        kept = first_tokens(entry.runs, filled(tokens, self._page))
        for run in entry.runs[len(kept) :]:
            self.pool.free([run])
        if kept and (spare := entry.runs[len(kept) - 1].blocks - kept[-1].blocks):
            last = kept[-1]
            self.pool.free([Run(last.start + last.blocks * BLOCK, spare * BLOCK)])
        entry.runs = kept

    def new_end(self, context: str) -> str:
        """A key for a new conversation over `context`."""
        return f"{context}/{next(self._numbers)}"

    def longest_end(self, context: str, ids: Sequence[int]) -> tuple[Entry, int] | None:
        """Of the conversations over `context`, the one whose tokens begin with most of `ids`, held, and how many."""
        best, most = None, 0
        for entry in self._entries.values():
            if entry.holders == 0 and entry.key.startswith(f"{context}/"):
                common = common_prefix(entry.ids, ids)
                best, most = (entry, common) if common > most else (best, most)
        if best is None:
            return None
        self.hold(best.key)
        return best, most

    def evictable_tokens(self) -> int:
        """Slots that eviction could free."""
        return sum(run.blocks * BLOCK for e in self._entries.values() if e.holders == 0 for run in e.runs)

    def _allocate(self, tokens: int) -> list[Run]:
        return self._until_there_is_room(lambda: self.pool.allocate(filled(tokens, self._page)))

    def _until_there_is_room(self, take: Callable[[], T]) -> T:
        """What `take` gives, dropping for it what nobody holds."""
        while True:
            try:
                return take()
            except OutOfMemory:
                victim = next((entry for entry in self._entries.values() if entry.holders == 0), None)
                if victim is None:
                    raise
                self.drop(victim)


def common_prefix(a: Sequence[int], b: Sequence[int]) -> int:
    """How many tokens two sequences share at their start."""
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
