"""What can be said of a checkpoint without loading it; whatever we cannot run is refused here. Torch-free."""

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
from unabridged.models.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class Facts:
    """`window`: tokens the model was trained on; `parameters`: number of weights in its files."""

    format: Literal["gguf", "safetensors"]
    window: int
    parameters: int


def facts_of(checkpoint: ModelFolder) -> Facts:
    """Read its configuration, tokenizer and headers. Raises ModelUnsupported or ModelDamaged."""
    Tokenizer.load(checkpoint.path if checkpoint.format == "safetensors" else checkpoint.weights[0])
    if checkpoint.format == "gguf":
        header = read_header(checkpoint.weights[0])
        check_complete(header)
        tied = not any(tensor.name == "output.weight" for tensor in header.tensors)
        return Facts("gguf", ModelConfig.from_gguf(header.metadata, tied).window, header.parameters)
    config = ModelConfig.from_hf(hf_config(checkpoint.path))
    return Facts("safetensors", config.window, sum(map(_safetensors_parameters, checkpoint.weights)))


def _safetensors_parameters(path: Path) -> int:
    """Number of weights in one file, from its header."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="numpy") as file:
            return sum(_weights_in(name, file.get_slice(name).get_shape()) for name in list(file.keys()))
    except SafetensorError as error:
        raise ModelDamaged(f"{path.name}: {error}", "it is truncated or damaged: copy it again") from error


def _weights_in(name: str, shape: list[int]) -> int:
    """Scales, zero points and shapes of quantised weights are not weights; a word of packed ones holds eight."""
    if name.endswith(BESIDES):
        return 0
    return prod(shape) * (8 if name.endswith(PACKED) else 1)
