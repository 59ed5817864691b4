"""New keys and values into a bank: divided by their head's scale, saturated, stored where the table says.

One program stores up to 32 neighbouring tokens of one key/value head. Positions without a slot, or past the tables, are
left out: rows of a batch that hold no sequence go on counting.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from unabridged.engine.attention.kernels.layout import PAGE, Bank
from unabridged.models.kernels.launch import Launch, runs
from unabridged.models.kernels.overlap import let_next_begin, overlaps, wait

_TOKENS = 32


@triton.jit
def _store(x, store, scale, slots, inside, f, valid, D: tl.constexpr, LARGEST: tl.constexpr):
    x = tl.div_rn(x.to(tl.float32), tl.full(x.shape, 0.0, tl.float32) + scale)
    # Infinity has no code in e4m3: values past the largest must not become NaN.
    x = tl.minimum(tl.maximum(x, -LARGEST), LARGEST)
    at = slots.to(tl.int64)[:, None] * (16 * D) + (inside * D)[:, None] + f[None, :]
    tl.store(store + at, x.to(store.dtype.element_ty), mask=valid & (slots >= 0)[:, None])


@triton.jit
def _write(
    k,
    v,
    bank_k,
    bank_v,
    k_table,
    v_table,
    k_scale,
    v_scale,
    sequence,
    first,
    k_row,
    k_token,
    v_row,
    v_token,
    tokens,
    pages,
    G: tl.constexpr,
    D: tl.constexpr,
    WIDTH: tl.constexpr,
    TILE: tl.constexpr,
    LARGEST: tl.constexpr,
    OVERLAP: tl.constexpr,
):
    if OVERLAP:
        let_next_begin()
        wait()
    head, row = tl.program_id(1), tl.program_id(2)
    t = tl.program_id(0) * TILE + tl.arange(0, TILE)
    f = tl.arange(0, WIDTH)
    known = t < tokens
    valid = known[:, None] & (f < D)[None, :]
    position = tl.load(first + row) + t
    page = (tl.load(sequence + row).to(tl.int64) * G + head) * pages + position // 16
    listed = known & (position // 16 < pages)
    k_slots = tl.load(k_table + page, mask=listed, other=-1)
    v_slots = tl.load(v_table + page, mask=listed, other=-1)
    inside = (head * D + f)[None, :]
    new_k = tl.load(k + (row.to(tl.int64) * k_row + t * k_token)[:, None] + inside, mask=valid, other=0.0)
    new_v = tl.load(v + (row.to(tl.int64) * v_row + t * v_token)[:, None] + inside, mask=valid, other=0.0)
    _store(new_k, bank_k, tl.load(k_scale + head), k_slots, position % 16, f, valid, D, LARGEST)
    _store(new_v, bank_v, tl.load(v_scale + head), v_slots, position % 16, f, valid, D, LARGEST)


def plan_write(k: Tensor, v: Tensor, bank: Bank, sequence: Tensor, first: Tensor) -> Launch:
    """Store k, v `[R, T, G, D]`, un-rotated, at positions first[r]..first[r]+T-1 of the sequences `[R]` (both int32).

    A token's heads lie side by side, tokens anywhere: views of a joint projection will do (ValueError for others).
    What has no slot in a table is not stored there; no two rows write one place.
    """
    rows, tokens, heads, dim = k.shape
    if any((heads > 1 and x.stride(2) != dim) or x.stride(3) != 1 for x in (k, v)):
        raise ValueError(f"keys and values with strides {k.stride()} and {v.stride()}")
    tile = min(_TOKENS, triton.next_power_of_2(tokens))
    overlap = overlaps(k.device)
    return Launch(
        _write,
        (triton.cdiv(tokens, tile), heads, rows),
        {
            "k": k,
            "v": v,
            "bank_k": bank.k,
            "bank_v": bank.v,
            "k_table": bank.k_table,
            "v_table": bank.v_table,
            "k_scale": bank.k_scale,
            "v_scale": bank.v_scale,
            "sequence": sequence,
            "first": first,
            "k_row": k.stride(0),
            "k_token": k.stride(1),
            "v_row": v.stride(0),
            "v_token": v.stride(1),
            "tokens": tokens,
            "pages": bank.k_table.shape[2],
        },
        {
            "G": heads,
            "D": dim,
            "WIDTH": triton.next_power_of_2(dim),
            "TILE": tile,
            "LARGEST": torch.finfo(bank.k.dtype).max,
            "OVERLAP": overlap,
        },
        warps=4 if tile > 8 else 1,
        overlap=overlap,
    )


write = runs(plan_write)


def write_plain(k: Tensor, v: Tensor, bank: Bank, sequence: Tensor, first: Tensor) -> None:
    """`write` in plain PyTorch."""
    rows, tokens, heads, _ = k.shape
    positions = first.long()[:, None] + torch.arange(tokens, device=k.device)
    inside = (positions % PAGE)[:, :, None].expand(rows, tokens, heads)
    for new, store, table, scale in (
        (k, bank.k, bank.k_table, bank.k_scale),
        (v, bank.v, bank.v_table, bank.v_scale),
    ):
        largest = torch.finfo(store.dtype).max
        slots = table[sequence.long()].gather(2, (positions // PAGE)[:, None].expand(rows, heads, tokens))
        values = (new.float() / scale[:, None]).clamp(-largest, largest).to(store.dtype)
        known = slots.transpose(1, 2) >= 0
        store[slots.transpose(1, 2)[known].long(), inside[known]] = values[known]
