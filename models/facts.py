"""What can be said of a checkpoint without loading it; whatever we cannot run is refused here. Torch-free."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Literal

from unabridged.models.blocks import check_complete
from unabridged.models.config import ModelConfig
from unabridged.models.container import read_header
from unabridged.models.errors import ModelDamaged
from unabridged.models.folder import ModelFolder, hf_config
from unabridged.models.quantisation import BESIDES, PACKED
from unabridged.models.tensors import matrices, vectors
from unabridged.models.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class Facts:
    """`window`: tokens the model was trained on; `parameters`: number of weights in its files."""

    format: Literal["gguf", "safetensors"]
    window: int
    parameters: int


def facts_of(checkpoint: ModelFolder) -> Facts:
    """Read its configuration, tokenizer and headers. Raises ModelUnsupported or ModelDamaged."""
    tokenizer = Tokenizer.load(checkpoint.path if checkpoint.format == "safetensors" else checkpoint.weights[0])
    if checkpoint.format == "gguf":
        header = read_header(checkpoint.weights[0])
        check_complete(header)
        tied = not any(tensor.name == "output.weight" for tensor in header.tensors)
        config = ModelConfig.from_gguf(header.metadata, tied)
        _check_vocabulary(tokenizer, config)
        return Facts("gguf", config.window, header.parameters)
    config = ModelConfig.from_hf(hf_config(checkpoint.path))
    _check_vocabulary(tokenizer, config)
    shapes: dict[str, list[int]] = {}
    for path in checkpoint.weights:
        found = _shapes(path)
        for name in found.keys() & shapes.keys():
            raise ModelDamaged(f"{path.name}: {name} is stored twice", "copy the checkpoint again")
        shapes |= found
    _check_shapes(config, shapes)
    return Facts("safetensors", config.window, sum(_weights_in(name, shape) for name, shape in shapes.items()))


def _check_vocabulary(tokenizer: Tokenizer, config: ModelConfig) -> None:
    """An id past the embedding would stop the engine when a text first has it."""
    if tokenizer.reach > config.vocab_size:
        raise ModelDamaged(
            f"the tokenizer's ids reach {tokenizer.reach - 1:,}, the model knows {config.vocab_size:,} tokens",
            "copy the checkpoint's own tokenizer and config.json",
        )


def _check_shapes(config: ModelConfig, shapes: Mapping[str, list[int]]) -> None:
    """Whether all weights are there. Of packed ones only the names are compared: their shapes when they are loaded."""
    wanted = {vector.name + ".weight": [vector.length] for vector in vectors(config)}
    for matrix in matrices(config):
        for piece in matrix.pieces:
            wanted[piece.name + ".weight"] = [piece.rows, matrix.columns]
            if matrix.bias:
                wanted[piece.name + ".bias"] = [piece.rows]
    missing = [one for name in wanted for one in _lacking(config, name, shapes)]
    if missing:
        raise ModelDamaged(f"{len(missing)} weights are missing ({', '.join(missing[:3])}, ...)", "copy all its files")
    for name, shape in wanted.items():
        if shapes.get(name, shape) != shape:
            raise ModelDamaged(f"{name} has shape {shapes[name]}, its configuration says {shape}")


def _lacking(config: ModelConfig, name: str, shapes: Mapping[str, list[int]]) -> list[str]:
    """What is missing of a weight that may be stored as it is or quantised."""
    form, stem = config.quantisation, name.removesuffix(".weight")
    if name in shapes or form is None or stem == name:
        return [] if name in shapes else [name]
    parts = [stem + part for part in form.parts]
    missing = [part for part in parts if part not in shapes]
    return [name] if missing == parts else missing


def _shapes(path: Path) -> dict[str, list[int]]:
    """Of the tensors of one file, from its header."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="numpy") as file:
            return {name: list(file.get_slice(name).get_shape()) for name in list(file.keys())}
    except SafetensorError as error:
        raise ModelDamaged(f"{path.name}: {error}", "it is truncated or damaged: copy it again") from error


def _weights_in(name: str, shape: list[int]) -> int:
    """Scales, zero points and shapes of quantised weights are not weights; a word of packed ones holds eight."""
    if name.endswith(BESIDES):
        return 0
    return prod(shape) * (8 if name.endswith(PACKED) else 1)
