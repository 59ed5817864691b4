"""Tokenizers of Mistral 7B and Gemma 2, as tokenizer.json has them: BPE over text in which "▁" stands for a space, and
one token for each byte that no piece covers. Torch-free.

SentencePiece reads a text as if a space stood in front of it. Ours reads it as it is, so that decoding gives it back:
the space that belongs behind "[INST]" is the chat template's. The character "▁" itself cannot be told from a space.
"""

import re
from collections.abc import Mapping
from typing import Any

from unabridged.models.errors import ModelUnsupported

SPACE = "\u2581"

_REPLACED = {"type": "Replace", "pattern": {"String": " "}, "content": SPACE}
_BYTE = re.compile(r"<0x([0-9A-F]{2})>")


def is_sentence_pieces(raw: Mapping[str, Any]) -> bool:
    """Whether a tokenizer.json is of this kind."""
    model = raw.get("model") or {}
    return bool(model.get("type") == "BPE" and model.get("byte_fallback"))


def reduced(raw: Mapping[str, Any]) -> dict[str, Any]:
    """What comes before the model, without the space in front: `normalizer` and `pre_tokenizer` of tokenizer.json.

    Raises ModelUnsupported for steps that we do not know, and for a vocabulary that lacks a byte.
    """
    missing = 256 - sum(f"<0x{byte:02X}>" in raw["model"]["vocab"] for byte in range(256))
    if missing:
        raise ModelUnsupported(f"tokenizer.json: {missing} of 256 bytes have no token", "use another checkpoint")
    return _steps(raw.get("normalizer"), raw.get("pre_tokenizer"))


def piece_bytes(token: str) -> bytes:
    """The bytes that a token of the vocabulary stands for."""
    match = _BYTE.fullmatch(token)
    return bytes([int(match[1], 16)]) if match else token.replace(SPACE, " ").encode()


def _steps(normalizer: Mapping[str, Any] | None, cut: Mapping[str, Any] | None) -> dict[str, Any]:
    steps = [] if normalizer is None else normalizer.get("normalizers", [normalizer])
    kept = [step for step in steps if step.get("type") != "Prepend"]
    # A space never survives until the text is cut at spaces.
    if kept == [_REPLACED] and (cut is None or cut.get("pattern") == {"String": " "}):
        return {"normalizer": _REPLACED, "pre_tokenizer": None}
    if not kept and cut is not None and cut.get("type") == "Metaspace" and cut.get("replacement") == SPACE:
        return {"normalizer": None, "pre_tokenizer": {**cut, "prepend_scheme": "never"}}
    found = ", ".join(str((step or {}).get("type")) for step in (normalizer, cut))
    raise ModelUnsupported(f"tokenizer.json: byte fallback behind {found}", "this version runs Mistral's and Gemma's")
