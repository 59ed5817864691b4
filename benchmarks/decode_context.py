"""A context of random keys and values in GPU memory for the decode benchmark, which any number of rows share.

Unit variance, as in attention_data: scores spread as wide as the head dimension makes them. Blocks of the pool are
permuted: no access profits from an order that a served cache would not have.
"""

import random

import torch
from torch import Tensor

from unabridged.engine.attention.index_basis import Basis, width_of
from unabridged.engine.events import Sampling
from unabridged.engine.gpu.batch import DecodeBatch
from unabridged.engine.gpu.pool import GpuPool
from unabridged.engine.gpu.tables import Tables
from unabridged.engine.kv.blocks import BLOCK, Run
from unabridged.models.config import ModelConfig

# Tokens that a row has room for behind the context.
TAIL = 4096
# Steps of the index's quantisers for numbers of unit variance, by plane; a key of average length has the length 1.
_STEPS = (0.33, 0.99, 1.6, 1.6)


def random_basis(heads: int, dim: int) -> Basis:
    """A basis that turns keys somehow."""
    width = width_of(dim)
    turned = torch.linalg.qr(torch.randn(heads, dim, dim, device="cuda")).Q[:, :, : 4 * width]
    steps = torch.tensor(_STEPS, device="cuda").repeat_interleave(width)
    weights = (steps.square() / steps.numel()).expand(heads, -1).contiguous()
    mean = torch.zeros(heads, dim, device="cuda")
    return Basis(mean, (turned / steps).contiguous(), (turned * steps).contiguous(), weights)


class Context:
    """`length` tokens, a multiple of 64, with a tail for each of `rows` rows."""

    def __init__(self, model: ModelConfig, length: int, rows: int, dtype: torch.dtype) -> None:
        self.length, self.room = length, length + TAIL
        bases = [random_basis(model.kv_heads, model.head_dim) for _ in range(model.layers)]
        index = model.kv_heads * sum(basis.key.shape[2] // 4 + 1 for basis in bases)
        token = 2 * model.layers * model.kv_heads * model.head_dim * dtype.itemsize + index
        tokens = length + rows * TAIL
        self.pool = GpuPool(model.layers, model.kv_heads, model.head_dim, tokens * token, dtype, "cuda", bases)
        blocks = [run for _ in range(length // BLOCK) for run in self.pool.allocate(BLOCK)]
        random.Random(0).shuffle(blocks)
        self._shared, self._tails = blocks, [self.pool.allocate(TAIL) for _ in range(rows)]
        tables = Tables(1, model.kv_heads, length, "cuda")
        tables.put(0, blocks)
        for cache in self.pool.caches(tables):
            _fill(cache.bank.k, cache.bank.k_scale)
            _fill(cache.bank.v, cache.bank.v_scale)
        self.pool.encode(tables, 0, 0, length)
        torch.cuda.synchronize()

    def runs(self, row: int) -> list[Run]:
        """The context and a row's own tail."""
        return [*self._shared, *self._tails[row]]

    def admit(self, batch: DecodeBatch, rows: int) -> None:
        """Seat `rows` conversations, each with another token."""
        for row in range(rows):
            batch.admit(row, self.runs(row), self.length, [], row + 1, Sampling())


def _fill(x: Tensor, scales: Tensor) -> None:
    divisor = float(scales[0])
    for part in x.split(1 << 16):
        part.copy_(torch.randn(part.shape, dtype=torch.bfloat16, device="cuda").div_(divisor))
