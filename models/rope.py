"""Rotary positions: a model's frequencies. Who rotates what, and by which position, is the attention's business."""

import math

import torch
from torch import Tensor

from unabridged.models.config import ModelConfig
from unabridged.models.rope_scaling import RopeScaling


def inv_freq(config: ModelConfig) -> Tensor:
    """Radians per position of each pair, `[head_dim / 2]` float32. Dimension i is paired with i + head_dim / 2."""
    exponents = torch.arange(0, config.head_dim, 2, dtype=torch.int64).float() / config.head_dim
    frequencies = 1.0 / (config.rope_theta**exponents)
    scaling = config.rope_scaling
    if scaling is None:
        return frequencies
    if scaling.kind == "linear":
        return frequencies / scaling.factor
    if scaling.kind == "factors":
        return frequencies / torch.tensor(scaling.factors, dtype=torch.float32)
    return _llama3(frequencies, scaling)


def _llama3(frequencies: Tensor, scaling: RopeScaling) -> Tensor:
    """Long wavelengths are slowed by `factor`, short ones kept, the ones between blended."""
    turns = scaling.original * frequencies / (2 * math.pi)
    kept = ((turns - scaling.low) / (scaling.high - scaling.low)).clamp(0.0, 1.0)
    return frequencies * (kept + (1.0 - kept) / scaling.factor)
