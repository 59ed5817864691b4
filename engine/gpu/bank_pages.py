"""How large the banks of decode steps are, where the pool lies in host memory. Torch-free: the memory plan needs it.

A row's head has, of a layer's keys and of its values, pages for the sink, a ring of pages for the stream, and pages for
what was chosen between them (banks.py). A page is 16 tokens of one head. Steps that attend to everything have the whole
row instead, in the same memory.

L layers, G key/value heads, D head dimension.
"""

from dataclasses import dataclass, replace

from unabridged.engine.attention.config import AttentionConfig, Stage
from unabridged.engine.attention.limits import CHOSEN, PAGE

# Lists of a first stage that a bank has pages of keys for: what was chosen, and most of what was before.
SHARE = 1.75
# More hardly ever serves: what was not chosen for so long is not chosen again.
_MOST = 4
# The same of values, in lists of a last stage, which are short; and pages, where they are not.
_VALUES, _VALUE_PAGES = 4, 1024


@dataclass(frozen=True)
class BankPages:
    """Of one layer, row and head. `keys`, `values`: pages for what was chosen; `listed`: those of the longest lists of
    first and of last stages."""

    sink: int
    ring: int
    keys: int
    values: int
    listed: tuple[int, int]

    @classmethod
    def of(cls, config: AttentionConfig, layers: int, share: float = SHARE) -> "BankPages":
        """With `share` lists of keys, at least one. ValueError for settings that banks do not serve."""
        if config.sink % PAGE:
            raise ValueError(f"sink = {config.sink} with the KV in host memory: a multiple of {PAGE} wanted")
        stages = [config.layer(number).stages for number in range(layers)]
        listed = max(_listed(own[0]) for own in stages), max(_listed(own[-1]) for own in stages)
        if max(listed) > CHOSEN:
            found, most = max(listed) * PAGE, CHOSEN * PAGE
            raise ValueError(f"lists of {found:,} tokens with the KV in host memory: {most:,} at most")
        return cls(
            sink=config.sink // PAGE,
            # A stream begins and ends inside pages, and one more is written while the oldest is still read.
            ring=-(-config.recent(layers) // PAGE) + 2,
            keys=max(listed[0], min(int(share * listed[0]), CHOSEN)),
            values=max(listed[1], min(_VALUES * listed[1], _VALUE_PAGES)),
            listed=listed,
        )

    @property
    def each(self) -> tuple[int, int]:
        """Pages of keys and of values, all counted."""
        around = self.sink + self.ring
        return around + self.keys, around + self.values


def _listed(stage: Stage) -> int:
    """Pages of a list at most: short chunks may lie in a page each."""
    return stage.keep // stage.chunk * max(1, stage.chunk // PAGE)


@dataclass(frozen=True)
class BankRoom:
    """What the batches of one configuration share, of which only some hold sequences at a time: a batch of one row, for
    an answer alone, has all of it; where there are `slots`, of the batches of so many rows the sparse one has the first
    part and the dense one the rest. `dense`: pages of a row's head that is attended to whole; `total`: pages of a layer
    and head."""

    slots: int
    alone: BankPages
    shared: BankPages
    dense: int
    total: int

    @classmethod
    def of(cls, config: AttentionConfig, layers: int, slots: int, room: int, share: float = SHARE) -> "BankRoom":
        """`room`: tokens of a row at most. See BankPages.of."""
        pages = BankPages.of(config, layers, share)
        dense = -(-min(config.dense_below, room) // PAGE)
        several = slots * (sum(pages.each) + 2 * dense) if slots > 1 else 0
        total = max(sum(pages.each), 2 * dense, several)
        # Alone, what the others would have is used as well.
        keys = min(pages.keys + total - sum(pages.each), max(pages.keys, _MOST * pages.listed[0]), CHOSEN)
        return cls(slots, replace(pages, keys=keys), pages, dense, total)

    def pages(self, rows: int) -> BankPages:
        """Of the sparse batch of so many rows."""
        return self.alone if rows == 1 else self.shared

    def part(self, rows: int, dense: bool) -> range:
        """Where the batch's pages of a layer and head lie among all. ValueError where there is no room for it."""
        if rows not in (1, self.slots):
            raise ValueError(f"a batch of {rows} rows in banks for 1 or {self.slots}")
        begin = rows * sum(self.shared.each) if dense and rows > 1 else 0
        return range(begin, begin + rows * (2 * self.dense if dense else sum(self.pages(rows).each)))

    def bytes(self, layers: int, kv_heads: int, head_dim: int, itemsize: int) -> int:
        """Of keys and values in the pool's type."""
        return self.total * layers * kv_heads * PAGE * head_dim * itemsize

    def tables_bytes(self, layers: int, kv_heads: int, room: int) -> int:
        """Of the tables that say where pages lie, and of what is known of each, for rows of `room` tokens."""
        each = [(1, self.alone)] + [(self.slots, self.shared)] * (self.slots > 1)
        numbers = (rows * (2 * -(-room // PAGE) + 2 * (pages.keys + pages.values)) for rows, pages in each)
        return 4 * layers * kv_heads * sum(numbers)
