"""SelectRep in a kernel: against the tournaments of the plain implementation, alone and stage after stage."""

from dataclasses import dataclass

import pytest
import torch
from _pytest.mark import ParameterSet
from tests.kernels import made
from torch import Tensor

from unabridged.engine.attention import select
from unabridged.engine.attention.config import Join, SelectionRope, Stage
from unabridged.engine.attention.kernels.layout import Bank, Kept, Rows, Span
from unabridged.engine.attention.kernels.oracle import BankKeys
from unabridged.engine.attention.kernels.rope import RopeTables
from unabridged.engine.attention.kernels.score_rep import score_rep
from unabridged.engine.attention.kernels.topk import Scratch, keep_best
from unabridged.engine.attention.positions import Rules
from unabridged.engine.attention.rope import Rotary

SINK, STREAM = 16, 48
SMALL = made.Shape(4, 2, 64)


@dataclass(frozen=True)
class Case:
    """Rows `(sequence, first, limit)` of `tokens` queries over sequences of `lengths` tokens, in chunks of `chunk`."""

    chunk: int = 16
    style: SelectionRope = "relative"
    shape: made.Shape = SMALL
    dtype: torch.dtype = torch.float32
    q_dtype: torch.dtype = torch.float32
    tokens: int = 1
    lengths: tuple[int, ...] = (300,)
    rows: tuple[tuple[int, int, int], ...] = ((0, 299, 240),)
    divisor: int = 1
    start: int = SINK
    # Entries of each list kept before, of `unit` tokens; None: the candidates are a span.
    kept: tuple[tuple[int, ...], ...] | None = None
    unit: int | None = None
    spare: int = 2


def inv_freq(dim: int) -> Tensor:
    return 10000.0 ** -(torch.arange(dim // 2) * 2 / dim)


def candidates(case: Case, rows: Rows, device: str) -> tuple[Span | Kept, int]:
    """For the kernel, and how many chunks wide its scores are."""
    if case.kept is None:
        chunks = -(-max(limit - case.start for _, _, limit in case.rows) // case.chunk) + case.spare
        return Span(case.start, chunks), chunks
    room = max(map(len, case.kept)) + case.spare
    kept = Kept.empty(rows.count, len(case.kept), room, device)
    kept.starts.fill_(-1)
    for j, starts in enumerate(case.kept):
        kept.starts[:, j, : len(starts)] = torch.tensor(starts, dtype=torch.int32)
        kept.count[:, j] = len(starts)
    return kept, room * (case.unit or case.chunk) // case.chunk


def expected(case: Case, q: Tensor, bank: Bank, width: int) -> Tensor:
    """`[R, G, C]` by the plain implementation, row by row."""
    out = torch.full((len(case.rows), case.shape.kv_heads, width), -torch.inf)
    rules = Rules(STREAM, 64, 8192, 0)
    rules.scale = case.divisor
    selector = select.Selector(Rotary(inv_freq(case.shape.dim)), case.style, "kv", rules)
    for r, (sequence, first, limit) in enumerate(case.rows):
        if limit <= case.start:
            continue
        block = select.Block(
            q[r].float().cpu().transpose(0, 1)[None],
            torch.arange(first, first + case.tokens)[None],
            torch.tensor([limit]),
        )
        span = select.Span(case.start, block.limits)
        index = span.index() if case.kept is None else index_of(case, limit)
        index = torch.nn.functional.pad(index, (0, -index.shape[-1] % case.chunk), value=-1)
        scores = selector._tournament(block, index, BankKeys(bank, sequence), case.chunk)[0]
        out[r, :, : scores.shape[-1]] = scores
    return out


def index_of(case: Case, limit: int) -> Tensor:
    """The kept chunks' tokens, `[1, J, N]`."""
    unit = case.unit or case.chunk
    assert case.kept is not None
    lists = torch.full((1, len(case.kept), max(map(len, case.kept)) * unit), -1)
    for j, starts in enumerate(case.kept):
        tokens = (torch.tensor(starts)[:, None] + torch.arange(unit)).flatten()
        lists[0, j, : len(tokens)] = tokens.where(tokens < limit, -1)
    return lists


def run(case: Case, device: str) -> tuple[Tensor, Tensor]:
    """What the kernel scores, and what it should."""
    bank = made.bank(list(case.lengths), case.shape, case.dtype, device)
    q = made.queries(len(case.rows), case.tokens, case.shape, case.q_dtype, device)
    sequence, first, limits = (list(column) for column in zip(*case.rows, strict=True))
    rows = made.rows(sequence, first, limits, device, case.divisor)
    given, width = candidates(case, rows, device)
    rope = RopeTables.of(inv_freq(case.shape.dim), max(case.lengths), device)
    scores = torch.full((rows.count, case.shape.kv_heads, width), torch.nan, device=device)
    score_rep(q, rows, bank, given, case.chunk, case.style, STREAM, rope, scores, case.unit)
    return scores.cpu(), expected(case, q, on_cpu(bank), width)


def on_cpu(bank: Bank) -> Bank:
    return Bank(*(x.cpu() for x in (bank.k, bank.v, bank.k_table, bank.v_table, bank.k_scale, bank.v_scale)))


KEPT = ((16, 80, 176), (48, 112, 144, 208))

CASES = {
    "relative": Case(),
    "infllm": Case(style="infllm"),
    "chunk-indexed": Case(style="chunk-indexed"),
    "true": Case(style="true"),
    "dynamic extend": Case(style="dynamic-extend", divisor=3),
    "odd group, FP8": Case(shape=made.Shape(9, 3, 64), dtype=made.FP8, chunk=32, q_dtype=torch.bfloat16),
    "96 dimensions, bf16": Case(shape=made.Shape(5, 1, 96), dtype=torch.bfloat16, q_dtype=torch.bfloat16),
    "96 dimensions, turned": Case(shape=made.Shape(2, 1, 96), style="chunk-indexed", dtype=torch.float16),
    "128 dimensions, whole group": Case(shape=made.Shape(8, 1, 128), dtype=made.FP8, chunk=8),
    "256 dimensions": Case(shape=made.Shape(2, 2, 256), chunk=64),
    "a long chunk, cut": Case(chunk=256, lengths=(500,), rows=((0, 480, 16 + 256 + 64),)),
    "one token": Case(chunk=1, rows=((0, 90, 32),)),
    "sequences, short ones too": Case(
        lengths=(300, 40, 150), rows=((2, 149, 96), (0, 280, 240), (1, 39, 0), (0, 150, 112)), chunk=32
    ),
    "lists": Case(kept=KEPT, unit=32, chunk=8, rows=((0, 299, 224),)),
    "a list for all, chunk-indexed": Case(
        kept=KEPT[1:], unit=32, chunk=8, style="chunk-indexed", rows=((0, 299, 224),)
    ),
    "lists, chunk-indexed": Case(kept=KEPT, unit=32, chunk=16, style="chunk-indexed", rows=((0, 299, 224),)),
    "lists of whole chunks": Case(kept=KEPT, chunk=32, style="true", rows=((0, 299, 240),)),
    "an empty list": Case(kept=((), (16,)), chunk=16, style="chunk-indexed"),
}
MANY = {
    "relative": Case(tokens=16, rows=((0, 256, 208),)),
    "infllm, odd number of queries": Case(tokens=5, style="infllm", rows=((0, 256, 208),)),
    "chunk-indexed": Case(tokens=16, style="chunk-indexed", chunk=32, rows=((0, 256, 208),)),
    "near the start": Case(tokens=16, style="chunk-indexed", chunk=1, lengths=(64,), rows=((0, 48, 32),), start=1),
    "true": Case(tokens=16, style="true", shape=made.Shape(3, 1, 96), rows=((0, 256, 208),)),
    "dynamic extend": Case(tokens=16, style="dynamic-extend", divisor=3, dtype=torch.float16, rows=((0, 256, 208),)),
    "256 dimensions": Case(tokens=16, shape=made.Shape(2, 2, 256), rows=((0, 256, 208),)),
    "rows": Case(
        tokens=16,
        chunk=64,
        lengths=(300, 20),
        rows=((0, 256, 208), (1, 0, 0), (0, 128, 80)),
        shape=made.Shape(2, 1, 64),
    ),
    "lists": Case(tokens=16, kept=KEPT, unit=32, chunk=8, rows=((0, 256, 224),)),
}


# What other cases cover too, at the interpreter's speed.
SLOW = {
    "relative", "96 dimensions, bf16", "lists", "lists of whole chunks", "a list for all, chunk-indexed",
}  # fmt: skip


def named(cases: dict[str, Case]) -> list[ParameterSet]:
    return [pytest.param(case, id=name, marks=[pytest.mark.slow] * (name in SLOW)) for name, case in cases.items()]


@pytest.mark.parametrize("case", named(CASES))
def test_one_query(case: Case, device: str) -> None:
    torch.testing.assert_close(*run(case, device), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("case", named(MANY))
def test_many_queries(case: Case, device: str) -> None:
    torch.testing.assert_close(*run(case, device), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", [made.FP8, torch.bfloat16])
def test_short_products(dtype: torch.dtype, device: str) -> None:
    """Products of 16-bit numbers decide a near tie differently: then another key stands for a chunk, in few chunks."""
    shape = made.Shape(4, 2, 128)
    case = Case(tokens=16, chunk=4, shape=shape, dtype=dtype, q_dtype=torch.bfloat16, rows=((0, 256, 208),))
    found, wanted = run(case, device)
    exists = wanted > -torch.inf
    assert torch.equal(found > -torch.inf, exists)
    off = (found - wanted)[exists].abs() > 0.02 * wanted[exists].abs().clamp(min=1)
    assert off.float().mean() <= 0.1


@pytest.mark.parametrize(("join", "style", "tokens"), [("kv", "relative", 1), ("joint", "chunk-indexed", 16)])
def test_stages(join: Join, style: SelectionRope, tokens: int, device: str) -> None:
    """The paper's three stages keep what the plain implementation keeps."""
    stages = tuple(Stage(tokens, chunk, keep) for chunk, keep in ((64, 256), (16, 96), (4, 32)))
    limit, first = 464, 512
    bank = made.bank([first + tokens], SMALL, torch.float32, device)
    # Sharp, lest scores at a cut be one on the grid on which they are ranked.
    q = made.queries(1, tokens, SMALL, torch.float32, device) * 16
    rows, rope = made.rows([0], [first], [limit], device), RopeTables.of(inv_freq(SMALL.dim), first + tokens, device)
    chunks = (limit - SINK) // stages[0].chunk
    given: Span | Kept = Span(SINK, chunks)
    unit, lists = stages[0].chunk, 1 if join == "joint" else SMALL.kv_heads
    for stage in stages:
        scores = torch.full((1, SMALL.kv_heads, chunks * unit // stage.chunk), torch.nan, device=device)
        score_rep(q, rows, bank, given, stage.chunk, style, STREAM, rope, scores, unit)
        chunks, unit = stage.keep // stage.chunk, stage.chunk
        kept = Kept.empty(1, lists, chunks, device)
        keep_best(scores, given, stage.chunk, kept, join == "joint", 0, Scratch.of(lists, scores.shape[2], device))
        given = kept

    selector = select.Selector(Rotary(inv_freq(SMALL.dim)), style, join, Rules(STREAM, 64, 8192, 0))
    positions = torch.arange(first, first + tokens)[None]
    block = select.Block(q.cpu().transpose(1, 2), positions, torch.tensor([limit]))
    _, selections = select.select(selector, block, BankKeys(on_cpu(bank), 0), stages, SINK)
    assert torch.equal(kept.starts.cpu().long(), selections[-1].index[..., :: stages[-1].chunk])
