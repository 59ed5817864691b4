"""The residual stream: added and normed by the kernels as in plain PyTorch, alone and as a forward pass uses it."""

import pytest
import torch
from torch import Tensor

from unabridged.models import slices
from unabridged.models.fused import FusedResidual
from unabridged.models.kernels.add_norm import add, add_norm, add_norm_plain, add_plain
from unabridged.models.layers import Norm, SiluGated
from unabridged.models.linear import Dense

HALF, BRAIN, FULL = torch.float16, torch.bfloat16, torch.float32
# An addition more or less in another order, then a rounding to the result's dtype.
CLOSE = {HALF: 1e-3, BRAIN: 8e-3, FULL: 2e-6}


def _random(*shape: int, dtype: torch.dtype, device: str, seed: int = 1) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(device, dtype)


def _nan(like: Tensor, dtype: torch.dtype) -> Tensor:
    return torch.full(like.shape, torch.nan, dtype=dtype, device=like.device)


@pytest.mark.parametrize(("source", "kept", "part", "model"), [
    (FULL, FULL, FULL, HALF), (HALF, FULL, HALF, HALF), (BRAIN, FULL, FULL, BRAIN), (HALF, HALF, HALF, HALF),
])  # fmt: skip
@pytest.mark.parametrize(("rows", "hidden", "count"), [(1, 4096, 5), (3, 576, 1), (8, 2048, 16), (140, 80, 2)])
def test_adds_and_norms(
    rows: int,
    hidden: int,
    count: int,
    source: torch.dtype,
    kept: torch.dtype,
    part: torch.dtype,
    model: torch.dtype,
    device: str,
) -> None:
    x = _random(rows, hidden, dtype=source, device=device)
    parts = _random(count, rows, hidden, dtype=part, device=device, seed=2)
    weight = _random(hidden, dtype=model, device=device, seed=3)
    fast, plain = ((_nan(x, kept), _nan(x, model)) for _ in range(2))
    add_norm(x, parts, fast[0], weight, 1e-5, fast[1])
    add_norm_plain(x, parts, plain[0], weight, 1e-5, plain[1])
    for mine, theirs in zip(fast, plain, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=CLOSE[mine.dtype], atol=CLOSE[mine.dtype])


@pytest.mark.parametrize("rows", [1, 5])
def test_norms_with_nothing_to_add_and_keeps_nothing(rows: int, device: str) -> None:
    x = _random(rows, 576, dtype=HALF, device=device)
    weight = _random(576, dtype=HALF, device=device, seed=3)
    fast, plain = (_nan(x, HALF) for _ in range(2))
    add_norm(x, None, None, weight, 1e-5, fast)
    add_norm_plain(x, None, None, weight, 1e-5, plain)
    torch.testing.assert_close(fast, plain, rtol=1e-3, atol=1e-3)


def test_sums_in_place(device: str) -> None:
    x, parts = _random(3, 100, dtype=FULL, device=device), _random(2, 3, 100, dtype=HALF, device=device, seed=2)
    plain, out = _nan(x, FULL), _nan(x, FULL)
    add_plain(x, parts, plain)
    add_norm(x, parts, x, torch.ones(100, device=device), 1e-5, out)
    torch.testing.assert_close(x, plain, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(("rows", "hidden", "count"), [(1, 4096, 5), (7, 577, 1), (2, 33, 0), (300, 2048, 1)])
def test_adds(rows: int, hidden: int, count: int, device: str) -> None:
    x = _random(rows, hidden, dtype=FULL, device=device)
    parts = _random(count, rows, hidden, dtype=HALF, device=device, seed=2)
    fast, plain = (_nan(x, HALF) for _ in range(2))
    add(x, parts, fast)
    add_plain(x, parts, plain)
    assert torch.equal(fast, plain)


class _Split(Dense):
    """A projection whose product comes in three parts, as split kernels leave it."""

    def parts(self, x: Tensor) -> Tensor:
        pieces = zip(x.float().chunk(3, 1), self.weight.float().chunk(3, 1), strict=True)
        return torch.stack([a @ b.t() for a, b in pieces])


@pytest.mark.usefixtures("nan_empty")
@pytest.mark.parametrize("rows", [1, 9])
def test_a_stream_is_the_sum_of_what_was_added(rows: int, device: str) -> None:
    x = _random(rows, 96, dtype=HALF, device=device)
    weight = _random(96, 96, dtype=HALF, device=device, seed=2) / 10
    norm = Norm(_random(96, dtype=HALF, device=device, seed=3), 1e-6)
    stream, exact = FusedResidual(x.clone()), x.double()

    def same(found: Tensor, wanted: Tensor) -> None:
        assert found.dtype == HALF
        torch.testing.assert_close(found.double(), wanted, rtol=2e-3, atol=2e-3)

    def normed() -> Tensor:
        return torch.nn.functional.rms_norm(exact, (96,), norm.weight.double(), norm.eps)

    same(stream.normed(norm), normed())
    same(stream.value(), exact)
    for linear in (Dense(weight), _Split(weight), _Split(weight)):
        stream.add(linear, x)
        exact += x.double() @ weight.double().t()
    same(stream.value(), exact)
    same(stream.normed(norm), normed())
    stream.plus(x)
    exact += x
    stream.add(_Split(weight), x)
    exact += x.double() @ weight.double().t()
    same(stream.normed(norm), normed())
    same(stream.normed(norm), normed())
    same(stream.value(), exact)


def test_many_small_sums_are_not_lost_in_float16(device: str) -> None:
    x = torch.full((1, 64), 1024.0, dtype=HALF, device=device)
    stream, norm = FusedResidual(x), Norm(torch.ones(64, dtype=HALF, device=device), 1e-6)
    for _ in range(8):
        stream.plus(torch.full((1, 64), 0.25, dtype=HALF, device=device))
        stream.normed(norm)
    assert (stream.value() == 1026).all()


def test_a_sliced_mlp_adds_what_the_whole_one_does(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    x, up, down = (_random(*size, dtype=HALF, device=device) / 10 for size in ((9, 96), (128, 96), (96, 64)))
    gated, norm = SiluGated(Dense(up)), Norm(torch.ones(96, dtype=HALF, device=device), 1e-6)
    whole, sliced = FusedResidual(x.clone()), FusedResidual(x.clone())
    whole.add(Dense(down), gated(x))
    monkeypatch.setattr(slices, "SLICE", 4)
    sliced.add(slices.Sliced(gated, Dense(down)), x)
    torch.testing.assert_close(sliced.normed(norm), whole.normed(norm), rtol=2e-3, atol=2e-3)
    torch.testing.assert_close(sliced.value(), whole.value(), rtol=2e-3, atol=2e-3)
