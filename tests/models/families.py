"""Tiny random checkpoints of every family, as transformers saves them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from benchmarks.byte_tokenizer import save_tokenizer
from transformers import (
    AutoModelForCausalLM,
    ExaoneConfig,
    Gemma2Config,
    LlamaConfig,
    MistralConfig,
    PretrainedConfig,
    PreTrainedModel,
    Qwen2Config,
    Qwen3Config,
)

SHAPE: dict[str, Any] = {
    "vocab_size": 259,
    "hidden_size": 48,
    "intermediate_size": 80,
    "num_hidden_layers": 3,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
}
LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 500000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}


@dataclass(frozen=True)
class Case:
    """A family's configuration; `fields` beside SHAPE."""

    config: Callable[..., PretrainedConfig]
    fields: Mapping[str, Any] = field(default_factory=dict)


CASES = {
    "llama": Case(LlamaConfig),
    "llama-3.1": Case(LlamaConfig, {"rope_parameters": LLAMA3}),
    "llama-3.2": Case(LlamaConfig, {"rope_parameters": LLAMA3, "tie_word_embeddings": True}),
    "llama-biases": Case(LlamaConfig, {"attention_bias": True, "mlp_bias": True}),
    "mistral-v0.1": Case(MistralConfig, {"sliding_window": 50}),
    "mistral-v0.3": Case(MistralConfig, {"sliding_window": None, "head_dim": 16}),
    "qwen2": Case(Qwen2Config, {"tie_word_embeddings": True}),
    "qwen2-sliding": Case(Qwen2Config, {"use_sliding_window": True, "sliding_window": 40, "max_window_layers": 1}),
    "qwen3": Case(Qwen3Config, {"head_dim": 16}),
    "gemma2": Case(
        Gemma2Config,
        {"head_dim": 16, "query_pre_attn_scalar": 24, "sliding_window": 50, "attn_logit_softcapping": 5.0},
    ),
    "exaone": Case(ExaoneConfig, {"rope_parameters": LLAMA3}),
}


def reference(case: Case, **fields: Any) -> PreTrainedModel:
    """transformers' model with random weights, in float32."""
    torch.manual_seed(7)
    config = case.config(**{**SHAPE, **case.fields, **fields})
    model = AutoModelForCausalLM.from_config(config, attn_implementation="eager").eval()
    offset = 0.0 if case.config is Gemma2Config else 1.0
    for name, parameter in model.named_parameters():
        # Norms near 1, so that scores differ enough for attention's options to matter.
        torch.nn.init.normal_(parameter, mean=offset if "norm" in name else 0.0, std=0.2)
    return model


def save(model: PreTrainedModel, folder: Path, shard: str = "1GB") -> Path:
    """The checkpoint on disk, with a tokenizer."""
    model.save_pretrained(folder, max_shard_size=shard)
    save_tokenizer(folder)
    return folder
