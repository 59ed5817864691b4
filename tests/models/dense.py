"""Plain causal attention over everything seen so far: what the forward pass is tested with."""

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from unabridged.models.config import ModelConfig
from unabridged.models.rope import inv_freq


class DenseAttend:
    """Keeps rotated keys and values of all layers and attends densely; positions count from 0 in call order."""

    def __init__(self, config: ModelConfig) -> None:
        self._frequencies = inv_freq(config)
        self._layers = config.layers
        self._keys: list[Tensor] = [torch.empty(0)] * config.layers
        self._values: list[Tensor] = [torch.empty(0)] * config.layers
        self.length = 0

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """See `unabridged.models.attention.Attend`."""
        angles = torch.arange(self.length, self.length + len(q)).float()[:, None] * self._frequencies
        self._append(layer, rotated(k, angles), v)
        keys, values = self._keys[layer], self._values[layer]
        seen = torch.arange(len(keys)) <= torch.arange(self.length, self.length + len(q))[:, None]
        if layer == self._layers - 1:
            self.length += len(q)
        query, key, value = (tensor.transpose(0, 1)[None] for tensor in (rotated(q, angles), keys, values))
        return scaled_dot_product_attention(query, key, value, attn_mask=seen, enable_gqa=True)[0].transpose(0, 1)

    def _append(self, layer: int, keys: Tensor, values: Tensor) -> None:
        if self.length:
            keys, values = torch.cat((self._keys[layer], keys)), torch.cat((self._values[layer], values))
        self._keys[layer], self._values[layer] = keys, values


def rotated(x: Tensor, angles: Tensor) -> Tensor:
    """`x` `[T, heads, D]` turned by `angles` `[T, D / 2]`; dimension i is paired with i + D / 2."""
    cos, sin = angles.cos()[:, None].to(x.dtype), angles.sin()[:, None].to(x.dtype)
    left, right = x.chunk(2, dim=-1)
    return torch.cat((left * cos - right * sin, right * cos + left * sin), dim=-1)
