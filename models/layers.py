"""The parts of a decoder layer that are not attention."""

from dataclasses import dataclass

from torch import Tensor
from torch.nn import functional

from unabridged.models.linear import Linear


@dataclass(frozen=True, slots=True)
class Norm:
    """RMS normalisation with a learned scale `[hidden]`."""

    weight: Tensor
    eps: float

    def __call__(self, x: Tensor) -> Tensor:
        """`[T, hidden]` to the same shape."""
        return functional.rms_norm(x, self.weight.shape, self.weight, self.eps)


@dataclass(frozen=True, slots=True)
class Layer:
    """One decoder layer. `qkv` gives the query, key and value heads side by side, `gate_up` the gate and the up
    projection: one wide product is faster than two or three narrow ones."""

    attention_norm: Norm
    qkv: Linear
    output: Linear
    mlp_norm: Norm
    gate_up: Linear
    down: Linear

    def add_mlp(self, x: Tensor) -> Tensor:
        """Adds the gated MLP of `x` `[T, hidden]` onto `x`."""
        gate, up = self.gate_up(self.mlp_norm(x)).chunk(2, dim=-1)
        return self.down.add_to(x, functional.silu(gate).mul_(up))
