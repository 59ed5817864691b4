"""Packed weights: nothing is lost, a word holds what its layout says, and weights are rounded as AutoAWQ does."""

import pytest
import torch
from tests.kernels.made_w4 import int4

from unabridged.models.kernels.w4 import dequantise_plain, pack, unpack


@pytest.mark.parametrize(("rows", "columns", "group"), [(8, 32, 32), (64, 128, 128), (136, 576, 64), (960, 96, 32)])
def test_what_was_packed_comes_back(rows: int, columns: int, group: int) -> None:
    values, scales, zeros = int4(rows, columns, group)
    w = pack(values, scales, zeros)
    found = unpack(w)
    assert (w.rows, w.columns, w.group) == (rows, columns, group)
    for a, b in zip(found, (values, scales, zeros), strict=True):
        assert a.dtype == b.dtype
        assert torch.equal(a, b)


def test_four_bits_a_weight_and_what_a_group_needs() -> None:
    w = pack(*int4(256, 4096, 128))
    assert w.nbytes == 256 * 4096 // 2 + 256 * 32 * 2 + 256 * 32 // 2


def test_a_lane_holds_its_rows_and_columns_of_both_halves() -> None:
    values, scales, zeros = (torch.zeros(128, 64, dtype=torch.uint8), torch.ones(128, 1).half(), torch.zeros(128, 1))
    # Second half, tile 1, nibble 3, u = 1, r = 5; second pair of steps, c = 2, its second step, h = 1, p = 0.
    values[64 + 32 + 16 + 8 + 5, 32 + 16 + 4 + 2] = 9
    w = pack(values, scales, zeros.to(torch.uint8))
    assert int(w.words.count_nonzero()) == 1
    assert int(w.words[1, 3, 5, 2, 4 + 2 + 0]) & 0xFFFF == 9 << 12


def test_weights_are_rounded_once_to_float16() -> None:
    values, scales, zeros = int4(16, 64, 32)
    w = pack(values, scales, zeros)
    exact = (values.double() - zeros.repeat_interleave(32, 1)) * scales.double().repeat_interleave(32, 1)
    assert torch.equal(dequantise_plain(w), exact.half())
    assert torch.equal(dequantise_plain(w, torch.bfloat16), exact.half().bfloat16())


@pytest.mark.parametrize(("rows", "columns", "groups"), [(7, 128, 2), (8, 256, 1), (8, 128, 3), (8, 128, 0)])
def test_what_has_no_layout_is_refused(rows: int, columns: int, groups: int) -> None:
    values, zeros = torch.zeros(rows, columns, dtype=torch.uint8), torch.zeros(rows, groups, dtype=torch.uint8)
    with pytest.raises(ValueError, match=f"^{columns if rows == 8 else rows} "):
        pack(values, torch.ones(rows, groups).half(), zeros)
