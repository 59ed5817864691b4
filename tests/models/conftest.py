"""Checkpoints made on the spot: tiny random Llamas as transformers saves them, and the same as GGUF."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from benchmarks.byte_tokenizer import save_tokenizer
from tests.kernels.conftest import device, pytest_collection_modifyitems
from transformers import LlamaConfig, LlamaForCausalLM

__all__ = ["device", "pytest_collection_modifyitems"]

TinyLlama = Callable[..., tuple[Path, LlamaForCausalLM]]


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
