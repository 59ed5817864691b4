"""Prefill's sparse attention against the plain implementation."""

from dataclasses import dataclass

import pytest
import torch
from tests.kernels import made
from torch import Tensor

from unabridged.engine.attention.config import AttentionRope
from unabridged.engine.attention.kernels.attend_prefill import attend_prefill
from unabridged.engine.attention.kernels.layout import Bank, Kept, Rows
from unabridged.engine.attention.kernels.oracle import BankKeys
from unabridged.engine.attention.kernels.rope import RopeTables
from unabridged.engine.attention.positions import Rules
from unabridged.engine.attention.reference import Attended, attended_index, sparse_attention
from unabridged.engine.attention.rope import Rotary
from unabridged.engine.attention.select import Block


@dataclass(frozen=True)
class Case:
    """Blocks of `tokens` queries: (sequence, first, limit) each, over sequences of `lengths` tokens."""

    shape: made.Shape
    lengths: list[int]
    blocks: list[tuple[int, int, int]]
    tokens: int = 16
    chunk: int = 16
    sink: int = 16
    kept: int = 3
    lists: int = 0
    style: AttentionRope = "streaming"
    dtype: torch.dtype = torch.bfloat16
    divisor: int = 1

    @property
    def stream(self) -> int:
        """The furthest that a block's first query stands behind its limit."""
        return max(first - limit for _, first, limit in self.blocks)


LLAMA = made.Shape(8, 2, 128)
SMOL = made.Shape(3, 1, 64)
CASES = {
    "llama-fp8": Case(LLAMA, [300, 130], [(0, 208, 144), (1, 64, 0), (0, 96, 32)], dtype=made.FP8),
    "smol": Case(SMOL, [250], [(0, 224, 160), (0, 0, 0)], sink=5, kept=9),
    "ends-early": Case(SMOL, [50], [(0, 48, 16)], dtype=torch.float16),
    "64": Case(made.Shape(2, 1, 64), [400], [(0, 320, 256)], tokens=64, kept=6, dtype=made.FP8),
    "joint": Case(LLAMA, [200], [(0, 160, 96)], lists=1, sink=7, chunk=32, kept=2),
    "chunks-of-8": Case(SMOL, [200], [(0, 160, 112)], sink=20, chunk=8, kept=7, style="true"),
    "chunks-of-64": Case(SMOL, [400], [(0, 368, 288)], sink=16, chunk=64, kept=2, style="dynamic-extend", divisor=3),
    "infllm": Case(made.Shape(7, 1, 96), [200], [(0, 160, 112)], style="infllm"),
    "wide-heads": Case(made.Shape(5, 1, 256), [120], [(0, 96, 64)], style="true", dtype=made.FP8),
    "shorter-than-sink": Case(SMOL, [64], [(0, 48, 16)], sink=32, kept=1),
}


@pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
def test_agrees_with_the_reference(case: Case, device: str) -> None:
    check(case, device)


@pytest.mark.thorough
def test_a_stream_of_more_positions_than_the_near_table_has(device: str) -> None:
    check(Case(made.Shape(1, 1, 64), [8240], [(0, 8224, 16)], kept=1, style="infllm"), device)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("dtype", [made.FP8, torch.bfloat16], ids=["fp8", "bf16"])
@pytest.mark.parametrize("tokens", [16, 32, 64, 128])
@pytest.mark.parametrize("style", ["streaming", "dynamic-extend", "infllm", "true"])
def test_agrees_at_length(style: AttentionRope, tokens: int, dtype: torch.dtype, device: str) -> None:
    blocks = [(0, 300_032 - 128, 300_032 - 1152), (1, 20_096, 19_072), (2, 1024, 0), (0, 150_016, 148_992)]
    shape = made.Shape(8, 2, 128)
    check(Case(shape, [300_020, 20_500, 1200], blocks, tokens, 16, 256, 128, 0, style, dtype, 5), device)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("dim", [64, 96, 128, 256])
@pytest.mark.parametrize("group", range(1, 9))
def test_agrees_for_every_geometry(group: int, dim: int, device: str) -> None:
    blocks = [(0, 4992, 4000), (1, 640, 0)]
    check(Case(made.Shape(2 * group, 2, dim), [5000, 700], blocks, 64, 16, 64, 40, dtype=made.FP8), device)


def check(case: Case, device: str) -> None:
    """Run the kernel over poisoned outputs; queries behind a sequence's end are left out of the comparison."""
    bank = made.bank(case.lengths, case.shape, case.dtype, device)
    sequences, firsts, limits = (list(column) for column in zip(*case.blocks, strict=True))
    rows = made.rows(sequences, firsts, limits, device, case.divisor)
    q = made.queries(rows.count, case.tokens, case.shape, torch.bfloat16, device)
    kept = random_chunks(case, device)
    out = torch.full_like(q, torch.nan)
    lse = torch.full(q.shape[:3], torch.nan, device=device)
    rotary, tables = rope(case, device)
    attend_prefill(q, rows, bank, kept, case.chunk, case.sink, case.stream, case.style, tables, out, lse)
    for number, (sequence, first, _) in enumerate(case.blocks):
        real = min(case.tokens, case.lengths[sequence] - first)
        expected = oracle(case, number, q, rows, bank, kept, rotary)
        near(out[number, :real].cpu(), expected.out[0].transpose(0, 1)[:real], device)
        near(lse[number, :real].cpu(), expected.lse[0].transpose(0, 1)[:real], device)


def near(got: Tensor, expected: Tensor, device: str) -> None:
    """Relative error: of one rounding of the output in the interpreter, which truncates; of bfloat16 products."""
    error = (got.float() - expected).norm() / expected.norm()
    assert error < (1e-2 if device == "cuda" else 5e-3), error


def rope(case: Case, device: str) -> tuple[Rotary, RopeTables]:
    """The reference's rotation and the kernel's."""
    half = case.shape.dim // 2
    inv_freq = 10000.0 ** -(torch.arange(half) / half)
    longest = max(first for _, first, _ in case.blocks) + case.tokens
    return Rotary(inv_freq), RopeTables.of(inv_freq, longest, device)


def random_chunks(case: Case, device: str) -> Kept:
    """Chunks of [sink, limit), another number of them in each list, the last possible one always among them."""
    random = torch.Generator().manual_seed(5)
    kept = Kept.empty(len(case.blocks), case.lists or case.shape.kv_heads, case.kept, "cpu")
    kept.starts.fill_(-1)
    kept.count.fill_(0)
    for row, (_, _, limit) in enumerate(case.blocks):
        there = len(range(case.sink, limit, case.chunk))
        for number in range(kept.count.shape[1]):
            count = max(0, min(there, case.kept - number))
            if count:
                chosen = torch.randperm(there - 1, generator=random)[: count - 1].tolist()
                chunks = torch.tensor(sorted([*chosen, there - 1]), dtype=torch.int32)
                kept.starts[row, number, :count] = case.sink + chunks * case.chunk
                kept.count[row, number] = count
    return Kept(kept.starts.to(device), kept.count.to(device), kept.dropped.to(device))


def oracle(case: Case, number: int, q: Tensor, rows: Rows, bank: Bank, kept: Kept, rotary: Rotary) -> Attended:
    """One block by the plain implementation."""
    sequence, first, limit = case.blocks[number]
    limits = torch.tensor([limit])
    positions = first + torch.arange(case.tokens)[None]
    starts = kept.starts[number : number + 1].cpu().long()
    chosen = starts[..., None] + torch.arange(case.chunk)
    chosen = chosen.where((starts[..., None] >= 0) & (chosen < limit), -1).flatten(2)
    index = attended_index(
        chosen, limits, case.sink, torch.tensor([first + case.tokens]).clamp(max=case.lengths[sequence])
    )
    index = torch.stack([torch.cat([row[row >= 0], row[row < 0]]) for row in index[0]])[None]
    rules = Rules(case.stream, case.tokens, 1, 1)
    rules.scale = case.divisor
    here = Bank(*(x.cpu() for x in (bank.k, bank.v, bank.k_table, bank.v_table, bank.k_scale, bank.v_scale)))
    block = Block(q[number : number + 1].cpu().float().transpose(1, 2), positions, limits)
    return sparse_attention(block, index, Finite(here, sequence), rotary, case.style, rules)


class Finite(BankKeys):
    """Places without a token read as 0: the reference masks their scores, not their values."""

    def gather_both(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """See BankKeys."""
        k, v = super().gather_both(positions)
        return k.nan_to_num(), v.nan_to_num()
