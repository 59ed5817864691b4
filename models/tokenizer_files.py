"""Where a tokenizer comes from: tokenizer.json of a Hugging Face folder, or GGUF metadata rebuilt as one. Torch-free.

Both end as the same `TokenizerFiles`: a tokenizer.json reduced to what decides ids. GGUF names its pre-tokenizer
instead of storing it; only the names in _PRE are known exactly, all others are refused.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from unabridged.models import sentence_pieces
from unabridged.models.container import read_header
from unabridged.models.errors import ModelDamaged, ModelUnsupported
from unabridged.models.folder import ModelFolder, read_json
from unabridged.models.foreign import merged_ids, shown
from unabridged.models.tokenizer_check import check_tokenizer, damaged

# Tokens that end an answer by convention, whether or not the files list them as end tokens.
END_TOKENS = (
    "<|im_end|>",
    "<|endoftext|>",
    "<|end_of_text|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|end|>",
    "<end_of_turn>",
    "[|endofturn|]",
)

_LLAMA3_SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)

# The same, but that each digit is alone.
_QWEN2_SPLIT = _LLAMA3_SPLIT.replace(r"\p{N}{1,3}", r"\p{N}")


def _byte_level(use_regex: bool) -> dict[str, Any]:
    return {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": use_regex}


def _split(regex: str) -> dict[str, Any]:
    return {"type": "Split", "pattern": {"Regex": regex}, "behavior": "Isolated", "invert": False}


def _sequence(*parts: dict[str, Any]) -> dict[str, Any]:
    return {"type": "Sequence", "pretokenizers": list(parts)}


_DIGITS = {"type": "Digits", "individual_digits": True}


_NFC = {"type": "NFC"}


@dataclass(frozen=True, slots=True)
class _Pre:
    """A pre-tokenizer that GGUF knows by name. `whole_words`: a word that is in the vocabulary is one token, whatever
    the merges say."""

    pre_tokenizer: dict[str, Any]
    whole_words: bool = False
    normalizer: dict[str, Any] | None = None


_PRE = {
    "gpt-2": _Pre(_byte_level(use_regex=True)),
    "smollm": _Pre(_sequence(_DIGITS, _byte_level(use_regex=True))),
    "llama-bpe": _Pre(_sequence(_split(_LLAMA3_SPLIT), _byte_level(use_regex=False)), whole_words=True),
    "qwen2": _Pre(_sequence(_split(_QWEN2_SPLIT), _byte_level(use_regex=False)), normalizer=_NFC),
}

_CONTROL, _USER_DEFINED = 3, 4


@dataclass(frozen=True, slots=True)
class TokenizerFiles:
    """All that a `Tokenizer` needs. `spec`: a tokenizer.json with what decides ids and nothing else; `added`: its
    added tokens; `template`: Jinja source or None; `names`: the special tokens that templates refer to by name."""

    spec: dict[str, Any]
    template: str | None
    eos_ids: frozenset[int]
    names: dict[str, str] = field(default_factory=dict)

    @property
    def added(self) -> list[dict[str, Any]]:
        """Tokens outside the merges: special ones, and ones that a user added."""
        return list(self.spec["added_tokens"])

    @property
    def sentence_pieces(self) -> bool:
        """Whether tokens are text (`models.sentence_pieces`) and not byte-level."""
        return sentence_pieces.is_sentence_pieces(self.spec)


def read_tokenizer_files(path: Path) -> TokenizerFiles:
    """The tokenizer of a model folder or a .gguf file. Raises ModelNotFound, ModelDamaged or ModelUnsupported."""
    folder = ModelFolder.inspect(path)
    if folder.format == "gguf":
        return _from_gguf(folder.weights[0])
    return _from_hf(folder.path)


@cache
def byte_alphabet() -> Mapping[str, int]:
    """The printable character that byte-level BPE writes for each byte, and the byte. Printable Latin-1 stands for
    itself; the other bytes take the characters from U+0100 on, in order."""
    shown = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = [byte for byte in range(256) if byte not in set(shown)]
    return {chr(byte): byte for byte in shown} | {chr(0x100 + n): byte for n, byte in enumerate(hidden)}


# --------------------------------------------------------------------------------------------------- Hugging Face


def _from_hf(folder: Path) -> TokenizerFiles:
    spec = _reduced(read_json(folder / "tokenizer.json"))
    options = _optional(folder / "tokenizer_config.json")
    names = {key: text for key in ("bos_token", "eos_token", "unk_token", "pad_token") if (text := _text(options, key))}
    by_text = {one["content"]: one["id"] for one in spec["added_tokens"]}
    listed = [_optional(folder / name).get("eos_token_id") for name in ("config.json", "generation_config.json")]
    ids = set(merged_ids(*listed))
    ids |= {by_text[text] for text in (names.get("eos_token"), *END_TOKENS) if text in by_text}
    return TokenizerFiles(spec, _hf_template(folder, options), frozenset(ids), names)


def _reduced(raw: Mapping[str, Any]) -> dict[str, Any]:
    """What decides ids. Post-processors add special tokens, padding and truncation change lengths: they go."""
    check_tokenizer(raw)
    model = raw.get("model") or {}
    if sentence_pieces.is_sentence_pieces(raw):
        added = list(raw.get("added_tokens") or ())
        return {"version": "1.0", "added_tokens": added, **sentence_pieces.reduced(raw), "model": dict(model)}
    if model.get("type") != "BPE" or not _is_byte_level(raw.get("decoder")):
        found = f"{model.get('type', 'no')} with decoder {(raw.get('decoder') or {}).get('type', 'none')}"
        raise ModelUnsupported(
            f"tokenizer.json: model {found}", "this version runs BPE, byte-level or with byte fallback"
        )
    kept = {key: raw.get(key) for key in ("normalizer", "pre_tokenizer")}
    added = list(raw.get("added_tokens") or ())
    return {"version": "1.0", "added_tokens": added, **kept, "decoder": {**_byte_level(True)}, "model": dict(model)}


def _is_byte_level(decoder: Mapping[str, Any] | None) -> bool:
    return decoder is not None and decoder.get("type") == "ByteLevel"


def _hf_template(folder: Path, options: Mapping[str, Any]) -> str | None:
    file = folder / "chat_template.jinja"
    if file.is_file():
        try:
            return file.read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            raise damaged(f"{file.name}: {error}") from error
    template = options.get("chat_template")
    if isinstance(template, list):
        named = [one for one in template if isinstance(one, Mapping) and one.get("name") == "default"]
        template = named[0].get("template") if named else None
    if not isinstance(template, str | None):
        raise damaged(f"tokenizer_config.json: chat_template is {shown(template)}, not a text")
    return template


def _optional(path: Path) -> dict[str, Any]:
    return read_json(path) if path.is_file() else {}


def _text(options: Mapping[str, Any], key: str) -> str | None:
    """A token's text: older files wrap it in an object."""
    value = options.get(key)
    text = value.get("content") if isinstance(value, dict) else value
    return text if isinstance(text, str) else None


# ------------------------------------------------------------------------------------------------------------ GGUF


def _from_gguf(file: Path) -> TokenizerFiles:
    metadata = read_header(file).metadata
    pre = _gguf_pre(metadata, file.name)
    tokens = _gguf_list(metadata, "tokens", file.name)
    kinds = _gguf_list(metadata, "token_type", file.name)
    added = [
        _added(index, text, kind == _CONTROL)
        for index, (text, kind) in enumerate(zip(tokens, kinds, strict=True))
        if kind in (_CONTROL, _USER_DEFINED)
    ]
    outside = {one["id"] for one in added}
    spec = {
        "version": "1.0",
        "added_tokens": added,
        "normalizer": pre.normalizer,
        "pre_tokenizer": pre.pre_tokenizer,
        "decoder": _byte_level(True),
        "model": {
            "type": "BPE",
            "ignore_merges": pre.whole_words,
            "vocab": {text: index for index, text in enumerate(tokens) if not (pre.whole_words and index in outside)},
            "merges": [merge.split(" ") for merge in _gguf_list(metadata, "merges", file.name)],
        },
    }
    return TokenizerFiles(
        spec, metadata.get("tokenizer.chat_template"), _gguf_ends(metadata, added), _gguf_names(metadata)
    )


def _gguf_pre(metadata: Mapping[str, Any], name: str) -> _Pre:
    model, pre = metadata.get("tokenizer.ggml.model"), metadata.get("tokenizer.ggml.pre")
    if model != "gpt2" or pre not in _PRE:
        raise ModelUnsupported(
            f"{name}: GGUF tokenizer {model} with pre-tokenizer {pre}",
            f"use the model's Hugging Face folder, or a GGUF with one of: {', '.join(_PRE)}",
        )
    return _PRE[pre]


def _gguf_list(metadata: Mapping[str, Any], key: str, name: str) -> list[Any]:
    value = metadata.get(f"tokenizer.ggml.{key}")
    if not isinstance(value, list):
        raise ModelDamaged(f"{name}: its metadata lacks tokenizer.ggml.{key}", "convert the model again")
    return value


def _added(index: int, text: str, special: bool) -> dict[str, Any]:
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    return {"id": index, "content": text, **flags, "special": special}


def _gguf_ends(metadata: Mapping[str, Any], added: list[dict[str, Any]]) -> frozenset[int]:
    listed = {metadata.get(f"tokenizer.ggml.{name}_token_id") for name in ("eos", "eot", "eom")}
    named = {one["id"] for one in added if one["special"] and one["content"] in END_TOKENS}
    return frozenset(named | {one for one in listed if one is not None})


def _gguf_names(metadata: Mapping[str, Any]) -> dict[str, str]:
    keys = {"bos_token": "bos", "eos_token": "eos", "unk_token": "unknown", "pad_token": "padding"}
    tokens = metadata["tokenizer.ggml.tokens"]
    found = {name: metadata.get(f"tokenizer.ggml.{key}_token_id") for name, key in keys.items()}
    return {name: tokens[index] for name, index in found.items() if index is not None and index < len(tokens)}
