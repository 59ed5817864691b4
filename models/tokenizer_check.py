"""Whether a tokenizer.json holds what we read of it, so that a damaged one is named as such. Torch-free."""

from collections.abc import Mapping
from typing import Any

from unabridged.models.errors import ModelDamaged
from unabridged.models.foreign import shown

_OBJECTS = ("model", "decoder", "normalizer", "pre_tokenizer")
_TOKEN = {"content": str, "id": int, "special": bool}


def check_tokenizer(raw: Mapping[str, Any]) -> None:
    """The types of its parts, and that BPE has a vocabulary. Raises ModelDamaged."""
    for key in _OBJECTS:
        if not isinstance(raw.get(key) or {}, Mapping):
            raise damaged(f"tokenizer.json: {key} is {shown(raw[key])}, not an object")
    added = raw.get("added_tokens") or []
    if not isinstance(added, list) or not all(map(_is_token, added)):
        raise damaged(f"tokenizer.json: added_tokens is not a list of tokens with {', '.join(_TOKEN)}")
    model = raw.get("model") or {}
    if model.get("type") == "BPE" and not _is_vocabulary(model.get("vocab")):
        raise damaged("tokenizer.json has no vocabulary")


def damaged(found: str) -> ModelDamaged:
    """The error for a file of a tokenizer."""
    return ModelDamaged(found, "download or copy it again")


def _is_token(one: Any) -> bool:
    return isinstance(one, Mapping) and all(isinstance(one.get(key), kind) for key, kind in _TOKEN.items())


def _is_vocabulary(vocab: Any) -> bool:
    return isinstance(vocab, Mapping) and bool(vocab) and all(isinstance(index, int) for index in vocab.values())
