"""What can be said of a checkpoint without loading it; whatever we cannot run is refused here. Torch-free."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Literal

from unabridged.models.blocks import check_complete
from unabridged.models.config import ModelConfig
from unabridged.models.container import read_header
from unabridged.models.errors import ModelDamaged, ModelUnsupported
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
    """Whether all weights are there and of the right shape, as they are or quantised."""
    wanted = {vector.name + ".weight": [vector.length] for vector in vectors(config)}
    packed: dict[str, dict[str, list[int]]] = {}
    form = config.quantisation
    for matrix in matrices(config):
        for piece in matrix.pieces:
            name = piece.name + ".weight"
            wanted[name] = [piece.rows, matrix.columns]
            if matrix.bias:
                wanted[piece.name + ".bias"] = [piece.rows]
            if form is not None and matrix.place != "embedding":
                parts = form.shapes(piece.rows, matrix.columns)
                packed[name] = {f"{piece.name}.{part}": [*shape] for part, shape in parts.items()}
    absent = [name for name in wanted if name not in shapes]
    missing = [one for name in absent for one in _lacking(name, packed.get(name, {}), shapes)]
    if missing:
        raise ModelDamaged(f"{len(missing)} weights are missing ({', '.join(missing[:3])}, ...)", "copy all its files")
    for name in absent:
        if form is not None and (columns := wanted[name][1]) % form.group:
            raise ModelUnsupported(f"{name}: {columns} columns do not divide into groups of {form.group}")
    for name, shape in wanted.items():
        for key, right in ({name: shape} if name in shapes else packed[name]).items():
            if shapes[key] != right:
                raise ModelDamaged(f"{key} has shape {shapes[key]}, its configuration says {right}")


def _lacking(name: str, parts: Iterable[str], shapes: Mapping[str, list[int]]) -> list[str]:
    """What is missing of a weight that is not there as it is: some of its quantised parts, or all of it."""
    missing = [part for part in parts if part not in shapes]
    return [name] if missing == [*parts] else missing


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
