"""New tokens in a bank: every place that was written, and no other."""

import dataclasses

import pytest
import torch
from tests.kernels import made
from torch import Tensor

from unabridged.engine.attention.kernels.bank_write import write, write_plain
from unabridged.engine.attention.kernels.layout import Bank

SCALES = torch.tensor([[0.5, 1.0, 4.0], [2.0, 0.25, 1.0]])


def _poisoned(bank: Bank, device: str) -> Bank:
    k, v = (torch.full(x.shape, -7.0, device=device).to(x.dtype) for x in (bank.k, bank.v))
    k_scale, v_scale = SCALES.to(device) if bank.k.dtype == made.FP8 else torch.ones(2, 3, device=device)
    return dataclasses.replace(bank, k=k, v=v, k_scale=k_scale, v_scale=v_scale)


def _representable(tokens: int, dim: int, device: str) -> tuple[Tensor, Tensor]:
    # The interpreter rounds to e4m3 wrongly; what it need not round it stores right. A few values saturate.
    random = torch.Generator().manual_seed(5)
    codes = torch.randint(8, 16, (2, 2, tokens, 3, dim), generator=random).float()
    values = codes * torch.randn(codes.shape, generator=random).sign()
    values[..., ::7] *= 4096
    k, v = (values * SCALES[:, None, None, :, None]).bfloat16().to(device)
    return k, v


def _check(k: Tensor, v: Tensor, dtype: torch.dtype, device: str) -> None:
    shape = made.Shape(6, 3, k.shape[-1])
    plain, fast = (_poisoned(made.bank([150, 90, 200], shape, dtype, device), device) for _ in range(2))
    sequence = torch.tensor([2, 0], dtype=torch.int32, device=device)
    first = torch.tensor([129, 77], dtype=torch.int32, device=device)
    write_plain(k, v, plain, sequence, first)
    write(k, v, fast, sequence, first)
    assert not torch.equal(plain.k.float(), _poisoned(plain, device).k.float())
    assert torch.equal(fast.k.float(), plain.k.float())
    assert torch.equal(fast.v.float(), plain.v.float())


@pytest.mark.parametrize("dtype", [made.FP8, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize(("tokens", "dim"), [(1, 64), (70, 96), (33, 256)])
def test_tokens_land_where_the_table_says(tokens: int, dim: int, dtype: torch.dtype, device: str) -> None:
    _check(*_representable(tokens, dim, device), dtype, device)


def test_keys_and_values_may_be_views_of_a_joint_projection(device: str) -> None:
    k, v = _representable(33, 64, device)
    joint = torch.cat([torch.full_like(k, torch.nan), k, v], 2)
    _check(joint[:, :, 3:6], joint[:, :, 6:], torch.bfloat16, device)
    k, v = _representable(1, 64, device)
    joint = torch.cat([k, v], 2)
    _check(k, joint[:, :, 3:], torch.bfloat16, device)
    zero = torch.zeros(2, dtype=torch.int32, device=device)
    with pytest.raises(ValueError, match="keys and values with strides"):
        write(k, joint[:, :, ::2], made.bank([90, 90], made.Shape(6, 3, 64), torch.bfloat16, device), zero, zero)


@pytest.mark.gpu
@pytest.mark.parametrize("tokens", [1, 67])
def test_values_are_rounded_as_torch_rounds_them(tokens: int, device: str) -> None:
    random = torch.Generator().manual_seed(6)
    k, v = (torch.randn(2, 2, tokens, 3, 128, generator=random) * 100).bfloat16().to(device)
    _check(k, v, made.FP8, device)


def test_a_token_without_a_slot_is_left_out(device: str) -> None:
    bank = _poisoned(made.bank([40], made.Shape(3, 3, 64), torch.bfloat16, device), device)
    k, v = (x[:1] for x in _representable(9, 64, device))
    zero = torch.zeros(1, dtype=torch.int32, device=device)
    write(k, v, bank, zero, zero + 44)
    written = (bank.k.float() != -7).any(-1).sum()
    assert int(written) == 3 * 4


def test_a_token_past_the_table_is_left_out(device: str) -> None:
    bank = _poisoned(made.bank([40, 30], made.Shape(3, 3, 64), torch.bfloat16, device), device)
    k, v = (x[:1] for x in _representable(9, 64, device))
    zero = torch.zeros(1, dtype=torch.int32, device=device)
    write(k, v, bank, zero, zero + 16 * bank.k_table.shape[2])
    assert bool((bank.k.float() == -7).all() and (bank.v.float() == -7).all())
