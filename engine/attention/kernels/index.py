"""The index: a few bits of every key, from which a first stage guesses its score. Format, encoding, plain reference.

A key k of head g becomes `y = (k - mean) @ key`, N = 4W numbers, the most important first, measured against the key's
own length n = sqrt(sum w y^2), 1 for an average key. It is stored in W bytes. Byte i: bits 7..4 hold y[i] / n as
c = clamp(floor, -8, 7), bits 3..2 y[W + i] / n as c in -2..1, bit 1 y[2W + i] / n and bit 0 y[3W + i] / n as c in
-1..0, all in two's complement. A code's level is c + 0.5. One scale a key, `s = n^2 / sum w y level`, carries its
length and undoes on average what quantising took; its byte is a float's 3 lowest exponent and 5 highest mantissa bits,
for 1/4 to 63. A query q guesses `s * sum_n (q @ query)_n level_n` for q.(k - mean).

Codes lie in pages, as keys do: neither knows where its token stands, so what several contexts share is encoded once.

Scoring reads four int8 planes off a byte without touching its neighbours in a word: PLANES says which bits and how many
units of a plane's value make one level; the bit below them stands for the half, `value = unit * level` exactly.
"""

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from unabridged.engine.attention.index_basis import Basis
from unabridged.engine.attention.kernels.layout import PAGE, Bank
from unabridged.models.kernels.launch import Argument, Launch, runs

# (bits to shift left, mask, unit) of the int8 plane that holds y[0:W], y[W:2W], y[2W:3W], y[3W:4W].
PLANES = ((0, 0xF0, 16), (4, 0xC0, 64), (6, 0x80, 128), (7, 0x80, 128))
# Lowest and highest code of each plane.
CODES = ((-8, 7), (-2, 1), (-1, 0), (-1, 0))

_KEYS = 32


@dataclass(frozen=True)
class Codes:
    """codes `[G, pages, PAGE, W]` and scales `[G, pages, PAGE]`, both uint8, of the keys of one layer; undefined where
    nothing was encoded. The pages are one sequence's, in order."""

    codes: Tensor
    scales: Tensor
    basis: Basis

    @property
    def width(self) -> int:
        """W, code bytes a key."""
        return self.codes.shape[3]

    @property
    def pages(self) -> int:
        """P, the most pages of a sequence."""
        return self.codes.shape[1]

    def read(self, sequence: int, start: int, end: int) -> tuple[Tensor, Tensor]:
        """Codes `[G, n, W]` and scales `[G, n]` of positions [start, end) of a sequence, which have pages; copied."""
        at = torch.arange(start, end, device=self.codes.device)
        page = self._places(sequence, at // PAGE)
        return self.codes[:, page, at % PAGE], self.scales[:, page, at % PAGE]

    def _places(self, sequence: int, pages: Tensor) -> Tensor:
        return pages


@dataclass(frozen=True)
class Index(Codes):
    """Codes of many sequences. table `[B, P]` int32: the page of a sequence's positions 16p..16p+15, -1 for none.

    Sequences may share pages: whoever encodes a key writes the same bytes."""

    table: Tensor

    @classmethod
    def empty(cls, pages: int, table: Tensor, basis: Basis) -> "Index":
        """Room for `pages` pages on the table's device; undefined until keys are encoded."""
        heads, _, numbers = basis.key.shape
        codes = torch.empty(heads, pages, PAGE, numbers // 4, dtype=torch.uint8, device=table.device)
        return cls(codes, torch.empty(codes.shape[:3], dtype=torch.uint8, device=table.device), basis, table)

    @property
    def pages(self) -> int:
        return self.table.shape[1]

    def _places(self, sequence: int, pages: Tensor) -> Tensor:
        return self.table[sequence, pages].long()


def plan_encode(bank: Bank, index: Index, start: Tensor, end: Tensor, most: int) -> Launch:
    """Encode positions [start[b], end[b]) of every sequence: `[B]` int32, on the device, at most `most` apart (what is
    past that, or in no page of the index, is not encoded). The caller advances its counters."""
    dim, width = bank.head_dim, index.width
    arguments: dict[str, Argument] = {
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
        "index_table": index.table,
        "room": index.codes.shape[1],
        "pages": min(bank.k_table.shape[2], index.pages),
        "bank_pages": bank.k_table.shape[2],
        "index_pages": index.pages,
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


encode = runs(plan_encode)


@triton.jit
def _encode(
    k, table, k_scale, mean, transform, weights, start, end, most, codes, scales, index_table, room, pages,
    bank_pages, index_pages,
    G: tl.constexpr, D: tl.constexpr, DP: tl.constexpr, W: tl.constexpr, PAGE: tl.constexpr, KEYS: tl.constexpr,
    STEP: tl.constexpr,
):  # fmt: skip
    head = tl.program_id(1)
    sequence = tl.program_id(2).to(tl.int64)
    first = tl.load(start + sequence)
    last = tl.minimum(tl.minimum(tl.load(end + sequence), first + most), pages * PAGE)
    positions = first + tl.program_id(0) * KEYS + tl.arange(0, KEYS)
    if first + tl.program_id(0) * KEYS < last:
        there = positions < last
        page = tl.load(index_table + sequence * index_pages + positions // PAGE, there, other=-1).to(tl.int64)
        slot = tl.load(table + (sequence * G + head) * bank_pages + positions // PAGE, there, other=-1).to(tl.int64)
        there = (page >= 0) & (slot >= 0)
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
        square = tl.sum(weight * y * y, 1)
        length = tl.where(square > 0, tl.sqrt(square), 1.0)[:, None]
        c4, kept4 = _quantise(y4, length, w4, -8, 7)
        c2, kept2 = _quantise(y2, length, w2, -2, 1)
        c1, kept1 = _quantise(y1, length, w1, -1, 0)
        c0, kept0 = _quantise(y0, length, w0, -1, 0)
        byte = ((c4 & 15) << 4) | ((c2 & 3) << 2) | ((c1 & 1) << 1) | (c0 & 1)
        kept = kept4 + kept2 + kept1 + kept0
        ratio = tl.where(square > 0, square / tl.where(square > 0, kept, 1.0), 1.0)
        small = (ratio.to(tl.int32, bitcast=True) - (125 << 23) + (1 << 17)) >> 18
        at = (head * room + page) * PAGE + positions % PAGE
        tl.store(codes + at[:, None] * W + tl.arange(0, W), byte.to(tl.uint8), there[:, None])
        tl.store(scales + at, tl.minimum(tl.maximum(small, 0), 255).to(tl.uint8), there)


@triton.jit
def _planes(y, KEYS: tl.constexpr, W: tl.constexpr):
    """`[KEYS, 4W]` as four of `[KEYS, W]`."""
    pairs = tl.permute(tl.reshape(y, (KEYS, 2, 2, W)), (0, 3, 2, 1))
    front, back = tl.split(pairs)
    y4, y2 = tl.split(front)
    y1, y0 = tl.split(back)
    return y4, y2, y1, y0


@triton.jit
def _quantise(y, length, weight, LOW: tl.constexpr, HIGH: tl.constexpr):
    """Codes, and a key's sum of w y level."""
    code = tl.minimum(tl.maximum(tl.floor(y / length), LOW), HIGH)
    return code.to(tl.int32), tl.sum(weight * y * (code + 0.5), 1)


@triton.jit
def unpack_scale(scale):
    """Scale bytes as float32."""
    return ((scale.to(tl.int32) << 18) + (125 << 23)).to(tl.float32, bitcast=True)


def encoded(k: Tensor, basis: Basis) -> tuple[Tensor, Tensor]:
    """The plain reference: keys `[G, n, D]` to codes `[G, n, W]` and scales `[G, n]`, both uint8."""
    y = ((k.float() - basis.mean[:, None]) @ basis.key).unflatten(-1, (4, -1))
    weighted = basis.weights.unflatten(-1, (4, -1))[:, None] * y
    square = (weighted * y).sum((-2, -1))
    length = square.sqrt().where(square > 0, 1.0)
    bounds = torch.tensor(CODES, dtype=y.dtype, device=y.device)[:, :, None]
    code = (y / length[..., None, None]).floor().clamp(bounds[:, 0], bounds[:, 1])
    kept = (weighted * (code + 0.5)).sum((-2, -1))
    scale = torch.where(square > 0, square / kept.where(square > 0, 1.0), 1.0)
    small = (scale.view(torch.int32) - (125 << 23) + (1 << 17)) >> 18
    c4, c2, c1, c0 = code.int().unbind(-2)
    byte = ((c4 & 15) << 4) | ((c2 & 3) << 2) | ((c1 & 1) << 1) | (c0 & 1)
    return byte.to(torch.uint8), small.clamp(0, 255).to(torch.uint8)


def scale_values(scales: Tensor) -> Tensor:
    """Scale bytes as float32."""
    return ((scales.int() << 18) + (125 << 23)).view(torch.float32)


def levels(codes: Tensor) -> Tensor:
    """Codes `[..., W]` as levels `[..., 4W]` float32, not scaled."""
    planes = [
        ((codes.int() << shift) & mask | unit // 2).to(torch.uint8).view(torch.int8) / unit
        for shift, mask, unit in PLANES
    ]
    return torch.cat(planes, -1)
