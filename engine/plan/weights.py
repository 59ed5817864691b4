"""What a model's weights take of a GPU's memory: from its configuration alone, or from its files' sizes. Torch-free."""

from dataclasses import dataclass
from pathlib import Path

from unabridged.models.config import ModelConfig
from unabridged.models.container import read_header
from unabridged.models.folder import ModelFolder, hf_config
from unabridged.models.tensors import matrices, vectors

# A scale of 16 bits and a zero of 4, for each group of columns.
_GROUP_BITS = 20
# What checkpoints call numbers of four bytes; all others that are computed with have two.
_WIDE = ("float32", "torch.float32")


@dataclass(frozen=True)
class Weights:
    """A model on a GPU. `bytes`: of its weights; `itemsize`: of a number that it computes with."""

    config: ModelConfig
    bytes: int
    itemsize: int


def weights_of(path: Path, head_bits: int) -> Weights:
    """Of the checkpoint at a folder or .gguf file, or of a config.json alone. `head_bits`: of embedding and LM head.
    Raises ModelError."""
    if path.name == "config.json":
        return _hugging_face(path.parent, 0, head_bits)
    folder = ModelFolder.inspect(path)
    if folder.format == "gguf":
        header = read_header(folder.weights[0])
        tied = not any(tensor.name == "output.weight" for tensor in header.tensors)
        config = ModelConfig.from_gguf(header.metadata, tied)
        return Weights(config, size(config, 4, head_bits), 4)
    return _hugging_face(folder.path, sum(file.stat().st_size for file in folder.weights), head_bits)


def size(config: ModelConfig, itemsize: int, head_bits: int = 16) -> int:
    """From shapes. `itemsize`: bytes of a floating weight. Every projection of a 4-bit checkpoint counts as 4-bit."""
    total = sum(vector.length * itemsize for vector in vectors(config))
    for matrix in matrices(config):
        count, form = matrix.rows * matrix.columns, config.quantisation
        if matrix.place in ("embedding", "head"):
            total += count * (1 if head_bits == 8 else itemsize)
        elif form is not None:
            total += count // 2 + count // form.group * _GROUP_BITS // 8
        else:
            total += count * itemsize
    return total


def _hugging_face(folder: Path, files: int, head_bits: int) -> Weights:
    """The GPU holds what `files` bytes of safetensors files do, but for what is rounded to 8 bits."""
    raw = hf_config(folder)
    config = ModelConfig.from_hf(raw)
    wide = config.quantisation is None and str(raw.get("dtype") or raw.get("torch_dtype")) in _WIDE
    itemsize = 4 if wide else 2
    shapes = size(config, itemsize, head_bits)
    return Weights(config, files - size(config, itemsize) + shapes if files else shapes, itemsize)
