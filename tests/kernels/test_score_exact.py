"""Exact chunk scores against `select.Selector`."""

from dataclasses import dataclass, replace

import pytest
import torch
from tests.kernels.made import FP8, Shape, bank, queries, rows
from torch import Tensor

from unabridged.engine.attention.config import SelectionRope, Stage
from unabridged.engine.attention.kernels import layout
from unabridged.engine.attention.kernels.layout import Bank, Kept, Rows
from unabridged.engine.attention.kernels.oracle import BankKeys
from unabridged.engine.attention.kernels.rope import RopeTables
from unabridged.engine.attention.kernels.score_exact import plan_score_exact, score_exact
from unabridged.engine.attention.positions import Rules
from unabridged.engine.attention.rope import Rotary
from unabridged.engine.attention.select import Block, Selector, Span

STREAM, DIVISOR = 32, 3


@dataclass(frozen=True)
class Case:
    """Rows of `tokens` queries over a bank of sequences, scored in chunks of `chunk`."""

    shape: Shape
    style: SelectionRope = "relative"
    chunk: int = 16
    tokens: int = 1
    average: int = 1
    dtype: torch.dtype = FP8
    lengths: tuple[int, ...] = (170, 100)
    limits: tuple[int, ...] = (160, 96)


class Averaged(Selector):
    """A selector that scores with means of neighbouring queries."""

    average = 1

    def queries(self, block: Block, chunks: Tensor) -> Tensor:
        """See Selector."""
        return torch.unflatten(super().queries(block, chunks), 2, (-1, self.average)).mean(3)


@dataclass(frozen=True)
class Made:
    """What a case's kernel reads."""

    q: Tensor
    rows: Rows
    bank: Bank
    rope: RopeTables
    inv_freq: Tensor

    @classmethod
    def of(cls, case: Case, device: str) -> "Made":
        """Row i reads sequence i % B and stands STREAM tokens behind its limit."""
        count = len(case.limits)
        sequence = [i % len(case.lengths) for i in range(count)]
        first = [limit + STREAM for limit in case.limits]
        inv_freq = 100.0 ** (-torch.arange(case.shape.dim // 2) / (case.shape.dim / 2))
        return cls(
            queries(count, case.tokens, case.shape, torch.bfloat16, device),
            rows(sequence, first, list(case.limits), device, DIVISOR),
            bank(list(case.lengths), case.shape, case.dtype, device),
            RopeTables.of(inv_freq, max(first) + case.tokens, device),
            inv_freq,
        )

    def reference(self, case: Case, row: int, candidates: Span | Tensor) -> Tensor:
        """`[G, C]` of one row; `candidates` as `Selector.prune` takes them."""
        rules = Rules(STREAM, 64, 1 << 20, 0)
        rules.scale = DIVISOR
        selector = Averaged(Rotary(self.inv_freq), case.style, "kv", rules)
        selector.average = case.average
        positions = int(self.rows.first[row]) + torch.arange(case.tokens)[None]
        block = Block(self.q[row].float().cpu().transpose(0, 1)[None], positions, self.rows.limits[row : row + 1].cpu())
        keys = BankKeys(on_cpu(self.bank), int(self.rows.sequence[row]))
        return selector.prune(block, candidates, keys, Stage(64, case.chunk, case.chunk, "exact")).scores[0]


def on_cpu(bank: Bank) -> Bank:
    return Bank(*(x.cpu() for x in (bank.k, bank.v, bank.k_table, bank.v_table, bank.k_scale, bank.v_scale)))


def run(case: Case, made: Made, candidates: layout.Span | Kept, chunks: int) -> Tensor:
    """Scores `[R, G, chunks]` that the kernel wrote over NaN."""
    scores = torch.full((len(case.limits), case.shape.kv_heads, chunks), torch.nan, device=made.q.device)
    score_exact(
        made.q, made.rows, made.bank, candidates, case.chunk, case.style, STREAM, made.rope, scores, case.average
    )
    return scores.cpu()


def check(case: Case, scores: Tensor, expected: list[Tensor]) -> None:
    """Equal where the reference has scores, -inf behind them."""
    wide = torch.stack(
        [torch.nn.functional.pad(x, (0, scores.shape[2] - x.shape[1]), value=-torch.inf) for x in expected]
    )
    finite = wide.isfinite()
    assert torch.equal(finite, scores.isfinite())
    assert bool((scores[~finite] == -torch.inf).all())
    error = (scores[finite] - wide[finite]).norm() / wide[finite].norm()
    assert error < (1e-2 if torch.cuda.is_available() else 1e-4)


SPANS = [
    Case(Shape(8, 2, 64), limits=(160, 96)),
    Case(Shape(3, 1, 96), dtype=torch.bfloat16, chunk=8),
    Case(Shape(2, 1, 128), "infllm", chunk=128, limits=(32, 96)),
    Case(Shape(2, 1, 64), "true", chunk=32, tokens=4, dtype=torch.float16),
    Case(Shape(5, 1, 96), "dynamic-extend", tokens=8, average=4),
    Case(Shape(4, 2, 64), "chunk-indexed", chunk=8, tokens=8, average=2),
    Case(Shape(8, 1, 256), tokens=2, lengths=(30, 150), limits=(16, 144)),
    Case(Shape(6, 1, 64), "chunk-indexed", tokens=64, average=2, lengths=(70,), limits=(64,)),
]


@pytest.mark.parametrize("case", SPANS)
def test_span(case: Case, device: str) -> None:
    made = Made.of(case, device)
    start = 32
    expected = [made.reference(case, i, Span(start, torch.tensor([limit]))) for i, limit in enumerate(case.limits)]
    check(case, run(case, made, layout.Span(start, 19), 19), expected)


def lists(case: Case, shared: bool, listed: int, width: int, seed: int = 5) -> Kept:
    """Random ascending lists of chunks of `listed` tokens; the first row's first list is empty."""
    random = torch.Generator().manual_seed(seed)
    heads = 1 if shared else case.shape.kv_heads
    starts = torch.full((len(case.limits), heads, width), -1, dtype=torch.int32)
    for row, limit in enumerate(case.limits):
        for head in range(heads):
            chunks = -(-max(0, limit - 16) // listed)
            own = (torch.randperm(chunks, generator=random)[: width - head] * listed + 16).sort().values
            starts[row, head, : len(own)] = own
    starts[0, 0] = -1
    return Kept(starts, (starts >= 0).sum(-1, dtype=torch.int32), torch.zeros(starts.shape[:2]))


def tokens_of(kept: Kept, row: int, listed: int, limit: int) -> Tensor:
    """A row's lists as index lists `[1, J, N]`."""
    starts = kept.starts[row].long()
    index = starts[..., None] + torch.arange(listed)
    return index.where((starts >= 0)[..., None] & (index < limit), -1).flatten(1)[None]


@dataclass(frozen=True)
class Lists:
    """A case over lists of chunks of `listed` tokens, one for all heads or one each."""

    case: Case
    shared: bool
    listed: int


LISTS = [
    Lists(Case(Shape(8, 2, 64)), False, 16),
    Lists(Case(Shape(4, 2, 128), dtype=torch.bfloat16, tokens=8, average=4), True, 16),
    Lists(Case(Shape(2, 2, 64), "chunk-indexed", chunk=8, limits=(160, 96)), False, 32),
    Lists(Case(Shape(4, 2, 64), "chunk-indexed", chunk=32, tokens=2), True, 64),
    Lists(Case(Shape(7, 1, 96), "dynamic-extend", chunk=8), False, 8),
    Lists(Case(Shape(2, 1, 64), "true", chunk=128), True, 128),
]


@pytest.mark.parametrize("given", LISTS)
def test_lists(given: Lists, device: str) -> None:
    case = given.case
    made = Made.of(case, device)
    kept = lists(case, given.shared, given.listed, width=7)
    expected = [made.reference(case, i, tokens_of(kept, i, given.listed, limit)) for i, limit in enumerate(case.limits)]
    moved = Kept(*(x.to(device) for x in (kept.starts, kept.count, kept.dropped)))
    check(case, run(case, made, moved, 7 * (given.listed // case.chunk)), expected)


def test_far_positions(device: str) -> None:
    case = Case(Shape(2, 1, 64), "true", lengths=(8500,), limits=(8400,))
    made = Made.of(case, device)
    kept = Kept(*(torch.tensor(x, dtype=torch.int32, device=device) for x in ([[[16, 8176, 8384]]], [[3]], [[0]])))
    expected = made.reference(
        case, 0, tokens_of(Kept(*(x.cpu() for x in (kept.starts, kept.count, kept.dropped))), 0, 16, 8400)
    )
    check(case, run(case, made, kept, 3), [expected])


@pytest.mark.parametrize(("average", "width"), [(3, 7), (1, 5)])
def test_refuses(average: int, width: int) -> None:
    case = Case(Shape(2, 1, 64), tokens=4)
    made = Made.of(case, "cpu")
    scores = torch.empty(3, 1, 14)
    kept = Kept.empty(3, 1, width, "cpu")
    with pytest.raises(ValueError, match="of"):
        plan_score_exact(made.q, made.rows, made.bank, kept, 16, "relative", STREAM, made.rope, scores, average)


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("style", "tokens", "dtype"),
    [
        ("relative", 64, FP8),
        ("relative", 1, torch.bfloat16),
        ("chunk-indexed", 1, FP8),
        ("true", 64, torch.bfloat16),
    ],
)
def test_long(style: SelectionRope, tokens: int, dtype: torch.dtype, device: str) -> None:
    case = Case(Shape(8, 2, 128), style, tokens=tokens, average=min(tokens, 4), dtype=dtype)
    case = replace(case, lengths=(300_000, 5), limits=(299_008, 0, 131_072))
    made = Made.of(case, device)
    expected = [made.reference(case, i, Span(256, torch.tensor([limit]))) for i, limit in enumerate(case.limits)]
    check(case, run(case, made, layout.Span(256, 20_000), 20_000), expected)
