"""One layer from start to end: the factors of its four inputs, then the ranges of its groups, then 4 bits.

The factors of qkv are judged by what attention adds to the residual stream, those of gate_up by the MLP's output, the
others by the projection's own. They are searched on the weights as they came: dividing a row of v or up changes nothing
in how it is rounded. Ranges of query and key projections are not drawn in: their errors multiply in the scores.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from unabridged.models.awq import Int4
from unabridged.models.config import ModelConfig
from unabridged.models.quantise.block import PROJECTIONS, Block, Weights
from unabridged.models.quantise.clipping import clipped, moments
from unabridged.models.quantise.folding import folded, spread
from unabridged.models.quantise.rounding import limits, rounded, to_nearest
from unabridged.models.quantise.scales import best, condensed, size


@dataclass(frozen=True, slots=True)
class Quantised:
    """A finished layer. `projections`: by place; `others`: norms and biases, changed by the factors, float32; `rows`:
    what the layer as it was makes of the rows that entered it."""

    projections: dict[str, Int4]
    others: dict[str, Tensor]
    rows: Tensor


@torch.inference_mode()
def quantise(config: ModelConfig, weights: Weights, rows: Tensor, group: int) -> Quantised:
    """`weights` of one layer and the rows `[P, T, hidden]` that enter it; see `block` for both."""
    block = Block(config, weights, rows)
    out, seen = block.observe()
    factors = _factors(config, block, weights, seen, group)
    changed = folded(config, weights, factors)
    projections = {}
    for place in PROJECTIONS:
        ranges = _ranges(config, place, changed[place], seen[place] / factors[place], group)
        projections[place] = rounded(changed[place], *ranges)
    others = {place: tensor for place, tensor in changed.items() if place not in PROJECTIONS}
    return Quantised(projections, others, out)


def _factors(
    config: ModelConfig, block: Block, weights: Weights, seen: dict[str, Tensor], group: int
) -> dict[str, Tensor]:
    """Of each projection's columns, `[in]`."""

    def tried(place: str, factors: Tensor) -> Tensor:
        return to_nearest(weights[place] * factors, group) / factors

    def astray(place: str, x: Tensor, factors: Tensor) -> Tensor:
        return (x @ (tried(place, factors) - weights[place]).T).square().sum(dtype=torch.float64)

    mixed, gated = condensed(seen["output"]), condensed(seen["down"])
    values = size(seen["output"]).unflatten(0, (config.kv_heads, -1, config.head_dim)).mean(1).flatten()
    shared = best(values, lambda factors: astray("output", mixed, spread(config, factors)))
    return {
        "qkv": best(size(seen["qkv"]), lambda factors: block.attention_error(tried("qkv", factors))),
        "output": spread(config, shared),
        "gate_up": best(
            size(seen["gate_up"]), lambda factors: block.mlp_error(tried("gate_up", factors), seen["gate_up"])
        ),
        "down": best(size(seen["down"]), lambda factors: astray("down", gated, factors)),
    }


def _ranges(config: ModelConfig, place: str, weight: Tensor, x: Tensor, group: int) -> tuple[Tensor, Tensor]:
    whole = (config.heads + config.kv_heads) * config.head_dim if place == "qkv" else 0
    kept, drawn = limits(weight[:whole], group), clipped(weight[whole:], moments(x, group))
    low, high = (torch.cat(pair) for pair in zip(kept, drawn, strict=True))
    return low, high
