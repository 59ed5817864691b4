"""Encoding keys into the index, against the plain reference."""

import pytest
import torch
from tests.kernels import made
from torch import Tensor

from unabridged.engine.attention.index_basis import Basis, width_of
from unabridged.engine.attention.kernels.index import CODES, Index, encode, encoded, levels, scale_values
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


def empty(sequences: int, room: int, shape: made.Shape, calibration: Basis) -> Index:
    """An index in which nothing was encoded: UNTOUCHED bytes."""
    size = sequences, shape.kv_heads, room, width_of(shape.dim)
    codes = torch.full(size, UNTOUCHED, dtype=torch.uint8, device=calibration.mean.device)
    return Index(codes, codes[..., 0].clone(), calibration)


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
    index = empty(2, 90, shape, basis(shape, device))
    start, end = [5, 33], [57, 33]
    encode(bank, index, counters(start, device), counters(end, device), 60)
    for sequence in range(2):
        written = torch.zeros(90, dtype=torch.bool, device=device)
        written[start[sequence] : end[sequence]] = True
        assert (index.codes[sequence][:, ~written] == UNTOUCHED).all()
        assert (index.scales[sequence][:, ~written] == UNTOUCHED).all()
    _, k = next(BankKeys(bank, 0).runs(5, 57))
    codes, scales = encoded(k, index.basis)
    off = (levels(codes) - levels(index.codes[0, :, 5:57])).abs()
    assert (off > 0).float().mean() < 1e-4
    assert off.max() <= 1
    steps = (index.scales[0, :, 5:57].int() - scales.int()).abs()
    assert steps.max() <= 1
    assert (steps > 0).float().mean() < 0.02


def test_a_mean_key_is_zero(device: str) -> None:
    shape = made.Shape(1, 1, 64)
    calibration = basis(shape, "cpu")
    _, scales = encoded(calibration.mean[:, None], calibration)
    assert scale_values(scales).tolist() == [[1.0]]


def test_encode_stops_at_most(device: str) -> None:
    shape = made.Shape(1, 1, 64)
    bank = made.bank([70], shape, torch.float32, device)
    index = empty(1, 70, shape, basis(shape, device))
    encode(bank, index, counters([0], device), counters([70], device), 40)
    assert (index.codes[0, 0, 40:] == UNTOUCHED).all()
    assert not (index.codes[0, 0, :40] == UNTOUCHED).all(1).any()
