"""int4 weights for kernel tests: random ones, and ones without memory."""

import torch
from torch import Tensor

from unabridged.models.kernels.w4 import W4, pack


def int4(rows: int, columns: int, group: int, device: str = "cpu", seed: int = 3) -> tuple[Tensor, Tensor, Tensor]:
    """Values `[rows, columns]`, scales and zeros `[rows, columns / group]`; weights are about as large as a model's."""
    random = torch.Generator().manual_seed(seed)
    values = torch.randint(0, 16, (rows, columns), generator=random, dtype=torch.uint8)
    scales = (torch.rand(rows, columns // group, generator=random) * 0.01 + 0.002).half()
    zeros = torch.randint(0, 16, (rows, columns // group), generator=random, dtype=torch.uint8)
    return values.to(device), scales.to(device), zeros.to(device)


def meta_w4(rows: int, columns: int, group: int) -> W4:
    """Weights without memory, for launches that are only compiled."""
    per_group = torch.empty(rows, columns // group, dtype=torch.uint8, device="meta")
    return pack(torch.empty(rows, columns, dtype=torch.uint8, device="meta"), per_group.half(), per_group)
