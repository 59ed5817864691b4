"""Tensors and configuration as AutoAWQ's "gemm" files hold them.

A projection `[N, K]` in groups of g columns is three tensors: qweight int32 `[K, N/8]`, qzeros int32 `[K/g, N/8]`,
scales float16 `[K/g, N]`. A word holds eight neighbouring outputs, 4 bits each, in the order of `_SHIFTS`. Everything
else is float16 under its own name. `models.awq` reads it.
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from unabridged.models.awq import Int4
from unabridged.models.errors import ModelUnsupported

# Outputs that share a word: N must be a multiple.
OUTPUTS = 8
# Where output 8c + j stands in word c.
_SHIFTS = tuple(4 * place for place in (0, 4, 1, 5, 2, 6, 3, 7))


def projection(name: str, weight: Int4) -> dict[str, Tensor]:
    """The tensors of projection `name`."""
    return {
        f"{name}.qweight": _packed(weight.values.T),
        f"{name}.qzeros": _packed(weight.zeros.T),
        f"{name}.scales": weight.scales.T.contiguous(),
    }


def half(name: str, tensor: Tensor) -> Tensor:
    """`tensor` in float16. Raises ModelUnsupported when a number does not fit."""
    narrow = tensor.half()
    if not narrow.sum(dtype=torch.float32).isfinite():
        largest = float(tensor.abs().max())
        raise ModelUnsupported(f"{name} holds {largest:.3g}", "AWQ files are float16, which ends at 65504")
    return narrow.contiguous()


def configuration(raw: Mapping[str, Any], group: int) -> dict[str, Any]:
    """config.json of the quantised model, from that of its source."""
    kept = {key: value for key, value in raw.items() if key not in ("torch_dtype", "dtype")}
    quantised = {
        "quant_method": "awq",
        "version": "gemm",
        "bits": 4,
        "group_size": group,
        "zero_point": True,
        "modules_to_not_convert": None,
    }
    # The older of the two names of the type: readers of the newer one know it as well.
    return {**kept, "torch_dtype": "float16", "quantization_config": quantised}


def _packed(values: Tensor) -> Tensor:
    """`[rows, N]` of 0..15 to int32 `[rows, N/8]`."""
    nibbles = values.contiguous().to(torch.int32).unflatten(-1, (-1, OUTPUTS))
    words = torch.zeros_like(nibbles[..., 0])
    for place, shift in enumerate(_SHIFTS):
        words |= nibbles[..., place] << shift
    return words
