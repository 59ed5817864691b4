"""The architectures that we run: one row each, with what sets it apart and its names for things. Torch-free.

A family is Llama's forward pass with options (`models.config` says which, `models.layers` holds them) under its own
tensor names. `models.tensors` turns the names into places.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from unabridged.models.errors import ModelUnsupported

Place = Literal["qkv", "output", "gate_up", "down"]


@dataclass(frozen=True, slots=True)
class Names:
    """Checkpoint tensors by our places, without the ".weight" or ".bias" behind the name.

    Those of a layer stand behind `layer`, in which {} is its number. `attention_post_norm` and `mlp_post_norm` norm
    what attention and MLP add to the residual stream; `q_norm` and `k_norm` each head.
    """

    embedding: str = "model.embed_tokens"
    norm: str = "model.norm"
    head: str = "lm_head"
    layer: str = "model.layers.{}."
    q: str = "self_attn.q_proj"
    k: str = "self_attn.k_proj"
    v: str = "self_attn.v_proj"
    output: str = "self_attn.o_proj"
    gate: str = "mlp.gate_proj"
    up: str = "mlp.up_proj"
    down: str = "mlp.down_proj"
    attention_norm: str = "input_layernorm"
    mlp_norm: str = "post_attention_layernorm"
    attention_post_norm: str = ""
    mlp_post_norm: str = ""
    q_norm: str = ""
    k_norm: str = ""


@dataclass(frozen=True, slots=True)
class Family:
    """An architecture that we run.

    `hf_classes` and `gguf_name`: how checkpoints name it. `keys`: its words for keys of Llama's config.json;
    `defaults`: what keys mean that are not there. `bias`: the places whose projections always have one. `sliding`:
    which layers look back over a window of tokens only, when config.json gives one: every layer, those from
    max_window_layers on if use_sliding_window says so, or every second from the first on. `norm_offset`: what
    safetensors leave out of norm weights. `scaled_embedding`: embeddings are multiplied by sqrt(hidden).
    `rotary_pairs`: its GGUF files interleave the rows of rotated heads.
    """

    name: str
    hf_classes: tuple[str, ...]
    gguf_name: str
    names: Names = Names()
    keys: Mapping[str, str] = field(default_factory=dict)
    defaults: Mapping[str, Any] = field(default_factory=dict)
    bias: tuple[Place, ...] = ()
    sliding: Literal["none", "every", "later", "alternate"] = "none"
    norm_offset: float = 0.0
    scaled_embedding: bool = False
    rotary_pairs: bool = False


_EXAONE_NAMES = Names(
    embedding="transformer.wte",
    norm="transformer.ln_f",
    layer="transformer.h.{}.",
    q="attn.attention.q_proj",
    k="attn.attention.k_proj",
    v="attn.attention.v_proj",
    output="attn.attention.out_proj",
    gate="mlp.c_fc_0",
    up="mlp.c_fc_1",
    down="mlp.c_proj",
    attention_norm="ln_1",
    mlp_norm="ln_2",
)
_EXAONE_KEYS = {
    "num_hidden_layers": "num_layers",
    "rms_norm_eps": "layer_norm_epsilon",
    "hidden_act": "activation_function",
}
_QWEN3_NAMES = Names(q_norm="self_attn.q_norm", k_norm="self_attn.k_norm")
_GEMMA2_NAMES = Names(
    attention_post_norm="post_attention_layernorm",
    mlp_norm="pre_feedforward_layernorm",
    mlp_post_norm="post_feedforward_layernorm",
)

_GEMMA2_DEFAULTS = {
    "hidden_activation": "gelu_pytorch_tanh",
    "tie_word_embeddings": True,
    "head_dim": 256,
    "query_pre_attn_scalar": 256,
    "attn_logit_softcapping": 50.0,
    "final_logit_softcapping": 30.0,
    "sliding_window": 4096,
}
_QWEN_DEFAULTS = {"sliding_window": 4096, "max_window_layers": 28}

LLAMA = Family("llama", ("LlamaForCausalLM",), "llama", rotary_pairs=True)
FAMILIES = (
    LLAMA,
    Family(
        "mistral",
        ("MistralForCausalLM",),
        "llama",
        defaults={"sliding_window": 4096},
        sliding="every",
        rotary_pairs=True,
    ),
    Family("qwen2", ("Qwen2ForCausalLM",), "qwen2", defaults=_QWEN_DEFAULTS, bias=("qkv",), sliding="later"),
    Family(
        "qwen3",
        ("Qwen3ForCausalLM",),
        "qwen3",
        names=_QWEN3_NAMES,
        defaults={**_QWEN_DEFAULTS, "head_dim": 128},
        sliding="later",
    ),
    Family(
        "gemma2",
        ("Gemma2ForCausalLM",),
        "gemma2",
        names=_GEMMA2_NAMES,
        keys={"hidden_act": "hidden_activation"},
        defaults=_GEMMA2_DEFAULTS,
        sliding="alternate",
        norm_offset=1.0,
        scaled_embedding=True,
    ),
    # transformers writes it as a Llama of this model_type, under its own tensor names.
    Family(
        "exaone",
        ("ExaoneForCausalLM", "LlamaForCausalLM"),
        "exaone",
        names=_EXAONE_NAMES,
        keys=_EXAONE_KEYS,
        defaults={"tie_word_embeddings": True},
    ),
)


def family_named(name: str) -> Family:
    """The family of `ModelConfig.architecture`."""
    return next(family for family in FAMILIES if family.name == name)


def hf_family(classes: object, model_type: object) -> Family:
    """By config.json's `architectures` and `model_type`. Raises ModelUnsupported naming what was found."""
    names = classes if isinstance(classes, list) else []
    fitting = [family for family in FAMILIES if not names or any(one in names for one in family.hf_classes)]
    for family in fitting:
        if family.name == model_type:
            return family
    if names and fitting:
        return fitting[0]
    raise _unsupported(f"architecture {', '.join(map(str, names)) or model_type or 'none named'}")


def gguf_family(architecture: object) -> Family:
    """By a GGUF file's general.architecture. Raises ModelUnsupported."""
    for family in FAMILIES:
        if family.gguf_name == architecture:
            return family
    raise _unsupported(f"GGUF architecture {architecture}")


def _unsupported(found: str) -> ModelUnsupported:
    return ModelUnsupported(found, f"this version runs {', '.join(family.name for family in FAMILIES)}")
