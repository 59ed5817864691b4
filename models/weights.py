"""Weights of a checkpoint as a stream of (Hugging Face name, tensor), one tensor in memory at a time.

It knows files and shards, not which tensors a model needs: `unabridged.models.load` matches the two.
"""

from collections.abc import Iterator
from pathlib import Path

from safetensors import SafetensorError, safe_open
from torch import Tensor

from unabridged.models.config import ModelConfig
from unabridged.models.container import read_header
from unabridged.models.errors import ModelDamaged
from unabridged.models.folder import ModelFolder, hf_config, read_json
from unabridged.models.gguf import config_of, stream_gguf

Stream = Iterator[tuple[str, Tensor]]

# Buffers that old checkpoints carry and a config makes redundant.
IGNORED = (".rotary_emb.inv_freq",)


def open_checkpoint(path: Path) -> tuple[ModelConfig, Stream]:
    """The configuration and the weights at a model folder or .gguf file.

    Raises ModelNotFound, ModelUnsupported or ModelDamaged, at once for the configuration, while streaming for weights.
    """
    folder = ModelFolder.inspect(path)
    if folder.format == "gguf":
        header = read_header(folder.weights[0])
        config = config_of(header)
        return config, stream_gguf(header, config)
    generation = folder.path / "generation_config.json"
    options = read_json(generation) if generation.is_file() else None
    config = ModelConfig.from_hf(hf_config(folder.path), options)
    return config, stream_safetensors(folder)


def stream_safetensors(folder: ModelFolder) -> Stream:
    """Every tensor of the safetensors files, in the files' dtype."""
    for file in folder.weights:
        try:
            with safe_open(file, framework="pt") as shard:
                for name in list(shard.keys()):
                    if not name.endswith(IGNORED):
                        yield name, shard.get_tensor(name)
        except SafetensorError as error:
            raise ModelDamaged(
                f"{file.name}: {error}", "it is truncated or damaged: download or copy it again"
            ) from error
