"""Where prefix and segments stand: as callers count, and in slots, where each fills whole pages.

An entry's last page is filled up with a filler token, so that the next one begins on a page of its own and the same
pages serve every context. Callers never see the filler.
"""

import itertools
from bisect import bisect_right
from collections.abc import Sequence


def filled(tokens: int, page: int) -> int:
    """Slots of an entry of `tokens` tokens in pages of `page`."""
    return -(-tokens // page) * page


class Layout:
    """Entries of `lengths` tokens, one behind the other, in pages of `page` slots."""

    def __init__(self, lengths: Sequence[int], page: int) -> None:
        self._lengths = tuple(lengths)
        self._starts = tuple(itertools.accumulate(lengths, initial=0))
        self._places = tuple(itertools.accumulate((filled(one, page) for one in lengths), initial=0))

    @property
    def tokens(self) -> int:
        """As callers count."""
        return self._starts[-1]

    @property
    def slots(self) -> int:
        """With the filler."""
        return self._places[-1]

    def place(self, entry: int) -> int:
        """The first slot of an entry; of the number of entries: the first slot behind them all."""
        return self._places[entry]

    def position(self, slot: int) -> int | None:
        """The position of a slot as callers count; None for filler. Behind all entries slots count on."""
        entry = bisect_right(self._places, slot) - 1
        inside = slot - self._places[entry]
        if entry < len(self._lengths) and inside >= self._lengths[entry]:
            return None
        return self._starts[entry] + inside
