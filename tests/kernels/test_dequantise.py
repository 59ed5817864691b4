"""Dequantised rows: exactly the plain version's numbers, in every row that was asked for and in no other."""

import pytest
import torch
from tests.kernels.made_w4 import int4

from unabridged.models.kernels.dequantise import dequantise, rows_plain
from unabridged.models.kernels.w4 import W4, dequantise_plain, pack

SHAPES = [(8, 32, 32), (136, 576, 64), (256, 384, 128)]


def _check(w: W4, dtype: torch.dtype) -> None:
    out = torch.full((2, w.rows // 2, w.columns), torch.nan, dtype=dtype, device=w.words.device)
    dequantise(w, 0, out)
    assert torch.equal(out.view(w.rows, w.columns), dequantise_plain(w, dtype))


@pytest.mark.parametrize(("rows", "columns", "group"), SHAPES)
def test_a_whole_matrix_in_float16(rows: int, columns: int, group: int, device: str) -> None:
    _check(pack(*int4(rows, columns, group, device)), torch.float16)


def test_a_whole_matrix_in_bfloat16(device: str) -> None:
    # The interpreter does not round to bfloat16 as torch does: weights that need no rounding.
    values, scales, zeros = int4(72, 96, 32, device)
    _check(pack(values, scales.float().log2().round().exp2().half(), zeros), torch.bfloat16)


@pytest.mark.gpu
@pytest.mark.parametrize(("rows", "columns", "group"), SHAPES)
def test_bfloat16_is_rounded_as_torch_rounds(rows: int, columns: int, group: int, device: str) -> None:
    _check(pack(*int4(rows, columns, group, device)), torch.bfloat16)


@pytest.mark.parametrize(("first", "count"), [(0, 32), (37, 31), (64, 4), (66, 2)])
def test_rows_of_both_halves(first: int, count: int, device: str) -> None:
    w = pack(*int4(136, 96, 32, device))
    whole = torch.full((4, count, 96), torch.nan, dtype=torch.float16, device=device)
    expected = torch.empty(2, count, 96, dtype=torch.float16, device=device)
    dequantise(w, first, whole[1:3])
    rows_plain(w, first, expected)
    assert torch.equal(whole[1:3], expected)
    assert bool(whole[[0, 3]].isnan().all())
