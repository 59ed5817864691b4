"""The index: a few bits of every key, from which a first stage guesses its score. Format, encoding, plain reference.

A key k of head g becomes `y = (k - mean) @ key`, N = 4W numbers in units of their quantiser's step, the most important
first, and is stored in W bytes. Byte i: bits 7..4 hold y[i] as c = clamp(floor(y), -8, 7), bits 3..2 y[W + i] as c in
-2..1, bit 1 y[2W + i] and bit 0 y[3W + i] as c in -1..0, all in two's complement. A code's level is c + 0.5. One scale
a key, `s = sum w y^2 / sum w y level`, undoes on average what quantising took from its length. A query q guesses
`s * sum_n (q @ query)_n level_n` for q.(k - mean).

Scoring reads four int8 planes off a byte without touching its neighbours in a word: PLANES says which bits and how many
units of a plane's value make one level; the bit below them stands for the half, `value = unit * level` exactly.
"""

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from unabridged.engine.attention.kernels.launch import Launch
from unabridged.engine.attention.kernels.layout import PAGE, Bank

# (bits to shift left, mask, unit) of the int8 plane that holds y[0:W], y[W:2W], y[2W:3W], y[3W:4W].
PLANES = ((0, 0xF0, 16), (4, 0xC0, 64), (6, 0x80, 128), (7, 0x80, 128))
# Lowest and highest code of each plane.
CODES = ((-8, 7), (-2, 1), (-1, 0), (-1, 0))

_KEYS = 32


@dataclass(frozen=True)
class Basis:
    """One layer's calibration, float32: mean `[G, D]`, key and query `[G, D, N]`, weights `[G, N]` (how much each of
    the N numbers counts in a score on average, step included; all positive)."""

    mean: Tensor
    key: Tensor
    query: Tensor
    weights: Tensor


@dataclass(frozen=True)
class Index:
    """codes `[B, G, T, W]` uint8 and scales `[B, G, T]` float8_e4m3fn of the keys of one layer, by position; undefined
    where nothing was encoded."""

    codes: Tensor
    scales: Tensor
    basis: Basis

    @property
    def width(self) -> int:
        """W, code bytes a key."""
        return self.codes.shape[3]


def width_of(head_dim: int) -> int:
    """W for heads of `head_dim` dimensions: a bit a dimension, as a power of two."""
    return int(triton.next_power_of_2(-(-head_dim // 8)))


def encode(bank: Bank, index: Index, start: Tensor, end: Tensor, most: int) -> None:
    """Encode positions [start[b], end[b]) of every sequence: `[B]` int32, on the device, at most `most` apart (what is
    past that is not encoded). The caller advances its counters."""
    plan_encode(bank, index, start, end, most).run()


def plan_encode(bank: Bank, index: Index, start: Tensor, end: Tensor, most: int) -> Launch:
    """See encode."""
    dim, width = bank.head_dim, index.width
    arguments = {
        "k": bank.k,
        "table": bank.k_table,
        "k_scale": bank.k_scale,
        "mean": index.basis.mean,
        "transform": index.basis.key,
        "weights": index.basis.weights,
        "start": start,
        "end": end,
        "most": most,
        "codes": index.codes,
        "scales": index.scales,
        "pages": bank.k_table.shape[2],
        "room": index.codes.shape[2],
    }
    constants = {
        "G": bank.heads,
        "D": dim,
        "DP": triton.next_power_of_2(dim),
        "W": width,
        "PAGE": PAGE,
        "KEYS": _KEYS,
        "STEP": 32,
    }
    grid = (triton.cdiv(most, _KEYS), bank.heads, bank.k_table.shape[0])
    return Launch(_encode, grid, arguments, constants, warps=4, stages=2)


@triton.jit
def _encode(
    k, table, k_scale, mean, transform, weights, start, end, most, codes, scales, pages, room,
    G: tl.constexpr, D: tl.constexpr, DP: tl.constexpr, W: tl.constexpr, PAGE: tl.constexpr, KEYS: tl.constexpr,
    STEP: tl.constexpr,
):  # fmt: skip
    head = tl.program_id(1)
    list_ = (tl.program_id(2) * G + head).to(tl.int64)
    first = tl.load(start + tl.program_id(2))
    last = tl.minimum(tl.load(end + tl.program_id(2)), first + most)
    positions = first + tl.program_id(0) * KEYS + tl.arange(0, KEYS)
    if first + tl.program_id(0) * KEYS < last:
        there = positions < last
        slot = tl.load(table + list_ * pages + positions // PAGE, there, other=0).to(tl.int64)
        rows = k + (slot * PAGE + positions % PAGE) * D
        scale = tl.load(k_scale + head)
        y = tl.zeros((KEYS, 4 * W), tl.float32)
        n = tl.arange(0, 4 * W)
        for at in range(0, DP, STEP):
            d = at + tl.arange(0, STEP)
            real = d < D
            key = tl.load(rows[:, None] + d, there[:, None] & real, other=0.0).to(tl.float32) * scale
            centred = key - tl.load(mean + head * D + d, real, other=0.0)
            basis = tl.load(transform + (head * D + d[:, None]) * (4 * W) + n, real[:, None], other=0.0)
            # Codes flip at rounding borders only if the product is as good as float32's.
            y = tl.dot(centred, basis, y, input_precision="tf32x3")
        y4, y2, y1, y0 = _planes(y, KEYS, W)
        weight = tl.load(weights + head * (4 * W) + n)[None, :]
        w4, w2, w1, w0 = _planes(weight, 1, W)
        c4, own4, kept4 = _quantise(y4, w4, -8, 7)
        c2, own2, kept2 = _quantise(y2, w2, -2, 1)
        c1, own1, kept1 = _quantise(y1, w1, -1, 0)
        c0, own0, kept0 = _quantise(y0, w0, -1, 0)
        byte = ((c4 & 15) << 4) | ((c2 & 3) << 2) | ((c1 & 1) << 1) | (c0 & 1)
        kept = kept4 + kept2 + kept1 + kept0
        ratio = tl.where(kept > 0, (own4 + own2 + own1 + own0) / tl.where(kept > 0, kept, 1.0), 1.0)
        at = list_ * room + positions
        tl.store(codes + at[:, None] * W + tl.arange(0, W), byte.to(tl.uint8), there[:, None])
        tl.store(scales + at, tl.minimum(ratio, 448.0).to(scales.dtype.element_ty), there)


@triton.jit
def _planes(y, KEYS: tl.constexpr, W: tl.constexpr):
    """`[KEYS, 4W]` as four of `[KEYS, W]`."""
    pairs = tl.permute(tl.reshape(y, (KEYS, 2, 2, W)), (0, 3, 2, 1))
    front, back = tl.split(pairs)
    y4, y2 = tl.split(front)
    y1, y0 = tl.split(back)
    return y4, y2, y1, y0


@triton.jit
def _quantise(y, weight, LOW: tl.constexpr, HIGH: tl.constexpr):
    """Codes, and a key's sums of w y^2 and of w y level."""
    code = tl.minimum(tl.maximum(tl.floor(y), LOW), HIGH)
    return code.to(tl.int32), tl.sum(weight * y * y, 1), tl.sum(weight * y * (code + 0.5), 1)


def encoded(k: Tensor, basis: Basis) -> tuple[Tensor, Tensor]:
    """The plain reference: keys `[G, n, D]` to codes `[G, n, W]` uint8 and scales `[G, n]` float8_e4m3fn."""
    y = ((k.float() - basis.mean[:, None]) @ basis.key).unflatten(-1, (4, -1))
    bounds = torch.tensor(CODES, dtype=y.dtype, device=y.device)[:, :, None]
    code = y.floor().clamp(bounds[:, 0], bounds[:, 1])
    weighted = basis.weights.unflatten(-1, (4, -1))[:, None] * y
    own, kept = (weighted * y).sum((-2, -1)), (weighted * (code + 0.5)).sum((-2, -1))
    scale = torch.where(kept > 0, own / kept.where(kept > 0, 1.0), 1.0).clamp(max=448)
    c4, c2, c1, c0 = code.int().unbind(-2)
    byte = ((c4 & 15) << 4) | ((c2 & 3) << 2) | ((c1 & 1) << 1) | (c0 & 1)
    return byte.to(torch.uint8), scale.to(torch.float8_e4m3fn)


def levels(codes: Tensor) -> Tensor:
    """Codes `[..., W]` as levels `[..., 4W]` float32, not scaled."""
    planes = [
        ((codes.int() << shift) & mask | unit // 2).to(torch.uint8).view(torch.int8) / unit
        for shift, mask, unit in PLANES
    ]
    return torch.cat(planes, -1)
