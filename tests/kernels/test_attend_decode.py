"""One query a sequence against the plain implementation: styles, number types, heads, lengths, how lists are cut."""

from dataclasses import dataclass

import pytest
import torch
from tests.kernels import made
from tests.kernels.made import FP8, Shape
from torch import Tensor

from unabridged.engine.attention.config import AttentionRope
from unabridged.engine.attention.kernels.attend_decode import Cut, Scratch, attend_decode, shares
from unabridged.engine.attention.kernels.layout import Bank, Kept
from unabridged.engine.attention.kernels.numbers import INTERPRETED
from unabridged.engine.attention.kernels.oracle import BankKeys
from unabridged.engine.attention.kernels.rope import RopeTables
from unabridged.engine.attention.positions import Rules, attention_keys, attention_queries
from unabridged.engine.attention.reference import attended_index, sparse_attention
from unabridged.engine.attention.rope import Rotary
from unabridged.engine.attention.select import Block

SMALL = Shape(2, 1, 64)
CUT = Cut(1, 6, 4)


@dataclass(frozen=True)
class Case:
    """Sequences of `lengths` tokens; the newest asks, `stream` before it are the stream (from a multiple of 16 on)."""

    lengths: tuple[int, ...]
    shape: Shape = SMALL
    style: AttentionRope = "streaming"
    dtype: torch.dtype = FP8
    chunk: int = 16
    sink: int = 32
    stream: int = 32
    keep: int = 4
    joined: bool = False
    divisor: int = 1
    cut: Cut | None = CUT


def kept_of(case: Case, limits: list[int], device: str) -> Kept | None:
    """Random chunks of each list; garbage behind the last."""
    if not case.keep:
        return None
    random = torch.Generator().manual_seed(3)
    lists = 1 if case.joined else case.shape.kv_heads
    kept = Kept.empty(len(limits), lists, case.keep, "cpu")
    kept.starts.fill_(-1)
    kept.count.zero_()
    for row, limit in enumerate(limits):
        chunks = max(0, -(-(limit - case.sink) // case.chunk))
        for one in range(lists):
            wanted = min(case.keep - row % 2, chunks)
            # The last chunk, which a limit may cut short, is always among them.
            others = torch.randperm(max(0, chunks - 1), generator=random)[: max(0, wanted - 1)].tolist()
            starts = sorted({*others, chunks - 1} if wanted else set())
            kept.starts[row, one, : len(starts)] = case.sink + case.chunk * torch.tensor(starts, dtype=torch.int32)
            kept.count[row, one] = len(starts)
    return Kept(kept.starts.to(device), kept.count.to(device), kept.dropped.to(device))


def index_of(case: Case, kept: Kept | None, row: int, limit: int, end: int) -> Tensor:
    """The reference's list of one row, without the chunks that are not there: `[1, J, N]`, padded at the end."""
    limits, ends = torch.tensor([limit]), torch.tensor([end])
    chosen = None
    if kept is not None:
        starts = kept.starts[row : row + 1].cpu().long()
        tokens = starts[..., None] + torch.arange(case.chunk)
        chosen = tokens.where((starts[..., None] >= 0) & (tokens < limit), -1).flatten(2)
    return attended_index(chosen, limits, case.sink, ends)


def check(case: Case, device: str, with_mass: bool = False, repeats: int = 0) -> None:
    """Output, log-sum and masses of every row, all written."""
    shape, count = case.shape, len(case.lengths)
    bank = made.bank(list(case.lengths), shape, case.dtype, device)
    own = [length - 1 for length in case.lengths]
    limits = [max(0, (at - case.stream) // 16 * 16) for at in own]
    rows = made.rows(list(range(count)), own, limits, device, case.divisor)
    kept = kept_of(case, limits, device)
    q = made.queries(count, 1, shape, torch.bfloat16, device)
    # As a projection of queries, keys and values leaves it.
    q = torch.cat([q, torch.full_like(q, torch.nan)], 2)[:, :, : shape.heads]
    rotary = Rotary(10000.0 ** (-torch.arange(0, shape.dim, 2).float() / shape.dim))
    rope = RopeTables.of(rotary._inv_freq, max(case.lengths) + 1, device)
    longest = case.sink + case.chunk * case.keep + max(at + 1 - limit for at, limit in zip(own, limits, strict=True))
    capacity = longest + 20
    cut = case.cut or Cut.of(capacity, count * shape.kv_heads, shape.dim)
    scratch = Scratch.of(q, shape.kv_heads, cut.splits)
    for left in (scratch.sums, scratch.state):
        left.fill_(torch.nan)
    out = torch.full(q.shape, torch.nan, dtype=q.dtype, device=device)
    lse = torch.full((count, shape.heads), torch.nan, device=device)
    mass = torch.full((count, shape.heads, -(-capacity // 16) + 1), torch.nan, device=device) if with_mass else None

    def run() -> None:
        attend_decode(
            q, rows, bank, kept, case.chunk, case.sink, case.style, rope, out, lse, scratch,
            capacity=capacity, mass=mass, cut=cut,
        )  # fmt: skip

    run()
    first = out.clone()
    for _ in range(repeats):
        out.fill_(torch.nan)
        run()
        assert torch.equal(out, first)
    assert not scratch.arrived.any()
    for row in range(count):
        expected = reference(case, bank, q[row].cpu().float(), kept, row, limits[row], own[row], rotary)
        assert near(out[row, 0].cpu().float(), expected.out), f"row {row}"
        assert near(lse[row].cpu(), expected.lse), f"row {row}"
        if mass is not None:
            chosen = torch.zeros(1) if kept is None else case.chunk * kept.count[row].cpu()
            lengths = min(case.sink, limits[row]) + chosen + own[row] + 1 - limits[row]
            found = shares(mass[row].cpu(), lengths.repeat_interleave(shape.heads // len(lengths)))
            wanted = torch.zeros_like(found)
            wanted[:, : expected.mass.shape[1]] = expected.mass
            assert near(found, wanted)


def near(found: Tensor, wanted: Tensor) -> bool:
    """Within rounding of the output, and on the GPU of dot products of bfloat16; NaN is not."""
    return float((found - wanted).norm() / wanted.norm()) < (4e-3 if INTERPRETED else 1e-2)


@dataclass(frozen=True)
class Expected:
    """out `[H, D]`, lse `[H]`, mass `[H, cells]`."""

    out: Tensor
    lse: Tensor
    mass: Tensor


def reference(
    case: Case, bank: Bank, q: Tensor, kept: Kept | None, row: int, limit: int, own: int, rotary: Rotary
) -> Expected:
    """What the plain implementation gives one row's q `[1, H, D]`."""
    here = Bank(*(x.cpu() for x in (bank.k, bank.v, bank.k_table, bank.v_table, bank.k_scale, bank.v_scale)))
    keys = BankKeys(here, row)
    rules = Rules(case.stream, 1, 1 << 30, 1)
    rules.scale = case.divisor
    block = Block(q.transpose(0, 1)[None], torch.tensor([[own]]), torch.tensor([limit]))
    index = index_of(case, kept, row, limit, own + 1)
    found = sparse_attention(block, index, keys, rotary, case.style, rules)
    k = rotary.rotate(
        keys.gather(index.expand(-1, keys.heads, -1)), attention_keys(case.style, index, block.limits, rules)
    )[0]
    at = attention_queries(case.style, block.positions, index, block.limits, rules)
    turned = rotary.rotate(q[0].unflatten(0, (keys.heads, -1)), at[0].expand(keys.heads, -1))
    logits = (turned @ k.transpose(1, 2) * case.shape.dim**-0.5).flatten(0, 1)
    group = case.shape.heads // keys.heads
    places = list_places(case, index[0], limit, keys.heads).repeat_interleave(group, 0)
    weights = (logits - found.lse[0]).exp().masked_fill(places < 0, 0)
    mass = torch.zeros(case.shape.heads, int(places.max()) // 16 + 1)
    mass.scatter_add_(1, places.clamp(min=0) // 16, weights)
    return Expected(found.out[0, :, 0], found.lse[0, :, 0], mass)


def list_places(case: Case, index: Tensor, limit: int, heads: int) -> Tensor:
    """Which places of the kernel's list the entries of the reference's `[J, N]` take; -1 for none: `[G, N]`."""
    places = torch.full_like(index, -1)
    sinks, middle = min(case.sink, limit), case.chunk * case.keep
    chunks = (
        index[:, case.sink : case.sink + middle].unflatten(1, (-1, case.chunk)) if case.keep else index[:, :0, None]
    )
    for one, row in enumerate(index):
        whole = int((chunks[one] >= 0).any(-1).sum()) * case.chunk
        for at in range(len(row)):
            if row[at] >= 0:
                back = 0 if at < case.sink + middle else case.sink + middle - sinks - whole
                places[one, at] = at - back
    return places.expand(heads, -1)


STYLES: tuple[AttentionRope, ...] = ("streaming", "dynamic-extend", "infllm", "true")


@pytest.mark.parametrize(
    ("style", "chunk", "sink"),
    [*((style, 16, 32) for style in STYLES), ("streaming", 8, 24), ("streaming", 32, 16), ("dynamic-extend", 32, 16)],
)
def test_styles_and_chunks(style: AttentionRope, chunk: int, sink: int, device: str) -> None:
    check(Case((333,), style=style, chunk=chunk, sink=sink, divisor=3), device)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("shape", "dtype"),
    [
        (Shape(8, 1, 64), torch.bfloat16),
        (Shape(1, 1, 96), FP8),
        (Shape(6, 2, 128), torch.float16),
        (Shape(3, 1, 256), FP8),
    ],
    ids=str,
)
def test_number_types_and_head_shapes(shape: Shape, dtype: torch.dtype, device: str) -> None:
    check(Case((201,), shape=shape, dtype=dtype, keep=3), device)


@pytest.mark.thorough
@pytest.mark.parametrize("length", [1, 16, 33, 97])
def test_shorter_than_sink_and_stream(length: int, device: str) -> None:
    check(Case((length,), stream=64), device, with_mass=True)


@pytest.mark.thorough
def test_sequences_of_different_lengths(device: str) -> None:
    check(Case((301, 25), Shape(4, 2, 64)), device, repeats=1)


@pytest.mark.thorough
@pytest.mark.parametrize("chunk", [8, 16, 32])
def test_masses_are_shares_of_places(chunk: int, device: str) -> None:
    check(Case((270,), chunk=chunk, sink=16), device, with_mass=True)


@pytest.mark.thorough
def test_all_heads_share_a_list(device: str) -> None:
    check(Case((290,), Shape(4, 2, 64), joined=True), device)


def test_nothing_kept_is_dense(device: str) -> None:
    check(Case((170, 31), keep=0, stream=1 << 20, style="true"), device, with_mass=True)


@pytest.mark.thorough
def test_a_row_without_a_sequence_counts_on(device: str) -> None:
    """Past its table and the capacity: nothing outside its own results is read or written."""
    case = Case((97, 25))
    bank, q = made.bank([97, 25], SMALL, FP8, device), made.queries(2, 1, SMALL, torch.bfloat16, device)
    rope = RopeTables.of(10000.0 ** (-torch.arange(0, 64, 2).float() / 64), 128, device)
    found = []
    for own, limit in ((24, 0), (400, 0), (400, 352)):
        rows = made.rows([0, 1], [96, own], [0, limit], device)
        mass = torch.full((3, 2, 8), torch.nan, device=device)
        out, lse = torch.full_like(q, torch.nan), torch.full((2, 2), torch.nan, device=device)
        cut = Cut(1, 2, 1)
        scratch = Scratch.of(q, 1, cut.splits)
        attend_decode(
            q, rows, bank, None, 16, case.sink, "streaming", rope, out, lse, scratch,
            capacity=100, mass=mass[:2], cut=cut,
        )  # fmt: skip
        assert mass[2].isnan().all()
        assert not scratch.arrived.any()
        found.append(
            torch.cat((out[0].flatten().float(), lse[0], shares(mass[0], torch.tensor(97, device=device)).flatten()))
        )
    assert found[0].isfinite().all()
    assert all(torch.equal(one, found[0]) for one in found)


def test_a_program_takes_several_tiles(device: str) -> None:
    check(Case((700,), cut=Cut(1, 2, 4), keep=20), device, with_mass=True)


@pytest.mark.thorough
def test_the_cut_that_is_chosen(device: str) -> None:
    check(Case((1500,), cut=None, keep=40), device)


@pytest.mark.gpu
@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("shape", [Shape(8, 2, 128), Shape(9, 3, 64), Shape(4, 2, 256)], ids=str)
def test_long_contexts(shape: Shape, style: AttentionRope, device: str) -> None:
    lengths = (300_001, 4_000)
    check(Case(lengths, shape, style, sink=256, stream=1024, keep=128, divisor=37, cut=None), device, True, repeats=20)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [FP8, torch.bfloat16], ids=str)
def test_long_dense(dtype: torch.dtype, device: str) -> None:
    check(Case((131_072,), Shape(4, 1, 128), "true", dtype, keep=0, stream=1 << 20, cut=None), device)
