"""Top-K over chunk scores: which chunks a stage keeps, ascending, and how much mass the others hold.

Scores are compared on a grid of 16 bits: 2^-8 logits inside +-64, 2^-4 from there to +-1024, equal beyond; of equals
the lower place is kept. A NaN counts as a chunk that does not exist. The result is the same in every run.

Few chunks: one program a list holds all keys in registers and finds the threshold bit by bit. Many: the list is cut in
S splits, and three launches count the upper bytes of keys, count the lower bytes of those at the threshold's upper
byte, and write. Each program adds up its list's counts for itself, so the launches share plain sums, nothing has to be
cleared, and the order of programs matters nowhere.
"""

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from unabridged.engine.attention.kernels.launch import Argument, Launch
from unabridged.engine.attention.kernels.layout import Kept, Span

NARROW = 8192
_BLOCK = 4096
# Programs that a first launch aims at: two for each multiprocessor of a large card.
_PROGRAMS = 256


@dataclass(frozen=True)
class Scratch:
    """What the launches of one top-K share: usable again and again, by one top-K at a time.

    high, low `[R * J, S, 256]` int32: keys of a split by upper and lower byte; partial `[R * J, S]` float32: what a
    split dropped; arrived `[R * J]` int32: splits that are done, zero between uses. None for lists of one program.
    """

    high: Tensor | None
    low: Tensor | None
    partial: Tensor | None
    arrived: Tensor | None
    splits: int
    block: int

    @classmethod
    def of(
        cls, lists: int, chunks: int, device: torch.device | str, narrow: int = NARROW, block: int = _BLOCK
    ) -> "Scratch":
        """For `lists` = R * J lists of `chunks` scores. Lists of up to `narrow` scores take one program each."""
        if chunks <= narrow:
            return cls(None, None, None, None, 1, triton.next_power_of_2(max(chunks, 32)))
        wanted = min(32, -(-chunks // block), max(1, _PROGRAMS // lists))
        splits = 1 << (wanted.bit_length() - 1)
        high, low = (torch.empty(lists, splits, 256, dtype=torch.int32, device=device) for _ in range(2))
        partial = torch.empty(lists, splits, dtype=torch.float32, device=device)
        return cls(high, low, partial, torch.zeros(lists, dtype=torch.int32, device=device), splits, block)


def keep_best(
    scores: Tensor, candidates: Span | Kept, chunk: int, kept: Kept, join: bool, trail: int, scratch: Scratch
) -> None:
    """Keep the best chunks of each list: fills `kept`, whose starts have room for as many as are wanted.

    scores `[R, G, C]` float32, -inf for chunks that do not exist. join: the heads share one list (J = 1), a chunk has
    its best head's score. trail: a chunk ranks as high as the best of the `trail` chunks right before it, where their
    tokens follow each other. Lists may name longer chunks, each of which is scored in C / K parts. `kept.dropped` is of
    own scores, not of ranks.
    """
    for launch in plan_keep_best(scores, candidates, chunk, kept, join, trail, scratch):
        launch.run()


def plan_keep_best(
    scores: Tensor, candidates: Span | Kept, chunk: int, kept: Kept, join: bool, trail: int, scratch: Scratch
) -> tuple[Launch, ...]:
    """See keep_best."""
    heads, chunks = scores.shape[1:]
    lists, wanted = kept.count.numel(), kept.starts.shape[2]
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
        warps = max(1, min(16, scratch.block // 512))
        return (Launch(_narrow, (lists,), source | target, constants | pad, warps),)
    counts: dict[str, Argument] = {"high": scratch.high, "low": scratch.low}
    shared: dict[str, Argument] = {"partial": scratch.partial, "arrived": scratch.arrived}
    share = -(-chunks // (scratch.splits * scratch.block)) * scratch.block
    constants |= {"SPLITS": scratch.splits, "SHARE": share}
    grid, warps = (lists, scratch.splits), max(1, min(8, scratch.block // 256))
    no_threshold = {name: value for name, value in constants.items() if name != "WANTED"}
    return (
        Launch(_count_high, grid, source | {"high": scratch.high}, no_threshold, warps),
        Launch(_count_low, grid, source | counts, constants, warps),
        Launch(_write, grid, source | counts | shared | target, constants | pad, warps),
    )


@triton.jit
def _own(scores, chunks, row, at, inside, JOINED: tl.constexpr):
    """Scores of the chunks `at` of a list: the best of its heads, -inf for NaN."""
    base = scores + row.to(tl.int64) * JOINED * chunks
    best = tl.full(at.shape, -float("inf"), tl.float32)
    for head in tl.static_range(JOINED):
        own = tl.load(base + head * chunks + at, inside, -float("inf"))
        best = tl.where(own > best, own, best)
    return best


@triton.jit
def _places(listed, first, chunks, row, at, inside, CHUNK: tl.constexpr, PARTS: tl.constexpr):
    """Positions of the chunks' first tokens."""
    if listed is None:
        places = first + at * CHUNK
    else:
        start = tl.load(listed + row.to(tl.int64) * (chunks // PARTS) + at // PARTS, inside, -1)
        places = tl.where(start < 0, -1, start + at % PARTS * CHUNK)
    return places


@triton.jit
def _keys(
    scores,
    listed,
    first,
    chunks,
    row,
    at,
    end,
    CHUNK: tl.constexpr,
    PARTS: tl.constexpr,
    JOINED: tl.constexpr,
    TRAIL: tl.constexpr,
):
    """Own scores of the chunks `at`, and their ranks as keys of 16 bits, 0 for a chunk that does not exist."""
    inside = at < end
    own = _own(scores, chunks, row, at, inside, JOINED)
    rank = own
    for back in tl.static_range(1, TRAIL + 1):
        near = inside & (at >= back)
        if listed is not None:
            here = _places(listed, first, chunks, row, at, inside, CHUNK, PARTS)
            near = near & (here - _places(listed, first, chunks, row, at - back, near, CHUNK, PARTS) == back * CHUNK)
        rank = tl.maximum(rank, _own(scores, chunks, row, at - back, near, JOINED))
    fine = tl.minimum(tl.maximum(rank, -64.0), 64.0)
    coarse = tl.minimum(tl.maximum(rank, -1024.0), 1024.0) - fine
    key = tl.floor(fine * 256.0 + coarse * 16.0).to(tl.int32) + 32768
    exists = own > -float("inf")
    return own, tl.where(exists, key, 0)


@triton.jit
def _digit(histogram, wanted):
    """The largest digit with `wanted` keys at or above it (0 if there are fewer), and how many lie above."""
    bins = tl.arange(0, 256)
    upward = tl.cumsum(histogram, 0)
    from_here = tl.sum(histogram, 0) - upward + histogram
    digit = tl.max(tl.where(from_here >= wanted, bins, 0), 0)
    return digit, tl.sum(tl.where(bins > digit, histogram, 0), 0)


@triton.jit
def _counts(store, row, SPLITS: tl.constexpr):
    """A list's histograms `[S, 256]`."""
    split = tl.arange(0, SPLITS)[:, None]
    return tl.load(store + (row.to(tl.int64) * SPLITS + split) * 256 + tl.arange(0, 256)[None, :])


@triton.jit
def _emit(starts, row, key, threshold, above, ties, budget, places, WANTED: tl.constexpr):
    """Write the places of kept keys: those above the threshold, and `budget` of those at it. `above` and `ties` of them
    lie before. Returns which were kept and the two numbers for what follows."""
    over = key > threshold
    tie = (key == threshold) & (key > 0)
    packed = over.to(tl.int32) + (tie.to(tl.int32) << 16)
    before = tl.cumsum(packed, 0) - packed
    earlier = ties + (before >> 16)
    keep = over | (tie & (earlier < budget))
    to = above + (before & 0xFFFF) + tl.minimum(earlier, budget)
    tl.store(starts + row.to(tl.int64) * WANTED + to, places, keep)
    return keep, above + tl.sum(over.to(tl.int32), 0), ties + tl.sum(tie.to(tl.int32), 0)


@triton.jit
def _finish(starts, count, row, number, WANTED: tl.constexpr, PAD: tl.constexpr):
    """The number of chunks kept, and -1 behind them."""
    to = tl.arange(0, PAD)
    tl.store(starts + row.to(tl.int64) * WANTED + to, tl.full((PAD,), -1, tl.int32), (to >= number) & (to < WANTED))
    tl.store(count + row, number)


@triton.jit
def _log(total, base):
    """base + log(total); -inf for a total of nothing."""
    return tl.where(total > 0.0, base + tl.log(tl.where(total > 0.0, total, 1.0)), -float("inf"))


@triton.jit
def _log_sum(logs):
    """Log of the summed exponentials; -inf for nothing."""
    top = tl.max(logs, 0)
    base = tl.where(top > -float("inf"), top, 0.0)
    return _log(tl.sum(tl.exp(logs - base), 0), base)


@triton.jit
def _narrow(
    scores, listed, first, chunks, starts, count, dropped,
    CHUNK: tl.constexpr, PARTS: tl.constexpr, JOINED: tl.constexpr, TRAIL: tl.constexpr,
    WANTED: tl.constexpr, BLOCK: tl.constexpr,
    PAD: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    own, key = _keys(scores, listed, first, chunks, row, at, chunks, CHUNK, PARTS, JOINED, TRAIL)
    threshold = 0
    for step in tl.static_range(16):
        trial = threshold | (32768 >> step)
        enough = tl.sum((key >= trial).to(tl.int32), 0) >= WANTED
        threshold = tl.where(enough, trial, threshold)
    budget = WANTED - tl.sum((key > threshold).to(tl.int32), 0)
    places = _places(listed, first, chunks, row, at, at < chunks, CHUNK, PARTS)
    keep, over, ties = _emit(starts, row, key, threshold, 0, 0, budget, places, WANTED)
    _finish(starts, count, row, over + tl.minimum(ties, budget), WANTED, PAD)
    tl.store(dropped + row, _log_sum(tl.where(keep, -float("inf"), own)))


@triton.jit
def _count_high(
    scores, listed, first, chunks, high,
    CHUNK: tl.constexpr, PARTS: tl.constexpr, JOINED: tl.constexpr, TRAIL: tl.constexpr,
    BLOCK: tl.constexpr, SPLITS: tl.constexpr,
    SHARE: tl.constexpr,
):  # fmt: skip
    row, split = tl.program_id(0), tl.program_id(1)
    end = tl.minimum((split + 1) * SHARE, chunks)
    seen = tl.zeros((256,), tl.int32)
    for begin in range(split * SHARE, end, BLOCK):
        at = begin + tl.arange(0, BLOCK)
        key = _keys(scores, listed, first, chunks, row, at, end, CHUNK, PARTS, JOINED, TRAIL)[1]
        seen += tl.histogram(key >> 8, 256)
    tl.store(high + (row.to(tl.int64) * SPLITS + split) * 256 + tl.arange(0, 256), seen)


@triton.jit
def _count_low(
    scores, listed, first, chunks, high, low,
    CHUNK: tl.constexpr, PARTS: tl.constexpr, JOINED: tl.constexpr, TRAIL: tl.constexpr,
    WANTED: tl.constexpr, BLOCK: tl.constexpr,
    SPLITS: tl.constexpr, SHARE: tl.constexpr,
):  # fmt: skip
    row, split = tl.program_id(0), tl.program_id(1)
    digit = _digit(tl.sum(_counts(high, row, SPLITS), 0), WANTED)[0]
    end = tl.minimum((split + 1) * SHARE, chunks)
    seen = tl.zeros((256,), tl.int32)
    for begin in range(split * SHARE, end, BLOCK):
        at = begin + tl.arange(0, BLOCK)
        key = _keys(scores, listed, first, chunks, row, at, end, CHUNK, PARTS, JOINED, TRAIL)[1]
        seen += tl.histogram(key & 255, 256, (key >> 8) == digit)
    tl.store(low + (row.to(tl.int64) * SPLITS + split) * 256 + tl.arange(0, 256), seen)


@triton.jit
def _write(
    scores, listed, first, chunks, high, low, partial, arrived, starts, count, dropped,
    CHUNK: tl.constexpr, PARTS: tl.constexpr, JOINED: tl.constexpr, TRAIL: tl.constexpr,
    WANTED: tl.constexpr, BLOCK: tl.constexpr,
    SPLITS: tl.constexpr, SHARE: tl.constexpr, PAD: tl.constexpr,
):  # fmt: skip
    row, split = tl.program_id(0), tl.program_id(1)
    bins = tl.arange(0, 256)[None, :]
    earlier = tl.arange(0, SPLITS)[:, None] < split
    upper = _counts(high, row, SPLITS)
    lower = _counts(low, row, SPLITS)
    top, over = _digit(tl.sum(upper, 0), WANTED)
    bottom, more = _digit(tl.sum(lower, 0), WANTED - over)
    threshold = top * 256 + bottom
    budget = WANTED - over - more
    above = tl.where(bins > top, upper, 0) + tl.where(bins > bottom, lower, 0)
    above = tl.sum(tl.sum(tl.where(earlier, above, 0), 1), 0)
    ties = tl.sum(tl.sum(tl.where(earlier & (bins == bottom) & (threshold > 0), lower, 0), 1), 0)

    end = tl.minimum((split + 1) * SHARE, chunks)
    left = -float("inf")
    for begin in range(split * SHARE, end, BLOCK):
        at = begin + tl.arange(0, BLOCK)
        own, key = _keys(scores, listed, first, chunks, row, at, end, CHUNK, PARTS, JOINED, TRAIL)
        places = _places(listed, first, chunks, row, at, at < end, CHUNK, PARTS)
        keep, above, ties = _emit(starts, row, key, threshold, above, ties, budget, places, WANTED)
        here = _log_sum(tl.where(keep, -float("inf"), own))
        larger = tl.maximum(left, here)
        base = tl.where(larger > -float("inf"), larger, 0.0)
        left = _log(tl.exp(left - base) + tl.exp(here - base), base)

    if split == 0:
        _finish(starts, count, row, over + more + tl.where(threshold > 0, budget, 0), WANTED, PAD)
    tl.store(partial + row * SPLITS + split, left)
    # The last of a list's programs sees what all wrote, and adds it up in the order of splits.
    if tl.atomic_add(arrived + row, 1, sem="acq_rel") == SPLITS - 1:
        parts = tl.load(partial + row * SPLITS + tl.arange(0, SPLITS), cache_modifier=".cg")
        tl.store(dropped + row, _log_sum(parts))
        tl.store(arrived + row, 0)
