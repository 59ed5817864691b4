"""Top-K over chunk scores: which chunks a stage keeps, ascending, and how much mass the others hold.

Scores are compared on a grid of 16 bits: 2^-8 logits inside +-64, 2^-4 from there to +-1024, equal beyond; of equals
the lower place is kept. A NaN counts as a chunk that does not exist. The result is the same in every run.

Few chunks: one program a list holds all keys in registers and cuts the threshold's range to a third at a time. Many:
the list is cut in S splits of one block each, and three launches count the upper bytes of keys, the lower bytes of
those at the threshold's upper byte, and write. Counts are of the keys above each byte, summed with atomics (whole
numbers: any order gives the same): who needs the threshold's byte finds it with one load and one reduction.
"""

from dataclasses import dataclass

import torch
import triton
from torch import Tensor

from unabridged.engine.attention.kernels.layout import Kept, Span
from unabridged.engine.attention.kernels.topk_kernel import count_high, count_low, keep_few, write_kept
from unabridged.models.kernels.launch import Argument, Launch, runs

NARROW = 8192
# Scores of all lists up to which small blocks spread them better over a large card's multiprocessors.
_SPREAD = 1 << 20


@dataclass(frozen=True)
class Scratch:
    """What the launches of one top-K share: usable again and again, by one top-K at a time.

    high, low `[R * J, 256]` int32: a list's keys above each upper byte, and above each lower byte under the threshold's
    upper byte `top` `[R * J]` int32; high is zero between uses. own `[R * J, S, 256]` int32: what a split added to low,
    and from bit 16 on its keys at that byte. partial `[R * J, S]` float32: what a split dropped; arrived `[R * J]`
    int32: splits that are done, zero between uses. None for lists of one program.
    """

    high: Tensor | None
    low: Tensor | None
    top: Tensor | None
    own: Tensor | None
    partial: Tensor | None
    arrived: Tensor | None
    splits: int
    block: int

    @classmethod
    def of(
        cls, lists: int, chunks: int, device: torch.device | str, narrow: int = NARROW, block: int | None = None
    ) -> "Scratch":
        """For `lists` = R * J lists of `chunks` scores. Lists of up to `narrow` scores take one program each; longer
        ones one for each `block` scores (a power of two, at most 32768)."""
        if chunks <= narrow:
            return cls(None, None, None, None, None, None, 1, triton.next_power_of_2(max(chunks, 32)))
        block = block or (2048 if lists * chunks <= _SPREAD else 4096)
        splits = -(-chunks // block)
        high, low = (torch.zeros(lists, 256, dtype=torch.int32, device=device) for _ in range(2))
        top, arrived = (torch.zeros(lists, dtype=torch.int32, device=device) for _ in range(2))
        own = torch.empty(lists, splits, 256, dtype=torch.int32, device=device)
        partial = torch.empty(lists, splits, dtype=torch.float32, device=device)
        return cls(high, low, top, own, partial, arrived, splits, block)


def plan_keep_best(
    scores: Tensor, candidates: Span | Kept, chunk: int, kept: Kept, join: bool, trail: int, scratch: Scratch
) -> tuple[Launch, ...]:
    """Keep the best chunks of each list: fills `kept`, whose starts have room for as many as are wanted.

    scores `[R, G, C]` float32, -inf for chunks that do not exist. join: the heads share one list (J = 1), a chunk has
    its best head's score. trail: a chunk ranks as high as the best of the `trail` chunks right before it, where their
    tokens follow each other. Lists may name longer chunks, each of which is scored in C / K parts. `kept.dropped` is of
    own scores, not of ranks. ValueError for more scores or lists than the scratch has room for.
    """
    heads, chunks = scores.shape[1:]
    lists, wanted = kept.count.numel(), kept.starts.shape[2]
    splits = -(-chunks // scratch.block)
    if splits > scratch.splits or (scratch.high is not None and lists > len(scratch.high)):
        raise ValueError(f"no room in this scratch for {lists} lists of {chunks} scores")
    starts, first = (None, candidates.start) if isinstance(candidates, Span) else (candidates.starts, 0)
    source: dict[str, Argument] = {"scores": scores, "listed": starts, "first": first, "chunks": chunks}
    target: dict[str, Argument] = {"starts": kept.starts, "count": kept.count, "dropped": kept.dropped}
    constants = {
        "CHUNK": chunk,
        "PARTS": 1 if starts is None else chunks // starts.shape[2],
        "JOINED": heads if join else 1,
        "TRAIL": trail,
        "WANTED": wanted,
        "BLOCK": scratch.block,
    }
    pad = {"PAD": triton.next_power_of_2(wanted)}
    if scratch.high is None:
        warps = max(1, min(16, scratch.block // 256))
        return (Launch(keep_few, (lists,), source | target, constants | pad, warps),)
    high: dict[str, Argument] = {"high": scratch.high}
    counts: dict[str, Argument] = {"low": scratch.low, "top": scratch.top, "own": scratch.own}
    shared: dict[str, Argument] = {"partial": scratch.partial, "arrived": scratch.arrived}
    grid, warps = (lists, splits), max(1, min(8, scratch.block // 256))
    no_threshold = {name: value for name, value in constants.items() if name != "WANTED"}
    pad["SPLITS"] = triton.next_power_of_2(splits)
    return (
        Launch(count_high, grid, source | high | {"low": scratch.low}, no_threshold, warps),
        Launch(count_low, grid, source | high | counts, constants, warps),
        Launch(write_kept, grid, source | high | counts | shared | target, constants | pad, warps),
    )


keep_best = runs(plan_keep_best)
