"""Checkpoints made on the spot: tiny random Llamas as transformers saves them, and the same as GGUF."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer as Encoder
from tokenizers import decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM

from unabridged.models.tokenizer_files import byte_alphabet

TinyLlama = Callable[..., tuple[Path, LlamaForCausalLM]]

SPECIALS = ("<|begin_of_text|>", "<|eot_id|>")
TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}"
    "{{ message['role'] + ': ' + message['content'] | trim + '<|eot_id|>' }}"
    "{% endfor %}{% if add_generation_prompt %}assistant: {% endif %}"
)


def save_tokenizer(folder: Path) -> None:
    """A byte-level tokenizer of 256 bytes, one merge and two special tokens."""
    vocab = {char: index for index, char in enumerate(byte_alphabet())} | {"th": 256}
    encoder = Encoder(models.BPE(vocab=vocab, merges=[("t", "h")]))
    encoder.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    encoder.decoder = decoders.ByteLevel()
    encoder.add_special_tokens(list(SPECIALS))
    encoder.save(str(folder / "tokenizer.json"))
    options = {"bos_token": SPECIALS[0], "eos_token": {"content": SPECIALS[1]}, "chat_template": TEMPLATE}
    (folder / "tokenizer_config.json").write_text(json.dumps(options))


@pytest.fixture
def tiny_llama(tmp_path: Path) -> TinyLlama:
    """Call it with LlamaConfig fields: a saved checkpoint with a tokenizer, and transformers' model of it."""

    def make(shard: str = "1GB", **fields: object) -> tuple[Path, LlamaForCausalLM]:
        shape = {
            "vocab_size": 259,
            "hidden_size": 48,
            "intermediate_size": 80,
            "num_hidden_layers": 3,
            "num_attention_heads": 6,
            "num_key_value_heads": 2,
            "max_position_embeddings": 512,
        }
        torch.manual_seed(7)
        model = LlamaForCausalLM(LlamaConfig(**{**shape, **fields})).eval()
        for parameter in model.parameters():
            torch.nn.init.normal_(parameter, std=0.2)
        folder = tmp_path / "tiny"
        model.save_pretrained(folder, max_shard_size=shard)
        save_tokenizer(folder)
        return folder, model

    return make
