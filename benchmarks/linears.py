"""All layers' projections, one after the other, on random activations: what decoding and reading time alone."""

from collections.abc import Callable

import torch
from torch import Tensor

from unabridged.models.fused import InParts
from unabridged.models.linear import Linear
from unabridged.models.llama import Llama


@torch.inference_mode()
def linears(model: Llama, tokens: int, clock: Callable[[Callable[[], object]], float]) -> float:
    """Seconds by `clock` of the projections of `tokens` rows, whatever their weights need first included."""
    shape = model.config

    def of(width: int) -> Tensor:
        return torch.randn(tokens, width, dtype=model.dtype, device="cuda")

    hidden, mixed, inner = of(shape.hidden), of(shape.heads * shape.head_dim), of(shape.intermediate)

    def run() -> None:
        for layer in model.layers:
            _apply(layer.qkv, hidden)
            _apply(layer.output, mixed)
            layer.gated(hidden)
            _apply(layer.down, inner)

    return clock(run)


def _apply(linear: Linear, x: Tensor) -> Tensor:
    # As the fused residual stream has it.
    return linear.parts(x) if isinstance(linear, InParts) else linear(x)
