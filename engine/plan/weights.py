"""What a model's weights take of a GPU's memory: from its configuration alone, or from its files' sizes."""

from math import prod

from unabridged.models.config import ModelConfig
from unabridged.models.tensors import matrices, vectors

# A scale of 16 bits and a zero of 4, for each group of columns.
_GROUP_BITS = 20


def from_config(config: ModelConfig, itemsize: int = 2, head_bits: int = 16) -> int:
    """`itemsize`: bytes of a floating weight. Every projection of a 4-bit checkpoint counts as 4-bit."""
    total = sum(vector.length * itemsize for vector in vectors(config))
    for matrix in matrices(config):
        size, form = prod((matrix.rows, matrix.columns)), config.quantisation
        if matrix.place in ("embedding", "head"):
            total += size * (1 if head_bits == 8 else itemsize)
        elif form is not None:
            total += size // 2 + size // form.group * _GROUP_BITS // 8
        else:
            total += size * itemsize
    return total


def from_files(config: ModelConfig, size: int, head_bits: int = 16) -> int:
    """Of a checkpoint in safetensors files of `size` bytes, which the GPU holds as it is."""
    if head_bits == 16:
        return size
    return size - from_config(config) + from_config(config, head_bits=8)
