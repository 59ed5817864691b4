"""The forward pass of Llama and of the families that are Llama with options; attention is an argument.

Token ids in, hidden rows out; logits only for the rows that are asked for. It knows nothing of positions, caches,
sampling or text: all of these are the callers'.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from unabridged.models.attention import Attend
from unabridged.models.config import ModelConfig
from unabridged.models.embedding import Embedding
from unabridged.models.layers import Layer, Norm
from unabridged.models.limits import SLICE
from unabridged.models.linear import Linear
from unabridged.models.residual import Plain, Residual
from unabridged.models.slices import Sliced


class Llama:
    """A loaded model. Stateless between calls, so one instance serves any number of sequences, one call at a time."""

    def __init__(
        self,
        config: ModelConfig,
        embedding: Embedding,
        layers: tuple[Layer, ...],
        norm: Norm,
        head: Linear,
        residual: Callable[[Tensor], Residual] = Plain,
    ) -> None:
        """`embedding` `[vocab, hidden]`; its dtype and device are the model's. `residual` makes the stream of a pass
        from its first rows, which are its own."""
        self.config = config
        self.embedding = embedding
        self.layers = layers
        self.norm = norm
        self.head = head
        self._residual = residual
        # Rounded to the model's type, as it was trained.
        scale = config.embedding_scale
        self._scale = None if scale == 1.0 else torch.tensor(scale, dtype=embedding.dtype).item()

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
        return self._run(ids, attend).value()

    @torch.inference_mode()
    def logits(self, hidden: Tensor) -> Tensor:
        """Scores of the next token, `[T, hidden]` to `[T, vocab]`. Pass only the rows whose successor is wanted."""
        return self._scores(self.norm(hidden))

    @torch.inference_mode()
    def step(self, ids: Tensor, attend: Attend) -> Tensor:
        """`forward` and the `logits` of every row, without the rows between: for tokens of a decode step."""
        return self._scores(self._run(ids, attend).normed(self.norm))

    def _run(self, ids: Tensor, attend: Attend) -> Residual:
        stream = self._residual(self._embedded(ids))
        for index, layer in enumerate(self.layers):
            _add(stream, layer.output, self._mixed(index, layer, stream, attend), layer.attention_post_norm)
            if len(ids) <= SLICE:
                _add(stream, layer.down, layer.gated(stream.normed(layer.mlp_norm)), layer.mlp_post_norm)
            else:
                mlp = Sliced(layer.gated, layer.down)
                _add(stream, mlp, stream.normed(layer.mlp_norm), layer.mlp_post_norm)
        return stream

    def _mixed(self, index: int, layer: Layer, stream: Residual, attend: Attend) -> Tensor:
        """What attention gives, `[T, H * D]`: queries, keys and values are gone before the MLP needs memory."""
        q, k, v = self._heads(layer, layer.qkv(stream.normed(layer.attention_norm)))
        return attend(index, q, k, v).reshape(len(q), -1)

    def _embedded(self, ids: Tensor) -> Tensor:
        rows = self.embedding(ids)
        return rows if self._scale is None else rows.mul_(self._scale)

    def _heads(self, layer: Layer, qkv: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """`[T, (H + 2 G) D]` to views `[T, H, D]`, `[T, G, D]`, `[T, G, D]`."""
        heads = qkv.view(qkv.shape[0], -1, self.config.head_dim)
        queries, shared = self.config.heads, self.config.kv_heads
        q, k, v = heads.split_with_sizes((queries, shared, shared), dim=1)
        if layer.q_norm is not None and layer.k_norm is not None:
            q, k = layer.q_norm(q), layer.k_norm(k)
        if self.config.query_factor != 1.0:
            q = q * self.config.query_factor
        return q, k, v

    def _scores(self, normed: Tensor) -> Tensor:
        scores, cap = self.head(normed), self.config.logit_cap
        return scores if cap is None else scores.div_(cap).tanh_().mul_(cap)


def _add(stream: Residual, linear: Linear, x: Tensor, post_norm: Norm | None) -> None:
    """Add `linear` of `x`, normed where the layer says so."""
    if post_norm is None:
        stream.add(linear, x)
    else:
        stream.plus(post_norm(linear(x)))
