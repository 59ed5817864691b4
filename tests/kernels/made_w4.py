"""Random int4 weights for kernel tests."""

import torch
from torch import Tensor


def int4(rows: int, columns: int, group: int, device: str = "cpu", seed: int = 3) -> tuple[Tensor, Tensor, Tensor]:
    """Values `[rows, columns]`, scales and zeros `[rows, columns / group]`; weights are about as large as a model's."""
    random = torch.Generator().manual_seed(seed)
    values = torch.randint(0, 16, (rows, columns), generator=random, dtype=torch.uint8)
    scales = (torch.rand(rows, columns // group, generator=random) * 0.01 + 0.002).half()
    zeros = torch.randint(0, 16, (rows, columns // group), generator=random, dtype=torch.uint8)
    return values.to(device), scales.to(device), zeros.to(device)
