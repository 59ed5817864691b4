"""The parts of a decoder layer that are not attention."""

from dataclasses import dataclass
from typing import Protocol

from torch import Tensor
from torch.nn import functional

from unabridged.models.linear import Linear


@dataclass(frozen=True, slots=True)
class Norm:
    """RMS normalisation with a learned scale `[hidden]`, or `[D]` for single heads."""

    weight: Tensor
    eps: float

    def __call__(self, x: Tensor) -> Tensor:
        """`[..., hidden]` to the same shape."""
        return functional.rms_norm(x, self.weight.shape, self.weight, self.eps)


class Gated(Protocol):
    """The first half of a gated MLP: activation(x Wg^T) * (x Wu^T), both matrices `[intermediate, hidden]`."""

    def __call__(self, x: Tensor) -> Tensor:
        """`[T, hidden]` to `[T, intermediate]`."""
        ...


@dataclass(frozen=True, slots=True)
class SiluGated:
    """See Gated. `gate_up` gives the gate and the up projection side by side: one wide product is faster than two."""

    gate_up: Linear

    def __call__(self, x: Tensor) -> Tensor:
        gate, up = self.gate_up(x).chunk(2, dim=-1)
        return functional.silu(gate).mul_(up)


@dataclass(frozen=True, slots=True)
class GeluGated:
    """The same with GELU in its tanh approximation."""

    gate_up: Linear

    def __call__(self, x: Tensor) -> Tensor:
        gate, up = self.gate_up(x).chunk(2, dim=-1)
        return functional.gelu(gate, approximate="tanh").mul_(up)


@dataclass(frozen=True, slots=True)
class Layer:
    """One decoder layer. `qkv` gives the query, key and value heads side by side.

    `q_norm` and `k_norm` norm each head of queries and keys. The post-norms norm what attention and MLP add to the
    residual stream.
    """

    attention_norm: Norm
    qkv: Linear
    output: Linear
    mlp_norm: Norm
    gated: Gated
    down: Linear
    q_norm: Norm | None = None
    k_norm: Norm | None = None
    attention_post_norm: Norm | None = None
    mlp_post_norm: Norm | None = None
