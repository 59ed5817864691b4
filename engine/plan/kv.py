"""Bytes of keys and values: of a token in the pool and in the index, and of staging. Those of the banks that decode
steps read, where the pool lies in the host, are engine.gpu.bank_pages'. Torch-free.

L layers, G key/value heads, D head dimension.
"""

from dataclasses import dataclass

from unabridged.engine.attention.limits import PAGE, width_of
from unabridged.models.config import ModelConfig

ITEMSIZE = {"float8_e4m3fn": 1, "bfloat16": 2, "float16": 2, "float32": 4}


@dataclass(frozen=True)
class Kv:
    """How a model's keys and values are stored. `kind`: a name of ITEMSIZE; `width`: code bytes a key of the index, 0
    without one."""

    layers: int
    heads: int
    dim: int
    kind: str
    width: int

    @classmethod
    def of(cls, config: ModelConfig, kind: str, indexed: bool) -> "Kv":
        """Of a model."""
        width = width_of(config.head_dim) if indexed else 0
        return cls(config.layers, config.kv_heads, config.head_dim, kind, width)

    @property
    def itemsize(self) -> int:
        """Of a number."""
        return ITEMSIZE[self.kind]

    @property
    def token(self) -> int:
        """Of a token: keys and values of all layers."""
        return 2 * self.layers * self.heads * self.dim * self.itemsize

    @property
    def layer_codes(self) -> int:
        """Of a token in one layer's index: its code and a scale."""
        return self.heads * (self.width + 1) if self.width else 0

    @property
    def codes(self) -> int:
        """Of a token in the index of all layers."""
        return self.layers * self.layer_codes

    def staging(self, rows: int, tokens: int) -> int:
        """Of engine.gpu.staging: two layers' keys and values of `tokens` tokens, and tables of `rows` contexts."""
        slots = -(-tokens // PAGE) * self.heads
        return slots * (2 * 2 * PAGE * self.dim * self.itemsize + (rows + 1) * 4)
