"""int4 projections as a model uses them: a few rows or many, with bias, in parts, gated; runs of dequantised rows."""

from collections.abc import Callable

import pytest
import torch
from tests.kernels.made_w4 import int4
from torch import Tensor

from unabridged.models import quantised
from unabridged.models.config import Activation
from unabridged.models.kernels.gemv import gated_plain, multiply_plain
from unabridged.models.kernels.w4 import W4, pack
from unabridged.models.quantised import Quantised, QuantisedGated

pytestmark = pytest.mark.usefixtures("nan_empty")

ROWS, COLUMNS = 72, 96


@pytest.fixture(params=[1 << 20, 2 * 2 * COLUMNS * 35], ids=["whole", "runs"])
def _buffer(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bytes for dequantised weights: of all rows, or of 32 and then the other 4 of each half."""
    monkeypatch.setattr(quantised, "_buffers", {})
    monkeypatch.setattr(quantised, "BUFFER", request.param)


def _case(tokens: int, device: str) -> tuple[W4, Tensor, Tensor]:
    random = torch.Generator().manual_seed(tokens)
    x, bias = torch.randn(tokens, COLUMNS, generator=random).half(), torch.randn(ROWS, generator=random).half()
    return pack(*int4(ROWS, COLUMNS, 32, device)), x.to(device), bias.to(device)


def _close(found: Tensor, expected: Tensor) -> None:
    assert found.shape == expected.shape
    assert float((found.float() - expected).norm() / expected.norm()) < 1e-3


def _check_linear(tokens: int, device: str) -> None:
    w, x, bias = _case(tokens, device)
    expected = multiply_plain(x, w)
    _close(Quantised(w)(x), expected)
    _close(Quantised(w, bias)(x), expected + bias)
    _close(Quantised(w, bias).parts(x).sum(0), expected + bias)


@pytest.mark.parametrize("tokens", [1, 16])
def test_a_few_rows(tokens: int, device: str) -> None:
    _check_linear(tokens, device)


@pytest.mark.usefixtures("_buffer")
def test_many_rows(device: str) -> None:
    _check_linear(quantised.FEW + 1, device)


@pytest.mark.thorough
def test_several_times_a_few_rows(device: str) -> None:
    _check_linear(19, device)


def test_onto_a_residual(device: str) -> None:
    w, x, bias = _case(3, device)
    residual = torch.randn(3, ROWS).half().to(device)
    expected = multiply_plain(x, w) + bias + residual
    assert Quantised(w, bias).add_to(residual, x) is residual
    _close(residual, expected)


@pytest.mark.parametrize(("tokens", "activation"), [(2, "silu"), (19, "gelu_tanh")])
def test_gated(tokens: int, activation: Activation, device: str) -> None:
    w, x, _ = _case(tokens, device)
    _close(QuantisedGated(w, activation)(x), gated_plain(x, w, activation))


@pytest.mark.usefixtures("_buffer")
@pytest.mark.parametrize("activation", ["silu", "gelu_tanh"])
def test_gated_many_rows(activation: Activation, device: str) -> None:
    w, x, _ = _case(quantised.FEW + 1, device)
    _close(QuantisedGated(w, activation)(x), gated_plain(x, w, activation))


@pytest.mark.parametrize("make", [Quantised, QuantisedGated])
def test_no_rows(make: Callable[[W4], Quantised | QuantisedGated], device: str) -> None:
    w, x, _ = _case(1, device)
    assert make(w)(x[:0]).numel() == 0
