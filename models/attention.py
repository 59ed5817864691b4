"""The seam between a model and an attention implementation."""

from typing import Protocol

from torch import Tensor


class Attend(Protocol):
    """Attention as an argument of the forward pass.

    H query heads, G key/value heads, D the head dimension, T the new tokens of this call.
    """

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Append the T new keys and values of `layer` and attend.

        q `[T, H, D]`, k `[T, G, D]`, v `[T, G, D]`, all before RoPE: positions and rotation are the
        implementation's own. Returns `[T, H, D]` in q's dtype. Called once a layer, in layer order.
        """
        ...
