"""The KV pool in GPU memory: un-rotated keys and values of all layers, in pages of 16 tokens.

Page p holds tokens 16p..16p+15 of all heads and layers. In every layer head g has slot p * G + g of the bank for it, so
one table of slots serves all layers. Memory is taken once, for the life of the pool.

L layers, G key/value heads, D head dimension, N tokens.
"""

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from unabridged.engine.attention.kernels.layout import PAGE, Bank
from unabridged.engine.errors import OutOfMemory
from unabridged.engine.kv.blocks import Blocks, Run

# FP8 holds numbers to 448 times these. Un-rotated keys of known models reach about 100 and values about 30, and numbers
# below a 64th of a scale lose digits.
K_SCALE, V_SCALE = 0.5, 0.25


class GpuPool:
    """See engine.kv.blocks.Pool. `dtype`: float8_e4m3fn, bfloat16, float16 or float32."""

    def __init__(
        self,
        layers: int,
        kv_heads: int,
        head_dim: int,
        limit_bytes: int,
        dtype: torch.dtype = torch.float8_e4m3fn,
        device: torch.device | str = "cuda",
    ) -> None:
        """Takes at most `limit_bytes` now. Raises OutOfMemory when that is less than a block or more than is free."""
        self.shape, self.dtype, self.device = (layers, kv_heads, head_dim), dtype, torch.device(device)
        self.token_bytes = 2 * layers * kv_heads * head_dim * dtype.itemsize
        self._blocks = Blocks(limit_bytes, self.token_bytes)
        self.slots = self._blocks.slots
        # Zeros: rows of a batch that hold no sequence read slot 0 whatever is there, and numbers must come of it.
        shape = layers, self.slots // PAGE * kv_heads, PAGE, head_dim
        try:
            self._k, self._v = (torch.zeros(shape, dtype=dtype, device=device) for _ in range(2))
        except torch.OutOfMemoryError as error:
            raise OutOfMemory(
                f"a KV pool of {limit_bytes:,} bytes does not fit into the memory of {self.device}",
                "lower the engine's kv_bytes",
            ) from error
        scales = (K_SCALE, V_SCALE) if dtype == torch.float8_e4m3fn else (1.0, 1.0)
        self._k_scale, self._v_scale = (torch.full((kv_heads,), one, device=device) for one in scales)

    @property
    def free_tokens(self) -> int:
        """Slots not handed out."""
        return self._blocks.free_tokens

    def allocate(self, tokens: int) -> list[Run]:
        """Runs for `tokens` tokens, one run where the free blocks allow it. Raises OutOfMemory and takes nothing."""
        return self._blocks.allocate(tokens)

    def free(self, runs: Iterable[Run]) -> None:
        """Take runs back."""
        self._blocks.free(runs)

    def bank(self, layer: int, table: Tensor) -> Bank:
        """A layer's keys and values as the sequences of `table` `[B, G, P]` see them."""
        return Bank(self._k[layer], self._v[layer], table, table, self._k_scale, self._v_scale)

    def read(self, runs: Sequence[Run]) -> Tensor:
        """Keys and values of runs, one after the other: `[2, L, G, N, D]` on the host, in the pool's type. Waits."""
        layers, heads, dim = self.shape
        out = torch.empty(2, layers, heads, sum(run.length for run in runs), dim, dtype=self.dtype)
        at = 0
        for run in runs:
            for half, store in enumerate((self._k, self._v)):
                for layer in range(layers):
                    out[half, layer, :, at : at + run.length] = self._tokens(store[layer], run)[:, : run.length].cpu()
            at += run.length
        return out

    def write(self, runs: Sequence[Run], data: Tensor) -> None:
        """Put what `read` gave into runs of as many tokens. What a run's last page holds behind them is undefined."""
        at = 0
        for run in runs:
            part = data[:, :, :, at : at + run.length]
            part = torch.nn.functional.pad(part.view(torch.uint8), (0, 0, 0, -run.length % PAGE)).view(self.dtype)
            for half, store in enumerate((self._k, self._v)):
                for layer in range(self.shape[0]):
                    self._pages(store[layer], run).copy_(
                        part[half, layer].unflatten(1, (-1, PAGE)).transpose(0, 1).to(self.device)
                    )
            at += run.length

    def close(self) -> None:
        """Give the memory back. The pool must not be used afterwards."""
        self._k = self._v = torch.zeros(0)

    def _pages(self, store: Tensor, run: Run) -> Tensor:
        """A run's pages of one layer, `[n, G, PAGE, D]`."""
        first = run.start // PAGE
        return store.unflatten(0, (-1, self.shape[1]))[first : first - (-run.length // PAGE)]

    def _tokens(self, store: Tensor, run: Run) -> Tensor:
        """`[G, 16 n, D]`, copied."""
        return self._pages(store, run).transpose(0, 1).flatten(1, 2)
