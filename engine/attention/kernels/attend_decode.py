"""Sparse attention of one query a sequence, split over keys (FlashDecoding), in one launch.

A block's keys are one virtual list: the sink, what was kept, the stream. A program takes the query heads of one
key/value head and a run of the list; the last program of a head to arrive joins what all of them found, in the order of
the list whichever it is. The list's length is the device's affair: the grid is made for `capacity`.
"""

import math
from dataclasses import dataclass

import torch
import triton
from torch import Tensor

from unabridged.engine.attention.config import AttentionRope
from unabridged.engine.attention.kernels.attend_decode_kernel import attend
from unabridged.engine.attention.kernels.layout import PAGE, Bank, Kept, Rows
from unabridged.engine.attention.kernels.numbers import dot_type
from unabridged.engine.attention.kernels.rope import NEAR, RopeTables
from unabridged.models.kernels.launch import Launch, runs
from unabridged.models.kernels.overlap import overlaps

# Programs of four warps that a large card runs at once; past it a program takes several tiles.
_PROGRAMS = 264
# A last program reads the splits' sums in pieces of so many numbers a warp.
_JOINED = 2048


@dataclass(frozen=True)
class Cut:
    """How a list is cut: every warp of a tile takes `pages` pages of 16 keys, a program `warps` warps, and `splits`
    programs share the list."""

    pages: int
    splits: int
    warps: int

    @property
    def keys(self) -> int:
        """A tile's."""
        return PAGE * self.pages * self.warps

    @classmethod
    def of(cls, capacity: int, lists: int, dim: int) -> "Cut":
        """For `lists` = R * G lists of at most `capacity` keys."""
        # In a loop over tiles two pages would not fit the registers.
        pages = 2 if dim <= 128 and capacity <= NEAR else 1
        return cls(pages, max(1, min(triton.cdiv(capacity, PAGE * pages * 4), _PROGRAMS // lists)), 4)


@dataclass(frozen=True)
class Scratch:
    """What programs leave for the last one: sums `[R, H, splits, D]` and, `[2, R, H, splits]`, largest logits and
    summed exponentials, float32; how many of a head have arrived, `[R, G]` int32, zero between launches."""

    sums: Tensor
    state: Tensor
    arrived: Tensor

    @classmethod
    def of(cls, q: Tensor, kv_heads: int, splits: int) -> "Scratch":
        """For q `[R, 1, H, D]`; launches of fewer splits may share it, one after the other."""
        rows, _, heads, dim = q.shape
        return cls(
            torch.empty(rows, heads, splits, dim, dtype=torch.float32, device=q.device),
            torch.empty(2, rows, heads, splits, dtype=torch.float32, device=q.device),
            torch.zeros(rows, kv_heads, dtype=torch.int32, device=q.device),
        )


def plan_attend_decode(
    q: Tensor,
    rows: Rows,
    bank: Bank,
    kept: Kept | None,
    chunk: int,
    sink: int,
    style: AttentionRope,
    rope: RopeTables,
    out: Tensor,
    lse: Tensor,
    scratch: Scratch,
    *,
    capacity: int,
    mass: Tensor | None = None,
    cut: Cut | None = None,
) -> Launch:
    """Attend from q `[R, 1, H, D]` to each row's sink, kept chunks of `chunk` tokens, and stream. Rows of q may lie
    anywhere, as in a view of a joint projection.

    No row's list is longer than `capacity`: min(sink, limit), count * chunk, and the tokens from the limit to the
    query's, which lie in the bank. kept None: sink and stream alone, which with limits of 0 is dense attention. A row
    past that, or past its table, as rows that hold no sequence come to be, is undefined and disturbs no other.

    Writes out `[R, 1, H, D]`, lse `[R, H]` float32 (natural log of the summed exponentials of the logits) and, if
    wanted, mass `[R, H, N + 1]` float32, which `shares` reads: for each 16 tokens of the list, N times 16 at least, the
    binary log of what they add to the sum of exponentials, and last that of the sum; undefined behind the list's end.
    A last chunk that the limit cuts short takes up places as if whole.
    """
    count, _, heads, dim = q.shape
    group = heads // bank.heads
    cut = cut or Cut.of(capacity, count * bank.heads, dim)
    width = 2 * triton.next_power_of_2(dim // 2)
    packed, splits = triton.next_power_of_2(group), triton.next_power_of_2(cut.splits)
    fp8 = bank.k.dtype == torch.float8_e4m3fn
    overlap = overlaps(q.device)
    return Launch(
        attend,
        (cut.splits, bank.heads, count),
        {
            "q": q,
            "q_row": q.stride(0),
            "sequence": rows.sequence,
            "first": rows.first,
            "limits": rows.limits,
            "divisors": rows.divisors,
            "k": bank.k,
            "v": bank.v,
            "k_table": bank.k_table,
            "v_table": bank.v_table,
            "k_scale": bank.k_scale,
            "v_scale": bank.v_scale,
            "pages": bank.k_table.shape[2],
            "starts": kept.starts if kept else None,
            "count": kept.count if kept else None,
            "near": rope.near,
            "far": rope.far,
            "out": out,
            "lse": lse,
            "sums": scratch.sums,
            "state": scratch.state,
            "arrived": scratch.arrived,
            "splits": cut.splits,
            "capacity": capacity,
            "mass": mass,
            "mass_width": mass.shape[2] if mass is not None else 0,
            "logit_scale": dim**-0.5 * math.log2(math.e),
        },
        {
            "GROUP": group,
            "D": dim,
            "WIDTH": width,
            "CHUNK": chunk,
            "SINK": sink,
            "CHUNKS": kept.starts.shape[2] if kept else 0,
            "LISTS": kept.starts.shape[1] if kept else 1,
            "SHARED": bank.k_table is bank.v_table,
            "STYLE": style,
            "WIDE": style != "streaming" or capacity > NEAR,
            "CLIPPED": kept is not None and (chunk > PAGE or sink % chunk > 0),
            "PAGED": chunk % PAGE == 0 and sink % PAGE == 0 if kept else sink % PAGE == 0,
            "ONE": cut.splits * cut.keys >= capacity,
            "W": cut.warps,
            "PAGES": cut.pages,
            "RUN": min(width // 8, 16 // bank.k.element_size()),
            "KW": 4 if fp8 else 2,
            "SPLITS": splits,
            "PIECE": min(splits, max(1, _JOINED * cut.warps // (packed * width))),
            "PACKED": packed,
            # e4m3 becomes float16 in one instruction for two; rotated in it, it is more exact than in bfloat16.
            "DOT": dot_type(torch.float16 if fp8 else q.dtype),
            "TURN": dot_type(torch.float16 if fp8 else torch.float32),
            "OVERLAP": overlap,
        },
        warps=cut.warps,
        stages=1,
        overlap=overlap,
    )


attend_decode = runs(plan_attend_decode)


def shares(mass: Tensor, length: Tensor) -> Tensor:
    """Of masses `[..., N + 1]` of lists of `length` places `[...]`, the share of the attention that each place got:
    `[..., N]`, zero behind a list's end."""
    place = PAGE * torch.arange(mass.shape[-1] - 1, device=mass.device)
    return (mass[..., :-1] - mass[..., -1:]).exp2().where(place < length[..., None], 0.0)
