"""Scoring chunks by the index, against the plain reference."""

from dataclasses import dataclass, replace

import pytest
import torch
from tests.kernels import made
from tests.kernels.test_index import basis, empty, tables
from torch import Tensor

from unabridged.engine.attention.config import SelectionRope
from unabridged.engine.attention.kernels.index import Codes, Index
from unabridged.engine.attention.kernels.index_columns import Columns, scores
from unabridged.engine.attention.kernels.index_gather import gather, room
from unabridged.engine.attention.kernels.layout import PAGE, Span
from unabridged.engine.attention.kernels.rope import RopeTables
from unabridged.engine.attention.kernels.score_index import score_index

STREAM = 40


@dataclass(frozen=True)
class Case:
    """Blocks of `tokens` queries over sequences of random codes."""

    shape: made.Shape
    lengths: tuple[int, ...]
    sequence: tuple[int, ...]
    limits: tuple[int, ...]
    span: Span
    tokens: int = 1
    average: int = 1
    chunk: int = 16
    style: SelectionRope = "relative"
    together: bool = False


CASES = [
    Case(made.Shape(8, 2, 128), (700, 320), (0, 1), (640, 272), Span(32, 40)),
    Case(made.Shape(3, 1, 64), (560,), (0, 0, 0), (512, 16, 0), Span(16, 37), style="infllm"),
    Case(made.Shape(9, 3, 64), (400,), (0,), (384,), Span(16, 23), tokens=8, average=2),
    Case(made.Shape(16, 2, 96), (300,), (0,), (288,), Span(64, 7), chunk=32),
    Case(made.Shape(2, 2, 256), (300,), (0,), (272,), Span(16, 16), tokens=4),
    Case(made.Shape(4, 1, 128), (200,), (0,), (192,), Span(16, 12), tokens=64, average=4),
    # Several whole tiles of a token's launch, and one that a limit cuts: of codes of 16, 8 and 32 bytes.
    Case(made.Shape(8, 2, 128), (2300, 1400), (0, 1), (2240, 1360), Span(32, 140)),
    Case(made.Shape(3, 1, 64), (2200,), (0,), (2176,), Span(16, 136), style="infllm"),
    Case(made.Shape(2, 2, 256), (1300,), (0,), (1248,), Span(16, 80), tokens=4),
    # Neighbours share programs: rows that fill none, limits that a tile separates, past the span, before it.
    Case(made.Shape(4, 1, 128), (700,), (0,) * 3, (368, 432, 640), Span(16, 36), 16, 2, together=True),
    Case(made.Shape(6, 2, 64), (400, 500), (1,) * 6, (0, 16, 80, 144, 400, 464), Span(16, 30), 8, together=True),
    Case(made.Shape(1, 1, 256), (400,), (0,) * 2, (320, 384), Span(16, 23), 16, together=True),
]
# Lengths of the real thing: several tiles a program, of every kind of launch.
LONG = [
    Case(made.Shape(32, 8, 128), (300_000,), (0,), (299_008,), Span(256, 18_734)),
    Case(made.Shape(32, 8, 128), (300_000,), (0,) * 7, tuple(range(298_512, 298_960, 64)), Span(256, 18_734), 64, 4),
    Case(made.Shape(9, 3, 64), (300_000,), (0,) * 2, (150_000, 299_008), Span(256, 18_734), 64, 8),
]


def random_index(case: Case, device: str) -> Index:
    """Random codes and scales, the largest scales past a sequence's length and in other pages, where no score may show
    them."""
    random = torch.Generator().manual_seed(5)
    index = empty(tables([length + 13 for length in case.lengths], device), basis(case.shape, device))
    index.codes.copy_(torch.randint(256, index.codes.shape, generator=random, dtype=torch.uint8))
    scales = torch.randint(40, 90, index.scales.shape, generator=random, dtype=torch.uint8).to(device)
    index.scales.fill_(255)
    for sequence, length in enumerate(case.lengths):
        at = torch.arange(length, device=device)
        page = index.table[sequence, at // PAGE].long()
        index.scales[:, page, at % PAGE] = scales[:, page, at % PAGE]
    return index


def run(case: Case, device: str, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Scores of the kernel and of the reference."""
    return run_on(random_index(case, device), case, device, dtype)


def run_on(index: Codes, case: Case, device: str, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """The same with an index of one's own."""
    shape, count = case.shape, len(case.sequence)
    rows = made.rows(list(case.sequence), [limit + STREAM for limit in case.limits], list(case.limits), device)
    q = made.queries(count, case.tokens, shape, dtype, device)
    inv_freq = 10000.0 ** -(torch.arange(shape.dim // 2) / (shape.dim // 2))
    group = shape.heads // shape.kv_heads
    columns = Columns.empty(count, shape.kv_heads, case.tokens // case.average * group, index.width, device)
    columns.steps.fill_(torch.nan)
    columns.tops.fill_(torch.nan)
    out = torch.full((count, shape.kv_heads, case.span.chunks), torch.nan, device=device)
    rope = RopeTables.of(inv_freq, 1024, device)
    score_index(
        q, rows, index, case.span, case.chunk, case.style, STREAM, rope, out, columns, case.average, case.together
    )
    return out, scores(turned(q, case, inv_freq), index, rows, case.span, case.chunk)


def turned(q: Tensor, case: Case, inv_freq: Tensor) -> Tensor:
    """Queries at their one position, neighbours averaged."""
    angle = inv_freq.to(q.device) * (STREAM + (case.style == "relative"))
    low, high = q.float().chunk(2, -1)
    full = torch.cat((low * angle.cos() - high * angle.sin(), high * angle.cos() + low * angle.sin()), -1)
    averaged: Tensor = full.unflatten(1, (-1, case.average)).mean(2)
    return averaged


@pytest.mark.parametrize(
    "case", CASES, ids=lambda case: f"{case.shape.dim}-{case.tokens}-{case.chunk}-{len(case.sequence)}"
)
def test_score(device: str, case: Case) -> None:
    agree(*run(case, device, torch.bfloat16))


@pytest.mark.parametrize("case", [case for case in CASES if case.span.chunks > 70], ids=CASES.index)
def test_a_program_that_scores_all_tiles_of_a_head(device: str, case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unabridged.engine.attention.kernels.score_index._PROGRAMS", 1)
    agree(*run(case, device, torch.bfloat16))


@pytest.mark.thorough
@pytest.mark.parametrize("case", [case for case in CASES if len(set(case.sequence)) == 1], ids=CASES.index)
def test_codes_in_order_score_the_same(device: str, case: Case) -> None:
    index = random_index(case, device)
    codes = room(index)
    gather(index, case.sequence[0], max(case.limits), codes)
    paged, ordered = (run_on(one, case, device, torch.bfloat16)[0] for one in (index, codes))
    assert torch.equal(paged, ordered)


@pytest.mark.gpu
@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize("case", LONG, ids=lambda case: f"{case.shape.dim}-{case.tokens}")
def test_score_long(device: str, case: Case, together: bool) -> None:
    agree(*run(replace(case, together=together), device, torch.bfloat16))


def agree(ours: Tensor, theirs: Tensor) -> None:
    exists = theirs > -torch.inf
    assert torch.equal(ours > -torch.inf, exists)
    assert not ours.isnan().any()
    # A coefficient that lies between two integers may go either way.
    assert (ours - theirs)[exists].norm() <= 2e-3 * theirs[exists].norm()


def test_other_ropes_are_refused(device: str) -> None:
    with pytest.raises(ValueError, match="chunk-indexed"):
        run(replace(CASES[0], style="chunk-indexed"), device, torch.float32)


@pytest.mark.thorough
@pytest.mark.parametrize("tokens", [1, 16], ids=["few", "many"])
def test_sequences_that_share_pages_score_like_sequences_of_their_own(device: str, tokens: int) -> None:
    case = replace(
        CASES[0], lengths=(1500, 1500), sequence=(0, 1), limits=(1464, 1480), span=Span(32, 96), tokens=tokens
    )
    index = random_index(case, device)
    shared = 416 // PAGE
    index.table[1, :shared] = index.table[0, :shared]
    apart = empty(tables([1513, 1513], device, spare=9), index.basis)
    for sequence in range(2):
        to, of = (one.table[sequence].long() for one in (apart, index))
        apart.codes[:, to], apart.scales[:, to] = index.codes[:, of], index.scales[:, of]
    together, expected = run_on(index, case, device, torch.bfloat16)
    agree(together, expected)
    assert torch.equal(together, run_on(apart, case, device, torch.bfloat16)[0])
    assert not torch.equal(together[0, :, 30:50], together[1, :, 30:50])


@pytest.mark.thorough
@pytest.mark.parametrize("tokens", [1, 16], ids=["few", "many"])
def test_a_row_without_pages_reads_nothing_outside(device: str, tokens: int) -> None:
    # The first row has no page; the second's limit lies past its table, as of a row that counts on without a sequence.
    case = replace(CASES[0], lengths=(1300, 320), limits=(1280, 1608), span=Span(32, 110), tokens=tokens)
    index = random_index(case, device)
    index.table[0].fill_(-1)
    # What lies behind codes, scales and tables must not be read: a page that is not there would fault or show.
    ours, _ = run_on(index, replace(case, limits=(0, 320)), device, torch.bfloat16)
    past, _ = run_on(index, case, device, torch.bfloat16)
    held = (index.table.shape[1] * PAGE - 32) // 16
    assert (past[1, :, held:] == -torch.inf).all()
    assert torch.equal(past[1, :, :18], ours[1, :, :18])
    assert not past.isnan().any()


def test_spans_begin_at_a_page(device: str) -> None:
    with pytest.raises(ValueError, match="chunks begin at 5"):
        run(replace(CASES[0], span=Span(5, 40)), device, torch.float32)
