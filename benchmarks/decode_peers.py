"""What else runs a decode step of the same geometry here: PyTorch's float16 and int4 products, and cuDNN's attention.

Weights are random; times do not depend on them. Whatever cannot run says why.
"""

import importlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import torch
from benchmarks.gpu import graph_time
from torch import Tensor
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

from unabridged.models.config import ModelConfig

GROUP = 128


@dataclass(frozen=True)
class Peer:
    """A peer's seconds for `what`, or why it did not run."""

    name: str
    what: str
    seconds: float | None
    why: str = ""


def peers(model: ModelConfig, contexts: list[int]) -> Iterator[Peer]:
    """Linear layers of all layers with one row, then whole steps."""
    yield _tried("PyTorch int4 (tinygemm, bf16)", "linears", partial(_int4, model))
    yield _tried("PyTorch fp16 (cuBLAS)", "linears", partial(_fp16, model))
    for length in contexts:
        name = "PyTorch fp16 (cuBLAS, cuDNN attention)"
        yield _tried(name, f"step at {length}", partial(_whole, model, length))
    yield _tried("gemlite int4", "linears", partial(_gemlite, model))


def _tried(name: str, what: str, run: Callable[[], float]) -> Peer:
    try:
        return Peer(name, what, run())
    except Exception as error:
        lines = str(error).splitlines() or [""]
        return Peer(name, what, None, f"{type(error).__name__}: {lines[0][:160]}")
    finally:
        torch.cuda.empty_cache()


def _shapes(model: ModelConfig) -> list[tuple[int, int]]:
    """(out, in) of a layer's four products."""
    queries = model.heads * model.head_dim
    qkv = queries + 2 * model.kv_heads * model.head_dim
    return [
        (qkv, model.hidden),
        (model.hidden, queries),
        (2 * model.intermediate, model.hidden),
        (model.hidden, model.intermediate),
    ]


def _half(model: ModelConfig) -> list[list[Tensor]]:
    return [
        [torch.randn(rows, columns, dtype=torch.float16, device="cuda") * columns**-0.5 for rows, columns in shapes]
        for shapes in [_shapes(model)] * model.layers
    ]


def _fp16(model: ModelConfig) -> float:
    layers = _half(model)
    inputs = [torch.randn(1, columns, dtype=torch.float16, device="cuda") for _, columns in _shapes(model)]

    def run() -> None:
        for layer in layers:
            for weight, x in zip(layer, inputs, strict=True):
                functional.linear(x, weight)

    return graph_time(run)


def _int4(model: ModelConfig) -> float:
    layers = []
    for _ in range(model.layers):
        for rows, columns in _shapes(model):
            packed = torch.randint(0, 255, (rows, columns // 2), dtype=torch.uint8, device="cuda")
            scales = torch.randn(columns // GROUP, rows, 2, dtype=torch.bfloat16, device="cuda")
            layers.append((torch.ops.aten._convert_weight_to_int4pack(packed, 8), scales, columns))
    inputs = {columns: torch.randn(1, columns, dtype=torch.bfloat16, device="cuda") for _, columns in _shapes(model)}

    def run() -> None:
        for weight, scales, columns in layers:
            torch.ops.aten._weight_int4pack_mm(inputs[columns], weight, GROUP, scales)

    return graph_time(run)


def _gemlite(model: ModelConfig) -> float:
    gemlite = importlib.import_module("gemlite")
    layers = []
    for _ in range(model.layers):
        for rows, columns in _shapes(model):
            linear = gemlite.GemLiteLinear(
                4,
                group_size=GROUP,
                in_features=columns,
                out_features=rows,
                input_dtype=gemlite.DType.FP16,
                output_dtype=gemlite.DType.FP16,
            )
            values = torch.randint(0, 15, (rows, columns), dtype=torch.uint8, device="cuda")
            scales, zeros = (
                torch.rand(rows * columns // GROUP, 1, dtype=torch.float16, device="cuda") for _ in range(2)
            )
            linear.pack(values, scales, zeros, None)
            layers.append((linear, columns))
    inputs = {columns: torch.randn(1, columns, dtype=torch.float16, device="cuda") for _, columns in _shapes(model)}

    def run() -> None:
        for linear, columns in layers:
            linear(inputs[columns])

    return graph_time(run)


@torch.inference_mode()
def _whole(model: ModelConfig, length: int) -> float:
    """A dense step in float16, its keys and values too, rotation left out."""
    layers, heads, dim = _half(model), model.kv_heads, model.head_dim
    table = torch.randn(model.vocab_size, model.hidden, dtype=torch.float16, device="cuda")
    head, norm = torch.randn_like(table), torch.ones(model.hidden, dtype=torch.float16, device="cuda")
    caches = [torch.randn(2, 1, heads, length, dim, dtype=torch.float16, device="cuda") for _ in layers]
    ids = torch.zeros(1, dtype=torch.int64, device="cuda")

    def normed(x: Tensor) -> Tensor:
        return functional.rms_norm(x, norm.shape, norm, 1e-5)

    def step() -> None:
        x = functional.embedding(ids, table)
        for (qkv, output, gate_up, down), (k, v) in zip(layers, caches, strict=True):
            every = functional.linear(normed(x), qkv).view(1, -1, dim)
            q, new_k, new_v = every.split((model.heads, heads, heads), dim=1)
            k[:, :, -1], v[:, :, -1] = new_k, new_v
            with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
                mixed = functional.scaled_dot_product_attention(q[:, :, None], k, v, enable_gqa=True)
            x = x + functional.linear(mixed.reshape(1, -1), output)
            gate, up = functional.linear(normed(x), gate_up).chunk(2, -1)
            x = x + functional.linear(functional.silu(gate) * up, down)
        ids.copy_(functional.linear(normed(x), head).argmax(-1))

    return graph_time(step)
