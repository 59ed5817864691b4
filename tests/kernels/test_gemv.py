"""Products of a few rows with int4 weights against float32 ones: whole, in parts, gated; odd sizes; PTX or not."""

import pytest
import torch
from tests.kernels.made_w4 import int4
from torch import Tensor

from unabridged.models.config import Activation
from unabridged.models.kernels.gemv import (
    Tiling,
    gated_plain,
    multiply_gated,
    multiply_parts,
    multiply_plain,
    multiply_whole,
    plan_gated,
    plan_parts,
    plan_whole,
    splits,
)
from unabridged.models.kernels.w4 import W4, pack

# Rows and columns of the weights, group, rows of x: tails of tiles, of halves, of groups among warps.
SHAPES = [(8, 32, 32, 1), (136, 192, 64, 3), (64, 384, 128, 8), (72, 96, 32, 13)]


def _case(rows: int, columns: int, group: int, tokens: int, device: str) -> tuple[W4, Tensor]:
    random = torch.Generator().manual_seed(4)
    x = torch.randn(tokens, columns, generator=random).half().to(device)
    return pack(*int4(rows, columns, group, device)), x


def _close(found: Tensor, expected: Tensor) -> None:
    assert found.shape == expected.shape
    error = (found.float() - expected).norm() / expected.norm()
    assert float(error) < (1e-5 if found.dtype == torch.float32 else 4e-4)


def _nan(*shape: int, dtype: torch.dtype = torch.float16, device: str) -> Tensor:
    return torch.full(shape, torch.nan, dtype=dtype, device=device)


@pytest.mark.parametrize(("rows", "columns", "group", "tokens"), SHAPES)
def test_whole(rows: int, columns: int, group: int, tokens: int, device: str) -> None:
    w, x = _case(rows, columns, group, tokens, device)
    out = _nan(tokens, rows, device=device)
    multiply_whole(x, w, None, out)
    _close(out, multiply_plain(x, w))


@pytest.mark.parametrize(("rows", "columns", "group", "tokens"), SHAPES)
def test_parts_add_up(rows: int, columns: int, group: int, tokens: int, device: str) -> None:
    w, x = _case(rows, columns, group, tokens, device)
    bias = torch.randn(rows).half().to(device)
    out = _nan(splits(w), tokens, rows, dtype=torch.float32, device=device)
    multiply_parts(x, w, bias, out)
    _close(out.sum(0), multiply_plain(x, w) + bias)


@pytest.mark.parametrize("activation", ["silu", "gelu_tanh"])
@pytest.mark.parametrize(("rows", "columns", "group", "tokens"), SHAPES[1:3])
def test_gated(rows: int, columns: int, group: int, tokens: int, activation: Activation, device: str) -> None:
    w, x = _case(rows, columns, group, tokens, device)
    out = _nan(tokens, rows // 2, device=device)
    multiply_gated(x, w, activation, out)
    _close(out, gated_plain(x, w, activation))


def test_bias_and_rows_of_a_wider_x(device: str) -> None:
    w, x = _case(40, 192, 64, 4, device)
    bias = torch.randn(40).half().to(device)
    wide = torch.full((4, 256), torch.nan, dtype=torch.float16, device=device)
    wide[:, :192] = x
    out = _nan(4, 40, device=device)
    multiply_whole(wide[:, :192], w, bias, out)
    _close(out, multiply_plain(x, w) + bias)


def test_bfloat16(device: str) -> None:
    w, x = _case(72, 256, 64, 2, device)
    out = _nan(2, 72, dtype=torch.bfloat16, device=device)
    multiply_whole(x.bfloat16(), w, None, out)
    assert torch.allclose(out.float(), multiply_plain(x.bfloat16(), w), rtol=2**-7, atol=1e-4)


def test_one_large_number_does_not_drown_the_others(device: str) -> None:
    w, x = _case(72, 384, 128, 1, device)
    x[0, 77] = 3000.0
    out = _nan(1, 1, 72, dtype=torch.float32, device=device)
    plan_parts(x, w, None, out, Tiling(2)).run()
    exact = multiply_plain(x, w)
    assert float((out[0] - exact).abs().max()) < 5e-3


@pytest.mark.parametrize("tiling", [Tiling(1), Tiling(8), Tiling(2, splits=3)], ids=str)
def test_however_the_work_is_shared_out(tiling: Tiling, device: str) -> None:
    w, x = _case(72, 640, 128, 5, device)
    out = _nan(tiling.splits, 5, 72, dtype=torch.float32, device=device)
    plan_parts(x, w, None, out, tiling).run()
    _close(out.sum(0), multiply_plain(x, w))


@pytest.mark.gpu
@pytest.mark.parametrize("ptx", [False, True])
@pytest.mark.parametrize(("rows", "columns", "tokens"), [(28672, 4096, 1), (4096, 14336, 8), (6144, 4096, 16)])
def test_matrices_of_an_8b_model(rows: int, columns: int, tokens: int, ptx: bool, device: str) -> None:
    w, x = _case(rows, columns, 128, tokens, device)
    whole, gated = _nan(tokens, rows, device=device), _nan(tokens, rows // 2, device=device)
    plan_whole(x, w, None, whole, Tiling(4, ptx=ptx)).run()
    plan_gated(x, w, "silu", gated, Tiling(4, ptx=ptx)).run()
    _close(whole, multiply_plain(x, w))
    _close(gated, gated_plain(x, w, "silu"))
