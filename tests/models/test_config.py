"""A configuration is converted once, completely; what it asks for and we do not run is refused by name."""

from typing import Any

import pytest
from transformers import LlamaConfig

from unabridged.models.config import ModelConfig
from unabridged.models.errors import ModelDamaged, ModelUnsupported
from unabridged.models.rope_scaling import RopeScaling

BASE: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "vocab_size": 128256,
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "rms_norm_eps": 1e-5,
    "rope_theta": 500000.0,
    "max_position_embeddings": 131072,
    "bos_token_id": 128000,
    "eos_token_id": [128001, 128008, 128009],
}
MISTRAL = {"architectures": ["MistralForCausalLM"], "model_type": "mistral"}
LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}


def test_llama3_8b() -> None:
    config = ModelConfig.from_hf({**BASE, "rope_scaling": LLAMA3}, {"eos_token_id": 128010})
    assert config.rope_scaling == RopeScaling("llama3", factor=8.0, low=1.0, high=4.0, original=8192)
    assert (config.head_dim, config.group, config.window, config.tied) == (128, 4, 131072, False)
    assert (config.bos_id, config.eos_ids) == (128000, (128001, 128008, 128009, 128010))


def test_both_spellings_of_rope_are_one() -> None:
    older = ModelConfig.from_hf({**BASE, "rope_scaling": LLAMA3})
    newer = {key: value for key, value in BASE.items() if key != "rope_theta"}
    assert ModelConfig.from_hf({**newer, "rope_parameters": {**LLAMA3, "rope_theta": 500000.0}}) == older


def test_the_window_is_what_was_trained_on() -> None:
    qwen = {**BASE, "architectures": ["Qwen2ForCausalLM"], "max_position_embeddings": 1010000}
    chunks = {"chunk_size": 262144, "local_size": 8192}
    assert ModelConfig.from_hf({**qwen, "dual_chunk_attention_config": chunks}).window == 262144
    assert ModelConfig.from_hf(qwen).window == 1010000


def test_what_transformers_saves_is_read() -> None:
    saved = {**LlamaConfig(num_key_value_heads=4).to_dict(), "architectures": ["LlamaForCausalLM"]}
    config = ModelConfig.from_hf(saved)
    assert (config.kv_heads, config.rope_theta, config.rope_scaling) == (4, 10000.0, None)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"architectures": ["Qwen3MoeForCausalLM"]}, "architecture Qwen3MoeForCausalLM.*this version runs llama"),
        ({"architectures": None, "model_type": "mamba"}, "architecture mamba"),
        ({"quantization_config": {"quant_method": "gptq"}}, "quantised with gptq"),
        ({"rope_scaling": {"rope_type": "yarn", "factor": 4.0}}, "rope scaling yarn"),
        ({"partial_rotary_factor": 0.5}, "partial_rotary_factor = 0.5"),
        ({"hidden_act": "gelu"}, "activation gelu"),
        ({"hidden_act": ["silu"]}, "activation .'silu'."),
    ],
)
def test_what_we_do_not_run_is_named(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelUnsupported, match=message):
        ModelConfig.from_hf({**BASE, **change})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"hidden_size": None}, "lacks hidden_size"),
        ({"hidden_size": "big"}, "hidden_size is 'big'"),
        ({"num_key_value_heads": 5}, "32 query heads cannot share 5"),
        ({"num_attention_heads": 0}, "num_attention_heads is 0, not above 0"),
        ({"head_dim": 0}, "head_dim is 0, not above 0"),
        ({"num_hidden_layers": 10**400}, r"layers = 10{39}\.\.\."),
        ({"rms_norm_eps": float("nan")}, "rms_norm_eps is nan, not a number"),
        ({"rms_norm_eps": -1e-5}, "rms_norm_eps is -1e-05, not above 0"),
        ({"rope_theta": 0}, "rope_theta is 0, not above 0"),
        ({"rope_theta": 10**400}, r"rope_theta is 10{39}\.\.\., not a number"),
        ({"query_pre_attn_scalar": 0}, "query_pre_attn_scalar is 0, not above 0"),
        ({"attn_logit_softcapping": -3}, "attn_logit_softcapping is -3, not above 0"),
        ({"rope_scaling": "llama3"}, "rope_scaling is 'llama3', not an object"),
        ({"dual_chunk_attention_config": True}, "dual_chunk_attention_config is True, not an object"),
        ({**MISTRAL, "sliding_window": 0}, "sliding_window is 0, not above 0"),
        ({**MISTRAL, "layer_types": "sliding_attention"}, "1 layers have a kind of attention, the model has 32"),
        ({"head_dim": 63}, "63 is odd"),
        ({"eos_token_id": "x"}, "'x' is not a whole number"),
        ({"rope_scaling": {"rope_type": "llama3"}}, "lacks factor"),
    ],
)
def test_a_broken_file_is_damaged(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelDamaged, match=message):
        ModelConfig.from_hf({**BASE, **change})
