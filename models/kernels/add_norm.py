"""The residual stream between two projections: what waits is added, then the stream is normed, in one launch.

One program holds one row. A decode step has few rows: a row's numbers come in a few wide loads of many threads, all of
them under way at once, so that the launch costs little more than an empty one. Sums and statistics are float32; parts
are added in their order.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.nn import functional

from unabridged.models.kernels.launch import Argument, Launch, runs
from unabridged.models.kernels.overlap import let_next_begin, overlaps, wait

# Rows up to which a row has as many threads as there are; with more, rows fill the card.
_FEW = 132
_BLOCK = 4096


@triton.jit
def _sum(x, parts, at, inside, stride, PARTS: tl.constexpr):
    total = tl.load(x + at, inside, 0.0).to(tl.float32)
    for part in tl.static_range(PARTS):
        total += tl.load(parts + part * stride + at, inside, 0.0).to(tl.float32)
    return total


@triton.jit
def _add(x, parts, into, numbers, PARTS: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < numbers
    tl.store(into + at, _sum(x, parts, at, inside, numbers, PARTS), inside)


@triton.jit
def _add_norm(
    x, parts, into, weight, out, numbers, eps,
    H: tl.constexpr, WIDTH: tl.constexpr, PARTS: tl.constexpr, OVERLAP: tl.constexpr,
):  # fmt: skip
    column = tl.arange(0, WIDTH)
    inside = column < H
    at = tl.program_id(0).to(tl.int64) * H + column
    # Asked for early: it waits beside the parts, not behind their sum.
    scale = tl.load(weight + column, inside, 0.0).to(tl.float32)
    if OVERLAP:
        let_next_begin()
        wait()
    total = _sum(x, parts, at, inside, numbers, PARTS)
    if into is not None:
        tl.store(into + at, total, inside)
    mean = tl.sum(total * total, 0) / H
    tl.store(out + at, total * tl.rsqrt(mean + eps) * scale, inside)


def plan_add(x: Tensor, parts: Tensor, into: Tensor) -> Launch:
    """into = x + parts[0] + parts[1] + ...

    x, into `[M, H]`, which may be the same tensor; parts `[S, M, H]`; any floating dtypes, all contiguous.
    """
    numbers = x.numel()
    arguments: dict[str, Argument] = {"x": x, "parts": parts, "into": into, "numbers": numbers}
    block = _BLOCK if numbers > _BLOCK * _FEW else 1024
    return Launch(_add, (triton.cdiv(numbers, block),), arguments, {"PARTS": len(parts), "BLOCK": block})


def plan_add_norm(
    x: Tensor,
    parts: Tensor | None,
    into: Tensor | None,
    weight: Tensor,
    eps: float,
    out: Tensor,
    overlap: bool | None = None,
) -> Launch:
    """into = x + parts[0] + parts[1] + ..., as `plan_add`; out = into / sqrt(mean(into^2) + eps) * weight.

    parts None adds nothing; into None: the sum is normed and not kept. weight `[H]`, out `[M, H]`; any floating dtypes,
    all contiguous. out is of the sum before it is rounded to into's dtype. overlap: begin while the kernel before it
    ends (None: where the card can).
    """
    rows, hidden = x.shape
    overlap = overlaps(x.device) if overlap is None else overlap
    width = triton.next_power_of_2(hidden)
    return Launch(
        _add_norm,
        (rows,),
        {"x": x, "parts": parts, "into": into, "weight": weight, "out": out, "numbers": x.numel(), "eps": eps},
        {"H": hidden, "WIDTH": width, "PARTS": 0 if parts is None else len(parts), "OVERLAP": overlap},
        warps=max(1, min(32 if rows <= _FEW else 8, width // 128)),
        overlap=overlap,
    )


add, add_norm = runs(plan_add), runs(plan_add_norm)


def add_plain(x: Tensor, parts: Tensor, into: Tensor) -> None:
    """`add` in plain PyTorch."""
    into.copy_(_sum_plain(x, parts))


def add_norm_plain(
    x: Tensor, parts: Tensor | None, into: Tensor | None, weight: Tensor, eps: float, out: Tensor
) -> None:
    """`add_norm` in plain PyTorch."""
    total = _sum_plain(x, parts)
    if into is not None:
        into.copy_(total)
    out.copy_(functional.rms_norm(total, weight.shape, weight.float(), eps))


def _sum_plain(x: Tensor, parts: Tensor | None) -> Tensor:
    total = x.to(torch.float32, copy=True)
    for part in () if parts is None else parts:
        total += part
    return total
