"""Encoding keys into the index, against the plain reference."""

from collections.abc import Sequence

import pytest
import torch
from tests.kernels import made
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from unabridged.engine.attention.index_basis import Basis, width_of
from unabridged.engine.attention.kernels.index import CODES, Index, encode, encoded, levels, scale_values
from unabridged.engine.attention.kernels.index_gather import gather, gather_plain, room
from unabridged.engine.attention.kernels.layout import PAGE
from unabridged.engine.attention.kernels.oracle import BankKeys

FP8 = torch.float8_e4m3fn
UNTOUCHED = 0xA5


def basis(shape: made.Shape, device: str, seed: int = 2) -> Basis:
    """A random one whose numbers have the spread that their bits are made for."""
    random = torch.Generator().manual_seed(seed)
    width = width_of(shape.dim)
    turn = torch.linalg.qr(torch.randn(shape.kv_heads, shape.dim, shape.dim, generator=random)).Q[..., : 4 * width]
    spread = torch.tensor([2.8, 1.0, 0.6, 0.5]).repeat_interleave(width)
    mean = torch.randn(shape.kv_heads, shape.dim, generator=random) / 4
    weights = torch.rand(shape.kv_heads, 4 * width, generator=random) + 0.1
    weights /= (weights.sum(1, keepdim=True) * 4).sqrt()
    parts = (mean, turn * spread, turn / spread, weights)
    return Basis(*(part.contiguous().to(device) for part in parts))


def tables(rooms: Sequence[int], device: str, spare: int = 2) -> Tensor:
    """Pages of sequences with room for so many tokens each, permuted over all of them, -1 behind their rooms."""
    pages = [-(-room // PAGE) for room in rooms]
    order = (spare + torch.randperm(sum(pages), generator=torch.Generator().manual_seed(7))).int().split(pages)
    return pad_sequence(list(order), batch_first=True, padding_value=-1).to(device)


def empty(table: Tensor, calibration: Basis) -> Index:
    """An index in which nothing was encoded: UNTOUCHED bytes."""
    index = Index.empty(int(table.max()) + 3, table, calibration)
    index.codes.fill_(UNTOUCHED)
    index.scales.fill_(UNTOUCHED)
    return index


def counters(values: list[int], device: str) -> Tensor:
    return torch.tensor(values, dtype=torch.int32, device=device)


def test_levels_are_codes_and_a_half() -> None:
    code = levels(torch.arange(256, dtype=torch.uint8)[:, None])
    for plane, (low, high) in enumerate(CODES):
        assert sorted(set((code[:, plane] - 0.5).tolist())) == list(range(low, high + 1))
    assert levels(torch.tensor([0b1001_10_01], dtype=torch.uint8)).tolist() == [-6.5, -1.5, 0.5, -0.5]


def test_scales_keep_scores_unbiased() -> None:
    shape = made.Shape(2, 2, 64)
    calibration = basis(shape, "cpu")
    k = torch.randn(2, 400, 64)
    codes, scales = encoded(k, calibration)
    y = (k - calibration.mean[:, None]) @ calibration.key
    guess = levels(codes) * scale_values(scales)[..., None]
    weighted = calibration.weights[:, None] * y
    assert ((weighted * guess).sum() / (weighted * y).sum()).item() == pytest.approx(1, abs=0.01)


@pytest.mark.parametrize(
    ("dim", "dtype"), [(64, torch.bfloat16), (96, FP8), (128, torch.float16), (128, FP8), (256, torch.float32)]
)
def test_encode(device: str, dim: int, dtype: torch.dtype) -> None:
    shape = made.Shape(2, 2, dim)
    bank = made.bank([57, 33], shape, dtype, device)
    index = empty(tables([57, 33], device), basis(shape, device))
    start, end = [5, 33], [57, 33]
    encode(bank, index, counters(start, device), counters(end, device), 60)
    found_codes, found_scales = index.read(0, 5, 57)
    _, k = next(BankKeys(bank, 0).runs(5, 57))
    codes, scales = encoded(k, index.basis)
    off = (levels(codes) - levels(found_codes)).abs()
    assert (off > 0).float().mean() < 1e-4
    assert off.max() <= 1
    steps = (found_scales.int() - scales.int()).abs()
    assert steps.max() <= 1
    assert (steps > 0).float().mean() < 0.02
    written = index.table[0, torch.arange(5, 57, device=device) // PAGE].long(), torch.arange(5, 57) % PAGE
    index.codes[:, *written], index.scales[:, *written] = UNTOUCHED, UNTOUCHED
    assert (index.codes == UNTOUCHED).all()
    assert (index.scales == UNTOUCHED).all()


def test_a_mean_key_is_zero(device: str) -> None:
    shape = made.Shape(1, 1, 64)
    calibration = basis(shape, "cpu")
    _, scales = encoded(calibration.mean[:, None], calibration)
    assert scale_values(scales).tolist() == [[1.0]]


def test_encode_stops_at_most(device: str) -> None:
    shape = made.Shape(1, 1, 64)
    bank = made.bank([70], shape, torch.float32, device)
    index = empty(tables([70], device), basis(shape, device))
    encode(bank, index, counters([0], device), counters([70], device), 40)
    codes, _ = index.read(0, 0, 70)
    assert (codes[0, 40:] == UNTOUCHED).all()
    assert not (codes[0, :40] == UNTOUCHED).all(1).any()


def test_encode_writes_no_page_that_is_not_there(device: str) -> None:
    shape = made.Shape(1, 1, 64)
    bank = made.bank([64, 64, 64], shape, torch.float32, device)
    # The bank lacks the second sequence's first page, the index the third's; the first runs past its table's end.
    bank.k_table[1, :, 0] = -1
    table = tables([64, 64, 64], device)
    table[2, 0] = -1
    index = empty(table, basis(shape, device))
    start, end = counters([60, 0, 0], device), counters([90, 16, 16], device)
    encode(bank, index, start, end, 40)
    codes, _ = index.read(0, 60, 64)
    assert not (codes == UNTOUCHED).all(2).any()
    index.codes[:, table[0, 3], 12:] = UNTOUCHED
    assert (index.codes == UNTOUCHED).all()


@pytest.mark.parametrize("dim", [64, 128])
def test_gather(device: str, dim: int) -> None:
    index = empty(tables([700, 1200], device), basis(made.Shape(4, 2, dim), device))
    index.codes.random_(256)
    index.scales.random_(256)
    index.table[1, 3] = -1
    ours, theirs = room(index), room(index)
    for one in (ours, theirs):
        one.codes.fill_(UNTOUCHED)
        one.scales.fill_(UNTOUCHED)
    gather(index, 1, 1001, ours)
    gather_plain(index, 1, 1001, theirs)
    assert torch.equal(ours.codes, theirs.codes)
    assert torch.equal(ours.scales, theirs.scales)
    assert (ours.codes[:, 63:] == UNTOUCHED).all()
    assert torch.equal(ours.read(0, 64, 1001)[0], index.read(1, 64, 1001)[0])
    # More than the table has.
    gather(index, 0, 4000, ours)
    assert torch.equal(ours.read(0, 0, 700)[1], index.read(0, 0, 700)[1])
