"""What the kernels read and write: banks of keys and values, blocks of queries, lists of chunks. Torch, no kernel.

Every tensor is contiguous. Names: B sequences, R query blocks, T queries of a block, H query heads, G key/value heads,
g = H/G, D head dimension, J lists a block (G: each key/value head selects for itself; 1: all share one), L chunk
length, C chunks that a stage scores, K chunks that it keeps, P pages of a table.

Keys and values are read through a table, never from a flat tensor: a page is 16 positions of one key/value head, a slot
is a page's place in the bank. The whole cache may lie in the bank, or what one stage needs of it.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from unabridged.engine.attention import limits

PAGE = limits.PAGE


@dataclass(frozen=True)
class Bank:
    """Un-rotated keys and values of one layer.

    k, v `[slots, PAGE, D]` in float8_e4m3fn, bfloat16, float16 or float32: what is stored is the value divided by its
    head's scale, k_scale and v_scale `[G]` float32 (ones where the type needs none). k_table and v_table `[B, G, P]`
    int32: the slot of positions 16p..16p+15 of a sequence and head, -1 for none; one and the same tensor where keys and
    values share their slots. Places of a last page that hold no token yet are undefined (NaN in tests).
    """

    k: Tensor
    v: Tensor
    k_table: Tensor
    v_table: Tensor
    k_scale: Tensor
    v_scale: Tensor

    @property
    def heads(self) -> int:
        """G."""
        return self.k_table.shape[1]

    @property
    def head_dim(self) -> int:
        """D."""
        return self.k.shape[2]


@dataclass(frozen=True)
class Rows:
    """R blocks of T queries, whose queries are `q` `[R, T, H, D]` un-rotated (a prompt's `[R * T, H, D]` as it is).

    sequence `[R]` int32: the table's row. first `[R]` int32: position of a block's first query; the others follow it.
    limits `[R]` int32: where the block's stream begins, a multiple of 16. Chunks lie in [sink, limit); a block attends
    to [0, min(sink, limit)), to what was kept, and to [limit, its position]. divisors `[R]` int32: dynamic extend's
    divisor (ones otherwise). All on the device: a step never asks the host.
    """

    sequence: Tensor
    first: Tensor
    limits: Tensor
    divisors: Tensor

    @property
    def count(self) -> int:
        """R."""
        return self.sequence.shape[0]


@dataclass(frozen=True)
class Kept:
    """Chunks: `starts` `[R, J, K]` int32, positions of first tokens, ascending, -1 behind the last; `count` `[R, J]`
    int32. A chunk's positions at or past the limit are not part of it (only a last chunk can have such).

    `dropped` `[R, J]` float32: log of the summed exponentials of the scores of the chunks that the stage did not keep,
    -inf when it kept all.
    """

    starts: Tensor
    count: Tensor
    dropped: Tensor

    @classmethod
    def empty(cls, rows: int, lists: int, chunks: int, device: torch.device | str) -> "Kept":
        """Room for what a stage keeps; undefined until its kernel ran."""
        return cls(
            torch.empty(rows, lists, chunks, dtype=torch.int32, device=device),
            torch.empty(rows, lists, dtype=torch.int32, device=device),
            torch.empty(rows, lists, dtype=torch.float32, device=device),
        )


@dataclass(frozen=True)
class Span:
    """A first stage's candidates: the chunks of [start, limit) of each block, `chunks` of them at most (the scores'
    width: it is fixed while contexts grow, scores of chunks past the limit are -inf)."""

    start: int
    chunks: int
