"""Random banks and blocks of queries for kernel tests: permuted slots, NaN where nothing was written."""

from dataclasses import dataclass

import torch
from torch import Tensor

from unabridged.engine.attention.kernels.layout import PAGE, Bank, Rows

FP8 = torch.float8_e4m3fn


@dataclass(frozen=True)
class Shape:
    """H query heads, G key/value heads, D head dimension."""

    heads: int
    kv_heads: int
    dim: int


def bank(lengths: list[int], shape: Shape, dtype: torch.dtype, device: str, seed: int = 0) -> Bank:
    """A bank that holds sequences of `lengths` tokens. Slots are permuted over sequences and heads, a few stay unused;
    keys and values of positions past a length are NaN; scales differ from head to head for FP8 and are 1 otherwise."""
    random = torch.Generator().manual_seed(seed)
    pages = [-(-length // PAGE) for length in lengths]
    slots = sum(pages) * shape.kv_heads + 3
    order = torch.randperm(slots, generator=random).int()
    table = torch.full((len(lengths), shape.kv_heads, max(pages) + 1), -1, dtype=torch.int32)
    k = torch.full((slots, PAGE, shape.dim), torch.nan)
    v = torch.full((slots, PAGE, shape.dim), torch.nan)
    taken = 0
    for sequence, count in enumerate(pages):
        for head in range(shape.kv_heads):
            own = order[taken : taken + count]
            taken += count
            table[sequence, head, :count] = own
            for store in (k, v):
                rows = torch.randn(count * PAGE, shape.dim, generator=random)
                rows[lengths[sequence] :] = torch.nan
                store[own.long()] = rows.view(count, PAGE, shape.dim)
    scale = torch.rand(2, shape.kv_heads, generator=random) + 0.5 if dtype == FP8 else torch.ones(2, shape.kv_heads)
    tables = table.to(device)
    return Bank(k.to(dtype).to(device), v.to(dtype).to(device), tables, tables, *scale.to(device).unbind(0))


def rows(sequence: list[int], first: list[int], limits: list[int], device: str, divisor: int = 1) -> Rows:
    """Blocks of queries at these positions."""
    divisors = [divisor] * len(sequence)
    columns = torch.tensor([sequence, first, limits, divisors], dtype=torch.int32, device=device)
    return Rows(*(column.contiguous() for column in columns.unbind(0)))


def queries(count: int, tokens: int, shape: Shape, dtype: torch.dtype, device: str, seed: int = 1) -> Tensor:
    """q `[count, tokens, H, D]`."""
    random = torch.Generator().manual_seed(seed)
    return torch.randn(count, tokens, shape.heads, shape.dim, generator=random).to(dtype).to(device)
