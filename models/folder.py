"""What lies in a model folder: which format, which files. Torch-free.

It looks at names only; whether the files are whole is for their readers. Some folders hold the weights twice, for
other programs under other names (Mistral's consolidated.safetensors): the shard index says which are meant, else
model.safetensors is.
"""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from unabridged.models.errors import ModelDamaged, ModelError, ModelNotFound, ModelUnsupported
from unabridged.models.quantisation import LEGACY_FILE, from_legacy

SHARD_INDEX = "model.safetensors.index.json"
_WHOLE = "model.safetensors"

# What we read of a Hugging Face folder besides the weights.
SIDE_FILES = (
    "config.json",
    LEGACY_FILE,
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "chat_template.jinja",
    SHARD_INDEX,
)
_PICKLED = ("*.bin", "*.pt", "*.pth", "*.ckpt")


@dataclass(frozen=True, slots=True)
class ModelFolder:
    """The files of one checkpoint. `weights` are the GGUF file or its safetensors files in name order; `sides` the
    configuration and tokenizer files that exist (none for GGUF: everything is in its metadata)."""

    path: Path
    format: Literal["gguf", "safetensors"]
    weights: tuple[Path, ...]
    sides: tuple[Path, ...]

    @classmethod
    def inspect(cls, path: Path) -> "ModelFolder":
        """The checkpoint at a folder or .gguf file. Raises ModelNotFound or ModelUnsupported, naming what is there,
        ModelDamaged when a file is missing that the shard index names, ModelError when one cannot be read."""
        if path.is_file():
            found = cls._of_file(path)
        elif path.is_dir():
            _check_readable(path)
            found = cls._of_folder(path)
        else:
            raise ModelNotFound(f"no model at {path}", "give a folder with a checkpoint or a .gguf file")
        for file in (*found.sides, *found.weights):
            _check_readable(file)
        return found

    @classmethod
    def _of_folder(cls, path: Path) -> "ModelFolder":
        ggufs = sorted(path.glob("*.gguf"))
        tensors = sorted(path.glob("*.safetensors"))
        if tensors and (path / "config.json").is_file():
            sides = tuple(path / name for name in SIDE_FILES if (path / name).is_file())
            return cls(path, "safetensors", _meant(path, tensors), sides)
        if len(ggufs) == 1:
            return cls(path, "gguf", (ggufs[0],), ())
        raise cls._unusable(path, ggufs, tensors)

    @classmethod
    def _of_file(cls, path: Path) -> "ModelFolder":
        if path.suffix != ".gguf":
            raise ModelUnsupported(f"{path} is not a model", "give a .gguf file or a folder with config.json")
        return cls(path.parent, "gguf", (path,), ())

    @staticmethod
    def _unusable(path: Path, ggufs: list[Path], tensors: list[Path]) -> ModelUnsupported:
        if ggufs:
            names = ", ".join(file.name for file in ggufs)
            return ModelUnsupported(f"{path} holds {len(ggufs)} GGUF files ({names})", "name one of them")
        if tensors:
            return ModelUnsupported(f"{path} has weights but no config.json", "copy the checkpoint's config.json there")
        if any(any(path.glob(pattern)) for pattern in _PICKLED):
            return ModelUnsupported(
                f"{path} holds pickled weights, which can run code when opened", "convert them to safetensors"
            )
        return ModelUnsupported(
            f"{path} holds no checkpoint", "it needs config.json and *.safetensors, or one .gguf file"
        )


def _check_readable(path: Path) -> None:
    """Before a reader of weights says that a file which it may not read does not exist."""
    if not os.access(path, os.R_OK):
        raise ModelError(f"{path} cannot be read", "check its permissions")


def _meant(path: Path, tensors: list[Path]) -> tuple[Path, ...]:
    """Of the safetensors files those that make the model."""
    if not (path / SHARD_INDEX).is_file():
        whole = path / _WHOLE
        chosen = [whole] if whole in tensors else tensors
        for file in chosen:
            if not file.is_file():
                raise ModelDamaged(f"{file} is not a file, or a link to none", "copy the checkpoint's files there")
        return tuple(chosen)
    mapping = read_json(path / SHARD_INDEX).get("weight_map")
    if not isinstance(mapping, dict) or not all(isinstance(name, str) for name in mapping.values()):
        raise ModelDamaged(f"{SHARD_INDEX} lacks a weight_map of file names", "download or copy it again")
    names = sorted(set(mapping.values()))
    for name in names:
        if Path(name).name != name or not (path / name).is_file():
            raise ModelDamaged(f"{name}, which {SHARD_INDEX} names, is missing in {path}", "copy all the shards")
    return tuple(path / name for name in names)


def hf_config(path: Path) -> dict[str, Any]:
    """config.json of a Hugging Face folder, with the quantization_config that old AWQ checkpoints keep beside it.

    Raises ModelDamaged.
    """
    raw = read_json(path / "config.json")
    if not raw.get("quantization_config") and (path / LEGACY_FILE).is_file():
        raw["quantization_config"] = from_legacy(read_json(path / LEGACY_FILE))
    return raw


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object from a file of a checkpoint. Raises ModelDamaged naming the file."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ModelDamaged(f"{path.name} is missing in {path.parent}", "copy the whole checkpoint folder") from error
    except (ValueError, RecursionError) as error:
        raise ModelDamaged(f"{path.name} is not valid JSON ({error})", "download or copy it again") from error
    if not isinstance(value, dict):
        raise ModelDamaged(f"{path.name} holds a {type(value).__name__}, not an object", "download or copy it again")
    return value
