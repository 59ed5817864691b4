"""int4 projections as a model uses them: a few rows or many, with bias, in parts, gated; runs of dequantised rows."""

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


@pytest.fixture(params=[None, 48 * 2 * 96 * 2], ids=["whole", "runs"], autouse=True)
def _buffer(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs: dequantised weights take turns, 32 of the 68 rows of a half at a time."""
    monkeypatch.setattr(quantised, "_buffers", {})
    if request.param is not None:
        monkeypatch.setattr(quantised, "_BUFFER", request.param)


def _case(tokens: int, device: str) -> tuple[W4, Tensor, Tensor]:
    random = torch.Generator().manual_seed(tokens)
    x, bias = torch.randn(tokens, 96, generator=random).half(), torch.randn(136, generator=random).half()
    return pack(*int4(136, 96, 32, device)), x.to(device), bias.to(device)


def _close(found: Tensor, expected: Tensor) -> None:
    assert found.shape == expected.shape
    assert float((found.float() - expected).norm() / expected.norm()) < 1e-3


@pytest.mark.parametrize("tokens", [1, 16, 17])
def test_linear(tokens: int, device: str) -> None:
    w, x, bias = _case(tokens, device)
    expected = multiply_plain(x, w)
    residual = torch.randn(tokens, 136).half().to(device)
    _close(Quantised(w)(x), expected)
    _close(Quantised(w, bias)(x), expected + bias)
    _close(Quantised(w, bias).parts(x).sum(0), expected + bias)
    added = Quantised(w).add_to(residual.clone(), x)
    _close(added, expected + residual)
    assert added.dtype == Quantised(w)(x).dtype == torch.float16


@pytest.mark.parametrize("activation", ["silu", "gelu_tanh"])
@pytest.mark.parametrize("tokens", [2, 18])
def test_gated(tokens: int, activation: Activation, device: str) -> None:
    w, x, _ = _case(tokens, device)
    _close(QuantisedGated(w, activation)(x), gated_plain(x, w, activation))


def test_projections_share_one_buffer(device: str) -> None:
    w, x, _ = _case(17, device)
    first, second = Quantised(w), QuantisedGated(w)
    first(x)
    second(x)
    assert len(quantised._buffers) == 1
