"""Dense attention inside the window against the plain implementation."""

import pytest
import torch
from tests.kernels import made

from unabridged.engine.attention.kernels.dense import attend_dense
from unabridged.engine.attention.kernels.layout import Bank
from unabridged.engine.attention.kernels.oracle import BankKeys
from unabridged.engine.attention.kernels.rope import RopeTables
from unabridged.engine.attention.positions import Rules
from unabridged.engine.attention.reference import attended_index, sparse_attention
from unabridged.engine.attention.rope import Rotary
from unabridged.engine.attention.select import Block

CASES = [
    (made.Shape(3, 1, 64), made.FP8, 0, 50),
    (made.Shape(4, 4, 96), torch.bfloat16, 33, 70),
    (made.Shape(8, 2, 128), made.FP8, 130, 1),
    (made.Shape(4, 1, 256), torch.float16, 17, 20),
]


@pytest.mark.parametrize(("shape", "dtype", "first", "tokens"), CASES)
def test_agrees_with_the_reference(shape: made.Shape, dtype: torch.dtype, first: int, tokens: int, device: str) -> None:
    check(shape, dtype, first, tokens, device)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("dim", [64, 96, 128, 256])
@pytest.mark.parametrize("first", [0, 1, 3000, 20_000])
def test_agrees_at_length(first: int, dim: int, device: str) -> None:
    check(made.Shape(8, 2, dim), made.FP8, first, 333, device)


def check(shape: made.Shape, dtype: torch.dtype, first: int, tokens: int, device: str) -> None:
    """The second of two sequences, over a poisoned output."""
    length = first + tokens
    bank = made.bank([40, length], shape, dtype, device)
    # The interpreter truncates to bfloat16; float32 shows errors of the method alone.
    q = made.queries(1, tokens, shape, torch.bfloat16 if device == "cuda" else torch.float32, device)[0]
    inv_freq = 10000.0 ** -(torch.arange(shape.dim // 2) / (shape.dim // 2))
    out = torch.full_like(q, torch.nan)
    attend_dense(q, bank, 1, first, RopeTables.of(inv_freq, length, device), out)
    limits = torch.tensor([0])
    block = Block(q.cpu().float().transpose(0, 1)[None], first + torch.arange(tokens)[None], limits)
    index = attended_index(None, limits, 0, torch.tensor([length]))
    columns = (bank.k, bank.v, bank.k_table, bank.v_table, bank.k_scale, bank.v_scale)
    keys = BankKeys(Bank(*(x.cpu() for x in columns)), 1)
    expected = sparse_attention(block, index, keys, Rotary(inv_freq), "true", Rules(0, 64, 1, 1))
    error = (out.cpu().float() - expected.out[0].transpose(0, 1)).norm() / expected.out.norm()
    assert error < (1e-2 if device == "cuda" else 1e-5), error
