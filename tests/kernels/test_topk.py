"""The kernels' top-K against the plain one, on scores that lie on its grid: the same chunks whatever the scores."""

import pytest
import torch
from torch import Tensor

from unabridged.engine.attention.config import Stage
from unabridged.engine.attention.kernels.layout import Kept, Span
from unabridged.engine.attention.kernels.topk import Scratch, keep_best
from unabridged.engine.attention.select import keep_best as reference

CHUNK = 16
START = 48


def _scores(kind: str, shape: tuple[int, int, int], seed: int) -> Tensor:
    """Scores on the grid; a list's last few chunks do not exist."""
    random = torch.Generator().manual_seed(seed)
    normal = torch.randn(shape, generator=random) * 3
    scores = {
        "normal": normal,
        "equal": torch.full(shape, 1.5),
        "two values": torch.where(normal > 2, 7.0, -7.0),
        "huge": normal.sinh() * 90,
        "neighbours": torch.randint(-3, 3, shape, generator=random) / 256 - 5,
        "none": torch.full(shape, -torch.inf),
    }[kind]
    fine = scores.clamp(-64, 64)
    grid = (fine * 256 + (scores.clamp(-1024, 1024) - fine) * 16).floor()
    scores = torch.where(grid.abs() <= 16384, grid / 256, grid.sign() * (64 + (grid.abs() - 16384) / 16))
    for row in range(shape[0]):
        scores[row, :, shape[2] - 1 - row :] = -torch.inf
    return scores.where(torch.rand(shape, generator=random) > 0.02, -torch.inf) if kind == "normal" else scores


def _listed(rows: int, lists: int, chunks: int, seed: int) -> Tensor:
    """First tokens of chunks, ascending with gaps."""
    random = torch.Generator().manual_seed(seed)
    steps = torch.randint(1, 3, (rows, lists, chunks), generator=random)
    return (START + CHUNK * steps.cumsum(-1)).int()


def _wanted(scores: Tensor, starts: Tensor, wanted: int, trail: int) -> list[list[list[int]]]:
    """Starts that the plain implementation keeps, of chunks that exist. Own scores `[R, J, C]`."""
    exists = scores > -torch.inf
    index = starts.expand(scores.shape)[..., None] + torch.arange(CHUNK)
    index = index.where(exists[..., None], -1)
    stage = Stage(64, CHUNK, wanted * CHUNK, "exact", trail)
    if not trail:
        # A plain top-K breaks ties as it likes; a stable sort keeps the lower place.
        best = scores.sort(dim=-1, descending=True, stable=True).indices[..., : min(wanted, scores.shape[-1])]
    else:
        best = reference(index.flatten(2), scores, stage).kept
    places = best.sort(-1).values
    kept = starts.expand(scores.shape).gather(-1, places)
    real = exists.gather(-1, places)
    return [[kept[r, j][real[r, j]].tolist() for j in range(kept.shape[1])] for r in range(len(kept))]


def _run(
    scores: Tensor, candidates: Span | Kept, wanted: int, join: bool, trail: int, scratch: Scratch, device: str
) -> Kept:
    lists = 1 if join else scores.shape[1]
    kept = Kept.empty(len(scores), lists, wanted, device)
    kept.starts.fill_(-7)
    kept.count.fill_(-7)
    kept.dropped.fill_(torch.nan)
    keep_best(scores.to(device), candidates, CHUNK, kept, join, trail, scratch)
    return kept


def _check(kept: Kept, own: Tensor, starts: Tensor, wanted: int, trail: int) -> None:
    expected = _wanted(own, starts, wanted, trail)
    for r in range(own.shape[0]):
        for j in range(own.shape[1]):
            chosen = expected[r][j]
            assert kept.starts[r, j].tolist() == chosen + [-1] * (wanted - len(chosen)), (r, j)
            assert kept.count[r, j] == len(chosen)
            taken = torch.isin(starts.expand(own.shape)[r, j], torch.tensor(chosen, dtype=torch.int32))
            dropped = own[r, j].masked_fill(taken, -torch.inf).logsumexp(-1)
            torch.testing.assert_close(kept.dropped[r, j].cpu(), dropped, rtol=1e-5, atol=1e-4)


# Every kind with some of the other settings in every run; all of them in slow ones.
SETTINGS = [(False, 0, True), (True, 1, False), (False, 2, True), (True, 0, True), (False, 1, False)]
KINDS = ["normal", "equal", "two values", "huge", "neighbours", "none"]
CASES = [
    pytest.param(kind, *setting, marks=[] if (number - place) % len(SETTINGS) == 0 else [pytest.mark.slow])
    for number, kind in enumerate(KINDS)
    for place, setting in enumerate(SETTINGS)
]
NARROW, WIDE = 1 << 20, 0
BOTH = pytest.mark.parametrize("narrow", [NARROW, WIDE], ids=["one program", "splits"])


@BOTH
@pytest.mark.parametrize(("kind", "join", "trail", "listed"), CASES)
def test_keeps_what_the_plain_one_keeps(
    kind: str, join: bool, trail: int, listed: bool, narrow: int, device: str
) -> None:
    rows, heads, chunks, wanted = (2, 3, 203, 37) if join else (1, 2, 203, 37)
    scores = _scores(kind, (rows, heads, chunks), seed=3)
    lists = 1 if join else heads
    ascending = (START + CHUNK * torch.arange(chunks)).int().expand(rows, 1, -1)
    starts = _listed(rows, lists, chunks, 5) if listed else ascending
    own = scores.amax(1, keepdim=True) if join else scores
    counts = (own > -torch.inf).sum(-1).int()
    holes = starts.expand(own.shape).where(own > -torch.inf, -1).contiguous()
    kept = Kept(holes.to(device), counts.to(device), torch.zeros(rows, lists, device=device))
    scratch = Scratch.of(rows * lists, chunks, device, narrow, block=128)
    found = _run(scores, kept if listed else Span(START, chunks), wanted, join, trail, scratch, device)
    _check(found, own, starts, wanted, trail)


@BOTH
@pytest.mark.parametrize(("chunks", "wanted"), [(1, 4), (64, 64), (130, 200), (300, 1)])
def test_odd_sizes(chunks: int, wanted: int, narrow: int, device: str) -> None:
    scores = _scores("normal", (1, 1, chunks), seed=chunks)
    scratch = Scratch.of(1, chunks, device, narrow, block=128)
    found = _run(scores, Span(START, chunks), wanted, False, 0, scratch, device)
    _check(found, scores, (START + CHUNK * torch.arange(chunks)).int(), wanted, 0)


@BOTH
def test_scratch_serves_again_and_again(narrow: int, device: str) -> None:
    scratch = Scratch.of(2, 130, device, narrow, block=128)
    for seed, chunks in enumerate((130, 77, 129)):
        scores = _scores("normal", (1, 1, chunks), seed)
        found = _run(scores, Span(START, chunks), 9, False, 1, scratch, device)
        _check(found, scores, (START + CHUNK * torch.arange(chunks)).int(), 9, 1)


@BOTH
def test_refuses_more_than_the_scratch_has_room_for(narrow: int, device: str) -> None:
    scratch = Scratch.of(1, 64, device, narrow, block=64)
    with pytest.raises(ValueError, match="65 scores"):
        _run(torch.zeros(1, 1, 65), Span(START, 65), 9, False, 0, scratch, device)


@BOTH
def test_a_nan_is_a_chunk_that_does_not_exist(narrow: int, device: str) -> None:
    scores = torch.tensor([[[1.0, torch.nan, 3.0, torch.nan, 2.0]]])
    scratch = Scratch.of(1, 5, device, narrow, block=32)
    found = _run(scores, Span(0, 5), 2, False, 0, scratch, device)
    assert found.starts.tolist() == [[[2 * CHUNK, 4 * CHUNK]]]
    assert found.dropped.tolist() == [[1.0]]


@BOTH
def test_longer_listed_chunks_are_scored_in_parts(narrow: int, device: str) -> None:
    listed = torch.tensor([[[0, 64, 256, -1]]], dtype=torch.int32, device=device)
    candidates = Kept(listed, torch.tensor([[3]], device=device).int(), torch.zeros(1, 1, device=device))
    scores = torch.tensor([[[0.0, 5.0, 1.0, 0.0, 0.0, 0.0, 0.0, 6.0, 4.0, 2.0, 0.0, 0.0] + [-torch.inf] * 4]])
    scratch = Scratch.of(1, 16, device, narrow, block=32)
    found = _run(scores, candidates, 3, False, 0, scratch, device)
    assert found.starts.tolist() == [[[16, 112, 256]]]
    # The last part of one chunk and the first of the next follow each other only where their positions do.
    found = _run(scores, candidates, 4, False, 1, scratch, device)
    assert found.starts.tolist() == [[[16, 32, 112, 256]]]


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("rows", "chunks", "wanted"), [(1, 65536, 2048), (1, 196608, 2048), (8, 65536, 512), (64, 2048, 128)]
)
@pytest.mark.parametrize("kind", ["normal", "equal", "two values", "huge", "neighbours"])
def test_real_sizes(kind: str, rows: int, chunks: int, wanted: int, device: str) -> None:
    scores = _scores(kind, (rows, 8, chunks), seed=1)
    scratch = Scratch.of(rows * 8, chunks, device)
    first, again = (_run(scores, Span(START, chunks), wanted, False, 1, scratch, device) for _ in range(2))
    assert torch.equal(first.starts, again.starts)
    assert torch.equal(first.dropped, again.dropped)
    _check(first, scores, (START + CHUNK * torch.arange(chunks)).int(), wanted, 1)


@pytest.mark.gpu
@pytest.mark.parametrize("chunks", [2048, 65536])
def test_a_graph_of_two_that_share_a_scratch(chunks: int, device: str) -> None:
    all_scores = [_scores(kind, (1, 8, chunks), seed=1) for kind in ("normal", "neighbours")]
    scratch = Scratch.of(8, chunks, device)
    kept = [_run(scores, Span(START, chunks), 128, False, 0, scratch, device) for scores in all_scores]
    on_device = [scores.to(device) for scores in all_scores]
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for scores, into in zip(on_device, kept, strict=True):
            keep_best(scores, Span(START, chunks), CHUNK, into, False, 0, scratch)
    for _ in range(3):
        for into in kept:
            into.starts.fill_(-7)
        graph.replay()
        for scores, found in zip(all_scores, kept, strict=True):
            _check(found, scores, (START + CHUNK * torch.arange(chunks)).int(), 128, 0)
