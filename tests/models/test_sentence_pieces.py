"""Tokenizers with byte fallback: text survives, ids are those of the tokenizers that transformers builds, but for the
space that SentencePiece puts in front."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.models.test_tokenizer import HOSTILE
from transformers import PreTrainedTokenizerFast

from unabridged.models.errors import ModelUnsupported
from unabridged.models.tokenizer import Tokenizer

MERGES = ["\u2581 t", "h e", "\u2581t he", "l o", "lo r", "\u2581 \u2581", "e m", "i p"]
REPLACE = {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}
PREPEND = {"type": "Prepend", "prepend": "\u2581"}
STYLES: dict[str, dict[str, Any]] = {
    "gemma": {
        "normalizer": REPLACE,
        "pre_tokenizer": {
            "type": "Split",
            "pattern": {"String": " "},
            "behavior": "MergedWithPrevious",
            "invert": False,
        },
    },
    "mistral": {"normalizer": {"type": "Sequence", "normalizers": [PREPEND, REPLACE]}, "pre_tokenizer": None},
    "metaspace": {
        "normalizer": None,
        "pre_tokenizer": {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "first", "split": False},
    },
}


def spec(style: str, bytes_: int = 256) -> dict[str, Any]:
    letters = ["\u2581", *"abcdefghijklmnopqrstuvwxyz.,", "é", "北"]
    pieces = ["<unk>", "<bos>", "<end_of_turn>", *(f"<0x{byte:02X}>" for byte in range(bytes_)), *letters]
    pieces += [merge.replace(" ", "") for merge in MERGES]
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    added = [{"id": index, "content": pieces[index], "special": True, **flags} for index in range(3)]
    return {
        "version": "1.0",
        "added_tokens": added,
        **STYLES[style],
        "decoder": {"type": "Sequence", "decoders": [{"type": "ByteFallback"}, {"type": "Fuse"}]},
        "model": {
            "type": "BPE",
            "unk_token": "<unk>",
            "fuse_unk": True,
            "byte_fallback": True,
            "vocab": {piece: index for index, piece in enumerate(pieces)},
            "merges": [merge.split(" ") for merge in MERGES],
        },
    }


def made(folder: Path, raw: dict[str, Any]) -> Tokenizer:
    (folder / "tokenizer.json").write_text(json.dumps(raw))
    (folder / "config.json").write_text("{}")
    (folder / "model.safetensors").touch()
    return Tokenizer.load(folder)


@pytest.fixture(params=STYLES)
def style(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_text_survives_with_spans_that_cover_it(tmp_path: Path, style: str, text: str) -> None:
    tokenizer = made(tmp_path, spec(style))
    ids, spans = tokenizer.encode_spans(text)
    assert tokenizer.decode(ids) == text
    assert ids == tokenizer.encode(text)
    assert not {0, 1, 2} & set(ids)
    stream = tokenizer.stream()
    assert "".join(map(stream.push, ids)) + stream.flush() == text
    covered = 0
    for start, end in spans:
        assert start <= covered <= end
        covered = end
    assert covered == len(text)


def test_ids_are_those_of_transformers_behind_a_space(tmp_path: Path, style: str) -> None:
    tokenizer = made(tmp_path, spec(style))
    theirs = PreTrainedTokenizerFast(tokenizer_file=str(tmp_path / "tokenizer.json"), split_special_tokens=True)
    for text in HOSTILE.values():
        if style == "metaspace" and text.startswith((" ", "\u2581")):
            continue  # it adds none where one stands already
        ours = text if style == "gemma" or not text else " " + text
        assert tokenizer.encode(ours) == theirs.encode(text, add_special_tokens=False)


def test_what_stands_for_a_space_cannot_be_told_from_one(tmp_path: Path, style: str) -> None:
    tokenizer = made(tmp_path, spec(style))
    assert tokenizer.unencodable("a\u2581b") == "\u2581"
    assert tokenizer.decode(tokenizer.encode("a\u2581b")) == "a\ufffdb"


def test_a_turn_ends_where_gemma_says(tmp_path: Path) -> None:
    assert made(tmp_path, spec("gemma")).eos_ids == {2}


def test_what_we_cannot_rebuild_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelUnsupported, match="1 of 256 bytes have no token"):
        made(tmp_path, spec("gemma", 255))
    with pytest.raises(ModelUnsupported, match="byte fallback behind NFKC, None"):
        made(tmp_path, {**spec("mistral"), "normalizer": {"type": "NFKC"}})
