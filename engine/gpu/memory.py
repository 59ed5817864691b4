"""How a GPU's memory is divided: the model is there, steps and pieces need workspace, the rest is the KV pool's.

An estimate from shapes, stated part by part; what it misses the last part covers. Bytes.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields

import torch

from unabridged.engine.attention.index_basis import Basis
from unabridged.engine.attention.limits import SCORES
from unabridged.engine.errors import OutOfMemory
from unabridged.models.config import ModelConfig
from unabridged.models.limits import BUFFER

# Recorded steps, tables, lists of chunks, the allocator's own losses.
_BESIDES = 768 << 20
# Contexts below this are of no use with documents: better the CPU.
LEAST_TOKENS = 4096


@dataclass(frozen=True)
class Workspace:
    """What the engine needs besides model and KV. `activations`: of a forward pass over a piece; `logits`: of all rows,
    with the sampler's copies; `scores`: of the chunks that a piece's blocks choose from, and their ranking; `masses`:
    where answers inside the window look; `looks`: what reading one of those takes for a moment; `rotated`: keys and
    values of one layer of a context inside the window (kernels.dense); `dequantised`: weights of int4 projections
    (models.quantised), counted for every model."""

    activations: int
    logits: int
    scores: int
    masses: int
    looks: int
    rotated: int
    dequantised: int = BUFFER
    besides: int = _BESIDES

    @classmethod
    def of(cls, config: ModelConfig, slots: int, chunk: int) -> "Workspace":
        """For pieces of `chunk` tokens and `slots` answers at a time."""
        cells = config.layers * config.heads * (config.window // 16)
        heads = (config.heads + 2 * config.kv_heads) * config.head_dim
        widest = 3 * config.intermediate + 6 * config.hidden + 3 * heads
        return cls(
            activations=2 * chunk * widest,
            logits=3 * 4 * (slots + 1) * config.vocab_size,
            scores=2 * SCORES,
            masses=4 * (slots + 1) * cells,
            # Two of them in float32, and which are of the list.
            looks=9 * cells,
            rotated=2 * 2 * config.kv_heads * config.head_dim * config.window,
        )

    @property
    def total(self) -> int:
        """All of it."""
        return sum(getattr(self, part.name) for part in fields(self))


@dataclass(frozen=True)
class TokenBytes:
    """What a token of the pool takes. `pool`: keys, values and codes of all layers; `copied`: the codes of one layer
    once more, outside the pool, where a prompt's piece reads them in order (kernels.index_gather)."""

    pool: int
    copied: int

    @classmethod
    def of(cls, config: ModelConfig, kind: torch.dtype, bases: Sequence[Basis]) -> "TokenBytes":
        """For keys and values of type `kind`. `bases`: of the index, one a layer, or none."""
        keys = 2 * config.layers * config.kv_heads * config.head_dim * kind.itemsize
        codes = [config.kv_heads * (basis.key.shape[2] // 4 + 1) for basis in bases]
        return cls(keys + sum(codes), max(codes, default=0))

    @property
    def total(self) -> int:
        """Both."""
        return self.pool + self.copied


def pool_bytes(free: int, workspace: Workspace, token: TokenBytes) -> int:
    """What the KV pool may take of `free` bytes, if one context may fill it. Raises OutOfMemory where a useful context
    does not fit."""
    left, least = free - workspace.total, LEAST_TOKENS * token.total
    if left < least:
        raise OutOfMemory(
            f"the GPU has {free:,} bytes free beside the model, {workspace.total + least:,} are needed",
            "close other programs on it, take a smaller model, or unabridged config set engine.device cpu",
        )
    return left * token.pool // token.total
