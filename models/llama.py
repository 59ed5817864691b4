"""The Llama forward pass with attention as an argument.

Token ids in, hidden rows out; logits only for the rows that are asked for. It knows nothing of positions, caches,
sampling or text: all of these are the callers'.
"""

import torch
from torch import Tensor

from unabridged.models.attention import Attend
from unabridged.models.config import ModelConfig
from unabridged.models.layers import Layer, Norm
from unabridged.models.linear import Linear


class Llama:
    """A loaded model. Stateless between calls, so one instance serves any number of sequences, one call at a time."""

    def __init__(
        self, config: ModelConfig, embedding: Tensor, layers: tuple[Layer, ...], norm: Norm, head: Linear
    ) -> None:
        """`embedding` `[vocab, hidden]`; its dtype and device are the model's."""
        self.config = config
        self.embedding = embedding
        self.layers = layers
        self.norm = norm
        self.head = head

    @property
    def dtype(self) -> torch.dtype:
        """Of hidden rows, queries, keys and values."""
        return self.embedding.dtype

    @property
    def device(self) -> torch.device:
        """Where the weights are; ids must be there too."""
        return self.embedding.device

    @torch.inference_mode()
    def forward(self, ids: Tensor, attend: Attend) -> Tensor:
        """The T new tokens `ids` `[T]` int64 to their hidden rows `[T, hidden]`, before the final norm.

        `attend` sees each layer's new queries, keys and values, un-rotated, in layer order, and may raise: nothing is
        changed by then.
        """
        x = torch.nn.functional.embedding(ids, self.embedding)
        for index, layer in enumerate(self.layers):
            q, k, v = self._heads(layer.qkv(layer.attention_norm(x)))
            mixed = attend(index, q, k, v)
            layer.output.add_to(x, mixed.reshape(x.shape[0], -1))
            layer.add_mlp(x)
        return x

    @torch.inference_mode()
    def logits(self, hidden: Tensor) -> Tensor:
        """Scores of the next token, `[T, hidden]` to `[T, vocab]`. Pass only the rows whose successor is wanted."""
        return self.head(self.norm(hidden))

    def _heads(self, qkv: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """`[T, (H + 2 G) D]` to views `[T, H, D]`, `[T, G, D]`, `[T, G, D]`."""
        heads = qkv.view(qkv.shape[0], -1, self.config.head_dim)
        queries, shared = self.config.heads, self.config.kv_heads
        q, k, v = heads.split_with_sizes((queries, shared, shared), dim=1)
        return q, k, v
