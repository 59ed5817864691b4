"""Plain causal attention over everything a layer sees: what the forward pass is tested with."""

import torch
from torch import Tensor

from unabridged.models.config import ModelConfig
from unabridged.models.rope import inv_freq


class DenseAttend:
    """Keeps rotated keys and values of all layers and attends densely; positions count from 0 in call order."""

    def __init__(self, config: ModelConfig) -> None:
        self._frequencies = inv_freq(config)
        self._layers = config.layers
        self._sliding, self._cap = config.sliding or (0,) * config.layers, config.attention_cap
        self._keys: list[Tensor] = [torch.empty(0)] * config.layers
        self._values: list[Tensor] = [torch.empty(0)] * config.layers
        self.length = 0

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """See `unabridged.models.attention.Attend`."""
        angles = torch.arange(self.length, self.length + len(q)).float()[:, None] * self._frequencies
        self._append(layer, rotated(k, angles), v)
        keys, values = self._keys[layer], self._values[layer]
        distance = torch.arange(self.length, self.length + len(q))[:, None] - torch.arange(len(keys))
        seen = (distance >= 0) & (distance < (self._sliding[layer] or len(keys)))
        if layer == self._layers - 1:
            self.length += len(q)
        query, key, value = (tensor.transpose(0, 1) for tensor in (rotated(q, angles), keys, values))
        key, value = (tensor.repeat_interleave(len(query) // len(key), 0) for tensor in (key, value))
        scores = query @ key.transpose(1, 2) * q.shape[-1] ** -0.5
        if self._cap is not None:
            scores = self._cap * torch.tanh(scores / self._cap)
        mixed: Tensor = scores.masked_fill(~seen, -torch.inf).softmax(-1) @ value
        return mixed.transpose(0, 1)

    def _append(self, layer: int, keys: Tensor, values: Tensor) -> None:
        if self.length:
            keys, values = torch.cat((self._keys[layer], keys)), torch.cat((self._values[layer], values))
        self._keys[layer], self._values[layer] = keys, values


def rotated(x: Tensor, angles: Tensor) -> Tensor:
    """`x` `[T, heads, D]` turned by `angles` `[T, D / 2]`; dimension i is paired with i + D / 2."""
    cos, sin = angles.cos()[:, None].to(x.dtype), angles.sin()[:, None].to(x.dtype)
    left, right = x.chunk(2, dim=-1)
    return torch.cat((left * cos - right * sin, right * cos + left * sin), dim=-1)
