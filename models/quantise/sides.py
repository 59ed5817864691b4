"""The files beside the weights: those of a Hugging Face folder, or the same made of a GGUF file's metadata."""

import json
import shutil
from pathlib import Path
from typing import Any

from unabridged.models.config import ModelConfig
from unabridged.models.errors import ModelUnsupported
from unabridged.models.families import family_named
from unabridged.models.folder import SHARD_INDEX, SIDE_FILES, ModelFolder, read_json
from unabridged.models.tokenizer_files import read_tokenizer_files

CONFIG = "config.json"
# Files that other readers of the folder want, and the terms under which it may be passed on.
_COPIED = (
    *(name for name in SIDE_FILES if name not in (CONFIG, SHARD_INDEX)),
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "merges.txt",
    "tokenizer.model",
)
_TERMS = ("LICENSE*", "LICENCE*", "NOTICE*", "USE_POLICY*")


def source_config(folder: ModelFolder, config: ModelConfig) -> dict[str, Any]:
    """config.json of the model as it is. Raises ModelUnsupported for a GGUF file that none can describe."""
    return read_json(folder.path / CONFIG) if folder.format == "safetensors" else _described(config)


def write_sides(folder: ModelFolder, config: ModelConfig, target: Path) -> None:
    """All but config.json and the shard index into the folder `target`."""
    if folder.format == "gguf":
        _write_gguf(folder, config, target)
        return
    copied = [folder.path / name for name in _COPIED] + [file for kind in _TERMS for file in folder.path.glob(kind)]
    for file in copied:
        if file.is_file():
            shutil.copyfile(file, target / file.name)


def write_json(path: Path, value: dict[str, Any]) -> None:
    """As the files of a checkpoint are written."""
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", "utf-8")


def _described(config: ModelConfig) -> dict[str, Any]:
    family = family_named(config.architecture)
    if config.rope_scaling is not None or family.keys or family.norm_offset:
        raise ModelUnsupported(
            f"a GGUF of {config.architecture} whose config.json cannot be made up",
            "use the model's Hugging Face folder",
        )
    return {
        "architectures": [family.hf_classes[0]],
        "model_type": family.name,
        "vocab_size": config.vocab_size,
        "hidden_size": config.hidden,
        "intermediate_size": config.intermediate,
        "num_hidden_layers": config.layers,
        "num_attention_heads": config.heads,
        "num_key_value_heads": config.kv_heads,
        "head_dim": config.head_dim,
        "hidden_act": "silu",
        "rms_norm_eps": config.norm_eps,
        "rope_theta": config.rope_theta,
        "max_position_embeddings": config.window,
        "tie_word_embeddings": config.tied,
        **_ends(config),
    }


def _ends(config: ModelConfig) -> dict[str, Any]:
    return {"bos_token_id": config.bos_id, "eos_token_id": list(config.eos_ids) or None}


def _write_gguf(folder: ModelFolder, config: ModelConfig, target: Path) -> None:
    files = read_tokenizer_files(folder.weights[0])
    write_json(target / "tokenizer.json", files.spec)
    options: dict[str, Any] = {"tokenizer_class": "PreTrainedTokenizerFast", **files.names}
    if files.template is not None:
        options["chat_template"] = files.template
    write_json(target / "tokenizer_config.json", options)
    write_json(target / "generation_config.json", _ends(config))
