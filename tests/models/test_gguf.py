"""A GGUF file gives the same model as the checkpoint it was made from; a torn one is named, never half read."""

import struct
from pathlib import Path

import gguf
import pytest
import torch
from gguf import GGMLQuantizationType as Kind
from tests.models.conftest import TinyLlama
from tests.models.gguf_files import finish, write_llama
from tests.models.test_llama import LLAMA3, ours, theirs
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import Qwen2Tokenizer

from unabridged.models.container import read_header
from unabridged.models.errors import ModelDamaged, ModelError, ModelNotFound, ModelUnsupported
from unabridged.models.load import load_model
from unabridged.models.rope import inv_freq
from unabridged.models.tokenizer import Tokenizer as OurTokenizer
from unabridged.models.tokenizer_files import byte_alphabet

WIDE = {"hidden_size": 64, "intermediate_size": 96, "num_attention_heads": 4, "num_key_value_heads": 2}


@pytest.mark.parametrize("kind", [Kind.F32, Kind.F16, Kind.BF16, Kind.Q8_0, Kind.Q4_1, Kind.Q5_0], ids=lambda k: k.name)
def test_logits_are_those_of_the_checkpoint(tiny_llama: TinyLlama, tmp_path: Path, kind: Kind) -> None:
    _, reference = tiny_llama(**WIDE)
    write_llama(tmp_path / "m.gguf", reference, kind)
    ids = torch.randint(0, 256, (50,))
    found = ours(load_model(tmp_path / "m.gguf"), ids, 50)
    torch.testing.assert_close(found, theirs(reference, ids), atol=1e-3, rtol=0)


def test_a_file_without_output_tensor_is_tied(tiny_llama: TinyLlama, tmp_path: Path) -> None:
    _, reference = tiny_llama(**WIDE, tie_word_embeddings=True)
    write_llama(tmp_path / "m.gguf", reference, Kind.F32)
    model = load_model(tmp_path / "m.gguf")
    assert model.config.tied
    ids = torch.arange(30)
    torch.testing.assert_close(ours(model, ids, 30), theirs(reference, ids), atol=1e-3, rtol=0)


def test_rope_factors_stand_for_llama3_scaling(tiny_llama: TinyLlama, tmp_path: Path) -> None:
    folder, reference = tiny_llama(**WIDE, rope_parameters=LLAMA3)
    scaled = load_model(folder).config
    plain = 500000.0 ** -(torch.arange(0, scaled.head_dim, 2) / scaled.head_dim)
    write_llama(tmp_path / "m.gguf", reference, Kind.F32, rope_factors=plain / inv_freq(scaled))
    ids = torch.randint(0, 256, (200,))
    found = ours(load_model(tmp_path / "m.gguf"), ids, 200)
    torch.testing.assert_close(found, theirs(reference, ids), atol=1e-3, rtol=0)


def test_our_header_is_what_the_gguf_package_reads(tiny_llama: TinyLlama, tmp_path: Path) -> None:
    write_llama(tmp_path / "m.gguf", tiny_llama(**WIDE)[1], Kind.Q8_0)
    header, theirs_ = read_header(tmp_path / "m.gguf"), gguf.GGUFReader(tmp_path / "m.gguf")
    fields = {name: field.contents() for name, field in theirs_.fields.items() if not name.startswith("GGUF.")}
    assert header.metadata == fields
    assert [(t.name, list(t.shape), t.kind, t.offset) for t in header.tensors] == [
        (t.name, t.shape.tolist()[::-1], int(t.tensor_type), t.data_offset) for t in theirs_.tensors
    ]


def test_a_file_cut_anywhere_is_damaged(tiny_llama: TinyLlama, tmp_path: Path) -> None:
    whole = tmp_path / "m.gguf"
    write_llama(whole, tiny_llama(**WIDE)[1], Kind.Q8_0)
    data = whole.read_bytes()
    torn = tmp_path / "torn.gguf"
    for length in [*range(0, 1200, 37), len(data) // 2, len(data) - 64]:
        torn.write_bytes(data[:length])
        with pytest.raises(ModelDamaged, match=r"torn\.gguf"):
            load_model(torn)


def test_random_damage_of_the_header_never_gets_past_our_errors(tiny_llama: TinyLlama, tmp_path: Path) -> None:
    whole = tmp_path / "m.gguf"
    write_llama(whole, tiny_llama(**WIDE)[1], Kind.Q8_0)
    data = bytearray(whole.read_bytes())
    generator = torch.Generator().manual_seed(3)
    refused = 0
    for _ in range(150):
        at, value = (int(torch.randint(0, top, (1,), generator=generator)) for top in (700, 256))
        torn = tmp_path / "torn.gguf"
        torn.write_bytes(data[:at] + bytes([value]) + data[at + 1 :])
        try:
            load_model(torn)
        except ModelError:
            refused += 1
    assert refused > 50


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ({"general.architecture": "mamba"}, "GGUF architecture mamba"),
        ({"llama.expert_count": 8}, "mixture of 8 experts"),
        ({"llama.rope.scaling.type": "yarn"}, "rope scaling yarn"),
        ({"llama.rope.dimension_count": 8}, "rotary positions on 8 of 16"),
    ],
)
def test_what_we_do_not_run_is_named(metadata: dict[str, object], message: str) -> None:
    from unabridged.models.config import ModelConfig

    base = {
        "general.architecture": "llama",
        "llama.attention.head_count": 4,
        "llama.embedding_length": 64,
        "llama.feed_forward_length": 96,
        "llama.block_count": 2,
        "llama.context_length": 64,
        "llama.vocab_size": 256,
        "llama.attention.layer_norm_rms_epsilon": 1e-5,
    }
    assert ModelConfig.from_gguf(base, tied=True).kv_heads == 4
    with pytest.raises(ModelUnsupported, match=message):
        ModelConfig.from_gguf({**base, **metadata}, tied=True)


def test_other_versions_and_other_files_are_named(tmp_path: Path) -> None:
    file = tmp_path / "m.gguf"
    file.write_bytes(b"GGUF" + struct.pack("<I", 9) + bytes(64))
    with pytest.raises(ModelUnsupported, match="GGUF version 9"):
        read_header(file)
    file.write_bytes(b"PK\x03\x04" + bytes(64))
    with pytest.raises(ModelDamaged, match="not a GGUF file"):
        read_header(file)
    with pytest.raises(ModelNotFound):
        read_header(tmp_path / "none.gguf")


def write_tokenizer(path: Path, tokens: list[str], merges: list[str], pre: str, model: str = "gpt2") -> None:
    """A GGUF with a tokenizer and no tensors; tokens that begin with <| are control tokens."""
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_tokenizer_model(model)
    writer.add_tokenizer_pre(pre)
    writer.add_token_list(tokens)
    writer.add_token_types([3 if token.startswith("<|") else 1 for token in tokens])
    writer.add_token_merges(merges)
    writer.add_eos_token_id(len(tokens) - 1)
    finish(writer)


def test_llama3_tokenizers_are_rebuilt_exactly(tmp_path: Path) -> None:
    words = ["th", "Ġth", "12", "123", "Ġx", "whole", "\u010a\u010a", "<|begin_of_text|>", "<|eot_id|>"]
    tokens = [*byte_alphabet(), *words]
    merges = ["t h", "Ġ th", "1 2", "12 3", "Ġ x", "\u010a \u010a"]
    write_tokenizer(tmp_path / "t.gguf", tokens, merges, "llama-bpe")
    vocab = {token: index for index, token in enumerate(tokens) if not token.startswith("<|")}
    pairs = [(left, right) for left, right in (merge.split() for merge in merges)]
    theirs_ = Tokenizer(models.BPE(vocab=vocab, merges=pairs, ignore_merges=True))
    split = (
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
        r"|\s*[\r\n]+|\s+(?!\S)|\s+"
    )
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    theirs_.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(split), "isolated"), byte_level])
    theirs_.decoder = decoders.ByteLevel()
    tokenizer = OurTokenizer.load(tmp_path / "t.gguf")
    for text in ("the 12345 whole\n\n the x", "don't  stop\r\n\n", "<|eot_id|> é 123", "wholewhole whole"):
        assert tokenizer.encode(text) == theirs_.encode(text).ids
        assert tokenizer.decode(tokenizer.encode(text)) == text
    assert tokenizer.eos_ids == {len(tokens) - 1}


def test_qwen_tokenizers_are_rebuilt_as_transformers_makes_them(tmp_path: Path) -> None:
    tokens = [*byte_alphabet(), "th", "Ġth", "12", "\u010a\u010a", "<|endoftext|>"]
    merges = ["t h", "Ġ th", "1 2", "\u010a \u010a"]
    write_tokenizer(tmp_path / "t.gguf", tokens, merges, "qwen2")
    vocab = {token: index for index, token in enumerate(tokens)}
    theirs_ = Qwen2Tokenizer(vocab=vocab, merges=[tuple(merge.split()) for merge in merges], split_special_tokens=True)
    tokenizer = OurTokenizer.load(tmp_path / "t.gguf")
    for text in ("the 12345\n\n the x", "don't  stop\r\n\n", "e\u0301 and é 123", "thth th"):
        assert tokenizer.encode(text) == theirs_.encode(text)


@pytest.mark.parametrize(("model", "pre"), [("llama", "default"), ("gpt2", "never-heard")])
def test_a_tokenizer_that_we_cannot_rebuild_is_refused(tmp_path: Path, model: str, pre: str) -> None:
    write_tokenizer(tmp_path / "t.gguf", list(byte_alphabet()), ["t h"], pre, model)
    with pytest.raises(ModelUnsupported, match=f"{model} with pre-tokenizer {pre}"):
        OurTokenizer.load(tmp_path / "t.gguf")
