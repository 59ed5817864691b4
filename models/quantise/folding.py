"""Factors into a layer's projections and out of what precedes them, so that the layer computes what it did.

    qkv      behind the attention norm
    output   behind v: heads that share a value head share its factors
    gate_up  behind the MLP norm
    down     behind up

Weights and factors go by place, as in `block`; factors are those of a projection's columns `[in]`.
"""

from collections.abc import Mapping

import torch
from torch import Tensor

from unabridged.models.config import ModelConfig
from unabridged.models.quantise.block import Weights


def folded(config: ModelConfig, weights: Weights, factors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The layer's weights with `factors` of all four projections; those of output as `spread` gives them."""
    changed = {place: tensor * factors[place] if place in factors else tensor for place, tensor in weights.items()}
    changed["attention_norm"] = weights["attention_norm"] / factors["qkv"]
    changed["mlp_norm"] = weights["mlp_norm"] / factors["gate_up"]
    values = factors["output"].view(config.kv_heads, -1, config.head_dim)[:, 0].flatten()
    for place, by in (("qkv", values), ("gate_up", factors["down"])):
        for name in (place, place + ".bias"):
            if name in changed:
                changed[name] = _last_rows_divided(changed[name], by)
    return changed


def spread(config: ModelConfig, values: Tensor) -> Tensor:
    """`[G D]` of value heads to `[H D]` of the query heads that share them."""
    heads = values.view(config.kv_heads, 1, config.head_dim)
    return heads.expand(-1, config.group, -1).flatten()


def _last_rows_divided(tensor: Tensor, by: Tensor) -> Tensor:
    """Values are the last rows of qkv, up those of gate_up."""
    first, last = tensor.split((len(tensor) - len(by), len(by)))
    return torch.cat((first, last / (by if tensor.ndim == 1 else by[:, None])))
