"""Tensors without memory for launches that are only compiled: banks, blocks and tables of real models' shapes."""

import torch
from tests.kernels.made import FP8, Shape
from torch import Tensor

from unabridged.engine.attention.kernels.layout import PAGE, Bank, Kept, Rows
from unabridged.engine.attention.kernels.rope import NEAR, RopeTables

LLAMA_8B = Shape(32, 8, 128)
SMOLLM2 = Shape(9, 3, 64)
WIDE = Shape(16, 8, 256)
CONTEXT = 1 << 20


def empty(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """A tensor of the meta device."""
    return torch.empty(shape, dtype=dtype, device="meta")


def bank(shape: Shape, dtype: torch.dtype = FP8, sequences: int = 1) -> Bank:
    """A bank of CONTEXT tokens a sequence; keys and values share their slots."""
    pages = CONTEXT // PAGE
    k, v = (empty(sequences * shape.kv_heads * pages, PAGE, shape.dim, dtype=dtype) for _ in range(2))
    table = empty(sequences, shape.kv_heads, pages, dtype=torch.int32)
    return Bank(k, v, table, table, empty(shape.kv_heads), empty(shape.kv_heads))


def rows(count: int) -> Rows:
    """Blocks of queries."""
    return Rows(*(empty(count, dtype=torch.int32) for _ in range(4)))


def queries(count: int, tokens: int, shape: Shape) -> Tensor:
    """q `[count, tokens, H, D]` bfloat16."""
    return empty(count, tokens, shape.heads, shape.dim, dtype=torch.bfloat16)


def kept(count: int, lists: int, chunks: int) -> Kept:
    """Lists of chunks."""
    return Kept.empty(count, lists, chunks, "meta")


def rope(shape: Shape) -> RopeTables:
    """Tables for CONTEXT positions."""
    return RopeTables(empty(NEAR, 2, shape.dim // 2), empty(CONTEXT // NEAR, 2, shape.dim // 2))
