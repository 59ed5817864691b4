"""Bytes of keys and values: of a token in the pool and in the index, of the GPU's banks, of staging. Torch-free: the
plan asks before anything is loaded, and what builds them asks here too.

L layers, G key/value heads, D head dimension. Pages are of 16 positions of one head.
"""

from dataclasses import dataclass
from math import ceil

from unabridged.engine.attention.config import AttentionConfig, Stage
from unabridged.engine.attention.limits import PAGE, width_of
from unabridged.models.config import ModelConfig

ITEMSIZE = {"float8_e4m3fn": 1, "bfloat16": 2, "float16": 2, "float32": 4}
# Slots of a bank for each page that a list names: what was listed before and may come back. Many for values, whose
# lists are short and change with every renewal of a last stage.
_KEYS, _VALUES = 1.75, 4.0
# Contexts within it are attended to whole where the pool lies in the host: their copies must fit into the banks.
DENSE_BELOW = 8192


@dataclass(frozen=True)
class Kv:
    """How a model's keys and values are stored. `width`: code bytes a key of the index, 0 without one."""

    layers: int
    heads: int
    dim: int
    kind: str
    width: int

    @classmethod
    def of(cls, config: ModelConfig, kind: str, indexed: bool) -> "Kv":
        """`kind`: a name of ITEMSIZE."""
        width = width_of(config.head_dim) if indexed else 0
        return cls(config.layers, config.kv_heads, config.head_dim, kind, width)

    @property
    def itemsize(self) -> int:
        """Of a number."""
        return ITEMSIZE[self.kind]

    @property
    def token(self) -> int:
        """Of a token: keys and values of all layers."""
        return 2 * self.layers * self.heads * self.dim * self.itemsize

    @property
    def layer_codes(self) -> int:
        """Of a token in one layer's index."""
        return self.heads * (self.width + 1) if self.width else 0

    @property
    def codes(self) -> int:
        """Of a token in the index of all layers."""
        return self.layers * self.layer_codes

    def pages(self, count: int) -> int:
        """Of `count` pages of keys, or of values, in all layers and heads."""
        return count * self.layers * self.heads * PAGE * self.dim * self.itemsize

    def staging(self, rows: int, tokens: int) -> int:
        """Of engine.gpu.staging: two layers' keys and values of `tokens` tokens, and tables of `rows` contexts."""
        pages = -(-tokens // PAGE) * self.heads
        return pages * (2 * 2 * PAGE * self.dim * self.itemsize + (rows + 1) * 4)


@dataclass(frozen=True)
class BankPages:
    """The slots of one row and head in the banks, in pages: `sink` and `ring` (the stream's) in both; `keys` and
    `values` under LRU in each; `listed_keys` and `listed_values` of a list at most."""

    sink: int
    ring: int
    keys: int
    values: int
    listed_keys: int
    listed_values: int

    @classmethod
    def of(cls, config: AttentionConfig, layers: int) -> "BankPages":
        """For all layers of a configuration, and a copy of a context of `config.dense_below` tokens."""
        stages = [config.layer(number).stages for number in range(layers)]
        interval = max(config.intervals(len(own))[0] for own in stages)
        sink, ring = -(-config.sink // PAGE), ring_pages(config.stream + config.block_q + interval)
        first, last = max(listed(own[0]) for own in stages), max(listed(own[-1]) for own in stages)
        whole = -(-config.dense_below // PAGE) - sink - ring
        keys, values = max(ceil(_KEYS * first), whole), max(ceil(_VALUES * last), whole)
        return cls(sink, ring, keys, values, first, last)

    def size(self, kv: Kv, rows: int) -> tuple[int, int]:
        """Bytes of the bank of keys and of that of values, for `rows` contexts."""
        both = self.sink + self.ring
        return rows * kv.pages(both + self.keys), rows * kv.pages(both + self.values)

    def tables(self, kv: Kv, rows: int, tokens: int) -> int:
        """Bytes of what says where pages lie, for contexts of `tokens` tokens at most: both banks' tables, which page
        has which slot since when, and what is to be fetched."""
        places = 2 * -(-tokens // PAGE) + 2 * (self.keys + self.values) + 2 * (self.listed_keys + self.listed_values)
        return 4 * rows * kv.layers * kv.heads * places


def listed(stage: Stage) -> int:
    """Pages that a stage's list names at most: each chunk shorter than a page may lie in one of its own."""
    return stage.keep // stage.chunk * max(1, stage.chunk // PAGE)


def ring_pages(recent: int) -> int:
    """Slots of the stream's ring, for streams of `recent` tokens at most, which begin and end anywhere in a page."""
    return -(-recent // PAGE) + 2
