"""activation(gate) * up of a product with many rows, in one pass."""

import triton
import triton.language as tl
from torch import Tensor
from torch.nn import functional

from unabridged.models.config import Activation
from unabridged.models.kernels.launch import Launch, runs

_NUMBERS = 1024


@triton.jit
def activated(gate, ACTIVATION: tl.constexpr):
    """float32 to float32."""
    inner = gate if ACTIVATION == "silu" else 1.5957691216057308 * (gate + 0.044715 * gate * gate * gate)
    return gate / (1.0 + tl.exp(-inner))


@triton.jit
def _gate_product(y, out, width, y_stride, out_stride, ACTIVATION: tl.constexpr, NUMBERS: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    i = tl.program_id(1) * NUMBERS + tl.arange(0, NUMBERS)
    known = i < width
    gate = tl.load(y + row * y_stride + i, mask=known, other=0.0).to(tl.float32)
    up = tl.load(y + row * y_stride + width + i, mask=known, other=0.0).to(tl.float32)
    product = activated(gate, ACTIVATION) * up
    tl.store(out + row * out_stride + i, product.to(out.dtype.element_ty), mask=known)


def plan_gate_product(y: Tensor, out: Tensor, activation: Activation) -> Launch:
    """`out` `[T, n]` from `y` `[T, 2 n]`, gates then ups. Rows of both are contiguous."""
    rows, width = out.shape
    numbers = min(_NUMBERS, triton.next_power_of_2(width))
    return Launch(
        _gate_product,
        (rows, triton.cdiv(width, numbers)),
        {"y": y, "out": out, "width": width, "y_stride": y.stride(0), "out_stride": out.stride(0)},
        {"ACTIVATION": activation, "NUMBERS": numbers},
        warps=4,
    )


gate_product = runs(plan_gate_product)


def gate_product_plain(y: Tensor, activation: Activation) -> Tensor:
    """`gate_product` in plain PyTorch: `[T, 2 n]` to `[T, n]` in y's dtype, arithmetic in float32."""
    gate, up = y.float().chunk(2, dim=-1)
    act = functional.silu(gate) if activation == "silu" else functional.gelu(gate, approximate="tanh")
    return (act * up).to(y.dtype)
