"""A context of random keys and values for the benchmarks of decode steps, in GPU or host memory, which any number of
rows share.

Unit variance, as in attention_data: scores spread as wide as the head dimension makes them. Blocks of the pool are
permuted: no access profits from an order that a served cache would not have.
"""

import random
from collections.abc import Sequence

import torch
import triton
from benchmarks import kernels

from unabridged.engine.attention.index_basis import Basis, width_of
from unabridged.engine.events import Sampling
from unabridged.engine.gpu.batch import DecodeBatch
from unabridged.engine.gpu.host_memory import Place
from unabridged.engine.gpu.pool import GpuPool
from unabridged.engine.gpu.tables import Tables
from unabridged.engine.kv.blocks import BLOCK, Run
from unabridged.models.config import ModelConfig

# Tokens that a row has room for behind the context.
TAIL = 4096
# Slots that one launch fills, and numbers of a program.
_SLOTS, _SIZE = 1 << 16, 4096
# Steps of the index's quantisers for numbers of unit variance, by plane; a key of average length has the length 1.
_STEPS = (0.33, 0.99, 1.6, 1.6)


def random_basis(heads: int, dim: int, device: torch.device | str = "cuda") -> Basis:
    """A basis that turns keys somehow."""
    width = width_of(dim)
    turned = torch.linalg.qr(torch.randn(heads, dim, dim, device=device)).Q[:, :, : 4 * width]
    steps = torch.tensor(_STEPS, device=device).repeat_interleave(width)
    weights = (steps.square() / steps.numel()).expand(heads, -1).contiguous()
    mean = torch.zeros(heads, dim, device=device)
    return Basis(mean, (turned / steps).contiguous(), (turned * steps).contiguous(), weights)


class Context:
    """`length` tokens, a multiple of 64, with a tail for each of `rows` rows. `stored`: where they lie, in no order."""

    def __init__(
        self,
        model: ModelConfig,
        length: int,
        rows: int,
        dtype: torch.dtype,
        place: Place = "device",
        device: torch.device | str = "cuda",
    ) -> None:
        self.length, self.room = length, length + TAIL
        bases = random_bases(model, device)
        token = token_bytes(model, dtype, bases if place == "device" else ())
        size = (length + rows * TAIL) * token
        self.pool = GpuPool(model.layers, model.kv_heads, model.head_dim, size, dtype, device, bases, place)
        self.stored = self.pool.allocate(length)
        blocks = shuffled(self.stored)
        self._shared, self._tails = blocks, [self.pool.allocate(TAIL) for _ in range(rows)]
        fill(self.pool, blocks)

    def runs(self, row: int) -> list[Run]:
        """The context and a row's own tail."""
        return [*self._shared, *self._tails[row]]

    def admit(self, batch: DecodeBatch, rows: int) -> None:
        """Seat `rows` conversations, each with another token."""
        for row in range(rows):
            batch.admit(row, self.runs(row), self.length, [], row + 1, Sampling())


def shuffled(runs: Sequence[Run]) -> list[Run]:
    """Their blocks, permuted. Whole blocks."""
    blocks = [Run(at, BLOCK) for run in runs for at in range(run.start, run.start + run.length, BLOCK)]
    random.Random(0).shuffle(blocks)
    return blocks


def random_bases(model: ModelConfig, device: torch.device | str = "cuda") -> list[Basis]:
    """One a layer."""
    return [random_basis(model.kv_heads, model.head_dim, device) for _ in range(model.layers)]


def token_bytes(model: ModelConfig, dtype: torch.dtype, bases: Sequence[Basis]) -> int:
    """Of a token in a pool: keys, values and the codes of these bases."""
    codes = model.kv_heads * sum(basis.key.shape[2] // 4 + 1 for basis in bases)
    return 2 * model.layers * model.kv_heads * model.head_dim * dtype.itemsize + codes


def fill(pool: GpuPool, runs: Sequence[Run]) -> None:
    """Random keys and values in all slots of a pool that is handed out whole; an index of those in `runs`."""
    for number, (store, scale) in enumerate(((pool.k, pool.k_scale), (pool.v, pool.v_scale))):
        divisor = float(scale[0])
        for layer, plane in enumerate(store):
            for part, x in enumerate(plane.split(_SLOTS)):
                seed = (part * len(store) + layer) * 2 + number
                grid = (triton.cdiv(x.numel(), _SIZE),)
                kernels.normal[grid](x, x.numel(), divisor, seed, SIZE=_SIZE)
    length = sum(run.length for run in runs)
    tables = Tables(1, pool.shape[1], length, pool.device)
    tables.put(0, runs)
    pool.encode(tables, 0, 0, length)
    if pool.device.type == "cuda":
        torch.cuda.synchronize()
