"""Dequantised weights of Llama 3.1 8B and SmolLM2, and the product of gate and up."""

import torch
from tests.kernels import meta
from tests.kernels.made_w4 import meta_w4

from unabridged.models.kernels.dequantise import plan_dequantise
from unabridged.models.kernels.gate_product import plan_gate_product
from unabridged.models.kernels.launch import Launch


def plans() -> dict[str, Launch]:
    """What every run compiles."""
    out = meta.empty(2, 7168, 4096, dtype=torch.float16)
    return {"8b": plan_dequantise(meta_w4(28672, 4096, 128), 0, out)}


def slow_plans() -> dict[str, Launch]:
    """The rest."""
    half = meta.empty(4096, 7168, dtype=torch.float16)
    out = meta.empty(2, 288, 1536, dtype=torch.bfloat16)
    return {
        "smollm2-bf16": plan_dequantise(meta_w4(576, 1536, 64), 0, out),
        "gate": plan_gate_product(meta.empty(4096, 2 * 7168, dtype=torch.float16), half, "gelu_tanh"),
    }
