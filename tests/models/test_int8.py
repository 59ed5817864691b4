"""int8 matrices: rounded to the nearest value, and multiplied as the dequantised ones."""

import pytest
import torch

from unabridged.models import int8
from unabridged.models.int8 import Int8Linear, quantised


@pytest.fixture(params=[1 << 24, 100], ids=["one slice", "slices"])
def _slices(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(int8, "_SLICE", request.param)


@pytest.mark.usefixtures("_slices")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_entries_are_off_by_half_a_step_at_most(dtype: torch.dtype) -> None:
    weight = torch.randn(37, 50, generator=torch.Generator().manual_seed(1)).to(dtype)
    weight[3] = 0
    weight[4] *= 1e-6
    found = quantised(weight)
    assert found.values.dtype == torch.int8
    assert torch.equal(found.scales, weight.float().abs().amax(1) / 127)
    error = (found.values * found.scales[:, None] - weight.float()).abs().amax(1)
    assert (error <= found.scales * 0.5001).all()
    assert found.values[3].eq(0).all()


def test_the_largest_entry_becomes_127_of_its_sign() -> None:
    assert quantised(torch.tensor([[0.5, -2.0, 1.0], [3.0, 0.0, -3.0]])).values.tolist() == [
        [32, -127, 64],
        [127, 0, -127],
    ]


@pytest.mark.usefixtures("_slices", "nan_empty")
@pytest.mark.parametrize("rows", [1, 20])
def test_multiplies_as_the_dequantised_matrix(rows: int) -> None:
    random = torch.Generator().manual_seed(2)
    matrix, x = quantised(torch.randn(37, 50, generator=random)), torch.randn(rows, 50, generator=random)
    linear, wanted = Int8Linear(matrix), x.double() @ (matrix.values.double() * matrix.scales.double()[:, None]).t()
    torch.testing.assert_close(linear(x).double(), wanted, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(linear.add_to(x.new_ones(rows, 37), x).double(), wanted + 1, rtol=1e-5, atol=1e-5)


def test_half_precision_does_not_overflow() -> None:
    matrix = quantised(torch.ones(3, 4096, dtype=torch.float16) / 128)
    assert (Int8Linear(matrix)(torch.ones(2, 4096, dtype=torch.float16)) - 32).abs().max() < 0.1
