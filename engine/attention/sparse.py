"""placeholder until the sparse path lands"""
from torch import Tensor
from unabridged.engine.attention.config import AttentionConfig
from unabridged.engine.attention.rope import Rotary
from unabridged.engine.attention.witness import Seen
from unabridged.engine.kv.tables import Context


class SparseAttention:
    """Attention past the window."""

    def __init__(self, context: Context, config: AttentionConfig, rotary: Rotary) -> None:
        raise NotImplementedError("sparse attention")

    def attend(self, layer: int, q: Tensor, k: Tensor, v: Tensor, start: int) -> tuple[Tensor, Seen | None]:
        raise NotImplementedError
