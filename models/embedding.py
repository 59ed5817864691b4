"""Token ids to the rows that a forward pass starts from."""

from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional

from unabridged.models.int8 import Int8


class Embedding(Protocol):
    """One row a token id."""

    @property
    def dtype(self) -> torch.dtype:
        """Of the rows."""
        ...

    @property
    def device(self) -> torch.device:
        """Where it lies; ids must be there too."""
        ...

    def __call__(self, ids: Tensor) -> Tensor:
        """`[T]` int64 to `[T, hidden]`, which is the caller's."""
        ...


class Table:
    """The rows as they are."""

    def __init__(self, weight: Tensor) -> None:
        """`weight` `[vocab, hidden]`."""
        self.weight = weight

    @property
    def dtype(self) -> torch.dtype:
        return self.weight.dtype

    @property
    def device(self) -> torch.device:
        return self.weight.device

    def __call__(self, ids: Tensor) -> Tensor:
        return functional.embedding(ids, self.weight)


class Int8Table:
    """Rows of one byte a number, which become floating point as they are looked up."""

    def __init__(self, rows: Int8, dtype: torch.dtype) -> None:
        """`rows` `[vocab, hidden]`; `dtype`: of what is looked up."""
        self.rows, self._dtype = rows, dtype

    @property
    def dtype(self) -> torch.dtype:
        return self._dtype

    @property
    def device(self) -> torch.device:
        return self.rows.values.device

    def __call__(self, ids: Tensor) -> Tensor:
        values, scales = self.rows.values, self.rows.scales
        if not ids.is_cuda:
            return (values[ids] * scales[ids, None]).to(self._dtype)
        # Triton is there with a CUDA device only.
        from unabridged.models.kernels.int8 import lookup

        out = torch.empty(len(ids), values.shape[1], dtype=self._dtype, device=ids.device)
        lookup(ids, values, scales, out)
        return out
