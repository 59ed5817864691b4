"""How a GPU's memory is divided: the model is there, steps and pieces need workspace, the rest is the KV pool's.

An estimate from shapes, stated part by part; what it misses the last part covers. Bytes.
"""

from dataclasses import dataclass, fields

from unabridged.engine.attention.prefill import SCORES
from unabridged.engine.errors import OutOfMemory
from unabridged.models.config import ModelConfig

# Recorded steps, tables, lists of chunks, the allocator's own losses.
_BESIDES = 768 << 20
# Contexts below this are of no use with documents: better the CPU.
LEAST_TOKENS = 4096


@dataclass(frozen=True)
class Workspace:
    """What the engine needs besides model and KV. `activations`: of a forward pass over a piece; `logits`: of all rows,
    with the sampler's copies; `scores`: of the chunks that a piece's blocks choose from, and their ranking; `masses`:
    where answers inside the window look."""

    activations: int
    logits: int
    scores: int
    masses: int
    besides: int = _BESIDES

    @classmethod
    def of(cls, config: ModelConfig, slots: int, chunk: int) -> "Workspace":
        """For pieces of `chunk` tokens and `slots` answers at a time."""
        heads = (config.heads + 2 * config.kv_heads) * config.head_dim
        widest = 3 * config.intermediate + 6 * config.hidden + 3 * heads
        return cls(
            activations=2 * chunk * widest,
            logits=3 * 4 * (slots + 1) * config.vocab_size,
            scores=2 * SCORES,
            masses=4 * config.layers * (slots + 1) * config.heads * (config.window // 16),
        )

    @property
    def total(self) -> int:
        """All of it."""
        return sum(getattr(self, part.name) for part in fields(self))


def pool_bytes(free: int, workspace: Workspace, token_bytes: int) -> int:
    """What the KV pool may take of `free` bytes. Raises OutOfMemory where a useful context does not fit."""
    left, least = free - workspace.total, LEAST_TOKENS * token_bytes
    if left < least:
        raise OutOfMemory(
            f"the GPU has {free:,} bytes free beside the model, {workspace.total + least:,} are needed",
            "close other programs on it, take a smaller model, or unabridged config set engine.device cpu",
        )
    return left
