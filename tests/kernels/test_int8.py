"""int8 products with few rows, and rows looked up: as in plain PyTorch, whatever the sizes."""

import pytest
import torch
from torch import Tensor

from unabridged.models.int8 import Int8Linear, quantised
from unabridged.models.kernels.int8 import lookup, lookup_plain, multiply, multiply_plain, plan_multiply
from unabridged.models.wide import Wide

HALF, BRAIN, FULL = torch.float16, torch.bfloat16, torch.float32
CLOSE = {HALF: 2e-3, BRAIN: 1.6e-2, FULL: 1e-4}


def _x(rows: int, columns: int, dtype: torch.dtype, device: str) -> Tensor:
    return torch.randn(rows, columns, generator=torch.Generator().manual_seed(1)).to(device, dtype)


def _values(rows: int, columns: int, device: str) -> Tensor:
    values = torch.randint(-128, 128, (rows, columns), generator=torch.Generator().manual_seed(2), dtype=torch.int8)
    # Every byte in every place of a word.
    values.view(-1)[: 256 * 5] = (torch.arange(256 * 5) * 13 // 5).to(torch.int8)
    return values.to(device)


def _scales(rows: int, device: str) -> Tensor:
    return torch.rand(rows, generator=torch.Generator().manual_seed(3)).to(device) / 100


@pytest.mark.parametrize("dtype", [HALF, BRAIN, FULL], ids=str)
@pytest.mark.parametrize(("tokens", "rows", "columns"), [(1, 130, 512), (5, 1003, 576), (8, 64, 272), (16, 77, 1024)])
def test_multiplies(tokens: int, rows: int, columns: int, dtype: torch.dtype, device: str) -> None:
    x, values, scales = _x(tokens, columns, dtype, device), _values(rows, columns, device), _scales(rows, device)
    fast, plain = (torch.full((tokens, rows), torch.nan, dtype=dtype, device=device) for _ in range(2))
    multiply(x, values, scales, fast)
    multiply_plain(x, values, scales, plain)
    torch.testing.assert_close(fast, plain, rtol=CLOSE[dtype], atol=CLOSE[dtype] * 20)


def test_every_value_is_exact(device: str) -> None:
    values = torch.arange(-128, 128, dtype=torch.int8).repeat(256, 1).to(device)
    picked = torch.eye(256, dtype=HALF, device=device)[::17].contiguous()
    out = torch.full((16, 256), torch.nan, dtype=HALF, device=device)
    multiply(picked, values, None, out)
    assert torch.equal(out, values[:, ::17].t().to(HALF))


@pytest.mark.gpu
@pytest.mark.parametrize("tokens", [1, 8, 16])
def test_conversion_by_bits_is_the_compilers(tokens: int, device: str) -> None:
    x, values, scales = _x(tokens, 4096, HALF, device), _values(300, 4096, device), _scales(300, device)
    both = [torch.full((tokens, 300), torch.nan, dtype=HALF, device=device) for _ in range(2)]
    for bits, out in zip((False, True), both, strict=True):
        plan_multiply(x, values, scales, out, bits=bits).run()
    assert torch.equal(*both)


@pytest.mark.parametrize("dtype", [HALF, BRAIN, FULL], ids=str)
@pytest.mark.parametrize(("tokens", "rows", "columns"), [(1, 130, 512), (16, 77, 272)])
def test_multiplies_floating_weights(tokens: int, rows: int, columns: int, dtype: torch.dtype, device: str) -> None:
    x, weights = _x(tokens, columns, dtype, device), _x(rows, columns, dtype, device)
    fast, plain = (torch.full((tokens, rows), torch.nan, dtype=dtype, device=device) for _ in range(2))
    multiply(x, weights, None, fast)
    multiply_plain(x, weights, None, plain)
    torch.testing.assert_close(fast, plain, rtol=CLOSE[dtype], atol=CLOSE[dtype] * 20)


@pytest.mark.gpu
@pytest.mark.parametrize("tokens", [1, 16, 17])
def test_a_wide_matrix_takes_the_kernel_or_a_library(tokens: int, device: str) -> None:
    weight, x = _x(5000, 512, HALF, device), _x(tokens, 512, HALF, device)
    torch.testing.assert_close(Wide(weight)(x).float(), x.float() @ weight.float().t(), rtol=2e-3, atol=2e-2)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [HALF, BRAIN], ids=str)
def test_a_row_is_the_same_alone_and_with_others(dtype: torch.dtype, device: str) -> None:
    weight, x = _x(5000, 512, dtype, device), _x(8, 512, dtype, device)
    assert torch.equal(Wide(weight)(x)[3:4], Wide(weight)(x[3:4]))
    matrix = Int8Linear(quantised(weight))
    assert torch.equal(matrix(x)[3:4], matrix(x[3:4]))


@pytest.mark.gpu
@pytest.mark.parametrize("tokens", [1, 16, 17, 200])
def test_a_linear_layer_takes_the_kernel_or_slices(tokens: int, device: str) -> None:
    matrix = quantised(torch.randn(5000, 512, device=device, dtype=HALF))
    x = _x(tokens, 512, HALF, device)
    wanted = x.float() @ (matrix.values * matrix.scales[:, None]).t()
    torch.testing.assert_close(Int8Linear(matrix)(x).float(), wanted, rtol=2e-3, atol=5e-2)


@pytest.mark.parametrize("columns", [576, 1024])
@pytest.mark.parametrize("dtype", [HALF, BRAIN, FULL], ids=str)
def test_looks_up(columns: int, dtype: torch.dtype, device: str) -> None:
    values, scales = _values(50, columns, device), _scales(50, device)
    ids = torch.tensor([49, 0, 7, 7], device=device)
    fast, plain = (torch.full((4, columns), torch.nan, dtype=dtype, device=device) for _ in range(2))
    lookup(ids, values, scales, fast)
    lookup_plain(ids, values, scales, plain)
    # The interpreter cuts bfloat16 off.
    torch.testing.assert_close(fast, plain, rtol=8e-3 if dtype == BRAIN else 0.0, atol=0.0)
