"""Banks as the plain PyTorch implementation reads keys: what the kernels are compared with.

`select.Selector`, `reference.sparse_attention` and the rest of the folder above are the reference of every kernel here;
this module gives them the keys of a bank. A kernel that has no counterpart there has its reference beside it.
"""

from collections.abc import Iterator

import torch
from torch import Tensor

from unabridged.engine.attention.kernels.layout import PAGE, Bank


class BankKeys:
    """Keys and values of one sequence of a bank, float32 with the scales applied. See keys.Keys."""

    def __init__(self, bank: Bank, sequence: int) -> None:
        self._bank, self._sequence = bank, sequence

    @property
    def heads(self) -> int:
        """G."""
        return self._bank.heads

    def gather(self, positions: Tensor) -> Tensor:
        """See keys.Keys."""
        return _rows(self._bank.k, self._bank.k_table[self._sequence], self._bank.k_scale, positions)

    def gather_both(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """See keys.Keys."""
        v = _rows(self._bank.v, self._bank.v_table[self._sequence], self._bank.v_scale, positions)
        return self.gather(positions), v

    def runs(self, start: int, end: int) -> Iterator[tuple[int, Tensor]]:
        """See keys.Keys."""
        positions = torch.arange(start, end, device=self._bank.k.device)
        yield start, self.gather(positions.expand(1, self.heads, -1))[0]


def _rows(store: Tensor, table: Tensor, scale: Tensor, positions: Tensor) -> Tensor:
    """store `[slots, PAGE, D]`, table `[G, P]`, positions `[B, G, N]`: `[B, G, N, D]`."""
    wanted = positions.clamp(min=0).long()
    heads = torch.arange(table.shape[0], device=table.device)[None, :, None]
    slots = table[heads, wanted.div(PAGE, rounding_mode="floor")].clamp(min=0).long()
    return store[slots, wanted % PAGE].float() * scale[None, :, None, None]
