"""The shape of a model as we run it, converted once from Hugging Face's config.json or from GGUF metadata.

Torch-free. What we do not run is refused here, by name, before any weight is read. A new architecture is one more
row in `models.families` plus whatever its forward needs.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from unabridged.models.errors import ModelDamaged, ModelUnsupported
from unabridged.models.families import Family, Place, gguf_family, hf_family
from unabridged.models.foreign import Reader, first_id, merged_ids, shown
from unabridged.models.quantisation import Quantisation, quantisation_of
from unabridged.models.rope_scaling import RopeScaling, gguf_scaling, hf_rope

Activation = Literal["silu", "gelu_tanh"]

# What checkpoints call the activations that we run.
_ACTIVATIONS: dict[str, Activation] = {"silu": "silu", "gelu_pytorch_tanh": "gelu_tanh"}
_BIAS_KEYS: dict[str, tuple[Place, ...]] = {"attention_bias": ("qkv", "output"), "mlp_bias": ("gate_up", "down")}

# Past these a file is damaged: nothing should be allocated by its word.
_SIZES = {
    "vocab_size": 1 << 24,
    "hidden": 1 << 20,
    "intermediate": 1 << 22,
    "layers": 1 << 12,
    "heads": 1 << 14,
    "kv_heads": 1 << 14,
    "head_dim": 1 << 14,
    "window": 1 << 40,
}


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """One decoder-only transformer. `window`: tokens it was trained on. `head_dim * heads` need not be `hidden`.

    `bias`: places whose projections have one. `norm_offset`: what is added to norm weights as the checkpoint stores
    them. `embedding_scale` and `query_factor` multiply embeddings and queries, the latter beside head_dim ** -0.5.
    `attention_cap` and `logit_cap` c: scores x become c tanh(x / c). `sliding`: for each layer how many tokens it looks
    back over, its own included, 0 for all; empty when no layer slides. `quantisation`: how its checkpoint stores
    projections, if not in floating point (GGUF says so a tensor).
    """

    architecture: str
    vocab_size: int
    hidden: int
    intermediate: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    norm_eps: float
    rope_theta: float
    rope_scaling: RopeScaling | None
    window: int
    tied: bool
    bos_id: int | None
    eos_ids: tuple[int, ...]
    activation: Activation = "silu"
    bias: tuple[Place, ...] = ()
    norm_offset: float = 0.0
    embedding_scale: float = 1.0
    query_factor: float = 1.0
    attention_cap: float | None = None
    logit_cap: float | None = None
    sliding: tuple[int, ...] = ()
    quantisation: Quantisation | None = None

    def __post_init__(self) -> None:
        for name, most in _SIZES.items():
            if not 1 <= getattr(self, name) <= most:
                raise ModelDamaged(f"the model's configuration says {name} = {shown(getattr(self, name))}")
        if self.heads % self.kv_heads:
            raise ModelDamaged(f"{self.heads} query heads cannot share {self.kv_heads} key/value heads evenly")
        if self.head_dim % 2:
            raise ModelDamaged(f"head_dim {self.head_dim} is odd: rotary positions need pairs")
        if self.sliding and len(self.sliding) != self.layers:
            raise ModelDamaged(f"{len(self.sliding)} layers have a kind of attention, the model has {self.layers}")

    @property
    def group(self) -> int:
        """Query heads that share one key/value head."""
        return self.heads // self.kv_heads

    @classmethod
    def from_hf(cls, raw: Mapping[str, Any], generation: Mapping[str, Any] | None = None) -> "ModelConfig":
        """From config.json (and generation_config.json, for its end tokens).

        Raises ModelUnsupported for what we do not run, ModelDamaged for keys that are missing or of the wrong type.
        """
        family = hf_family(raw.get("architectures"), raw.get("model_type"))
        raw = {**family.defaults, **raw}
        read = Reader("config.json", raw, family.keys)
        _refuse_hf(read)
        heads, hidden, layers = (read.size(key) for key in ("num_attention_heads", "hidden_size", "num_hidden_layers"))
        head_dim = read.size("head_dim", hidden // heads)
        window = _hf_window(read)
        rope_theta, rope_scaling = hf_rope(raw)
        scalar = read.positive("query_pre_attn_scalar", head_dim)
        return cls(
            architecture=family.name,
            vocab_size=read.whole("vocab_size"),
            hidden=hidden,
            intermediate=read.whole("intermediate_size"),
            layers=layers,
            heads=heads,
            kv_heads=read.whole("num_key_value_heads", heads),
            head_dim=head_dim,
            norm_eps=read.positive("rms_norm_eps", 1e-6),
            rope_theta=rope_theta,
            rope_scaling=rope_scaling,
            window=window,
            tied=bool(raw.get("tie_word_embeddings", False)),
            bos_id=first_id(raw.get("bos_token_id")),
            eos_ids=merged_ids(raw.get("eos_token_id"), (generation or {}).get("eos_token_id")),
            activation=_ACTIVATIONS[read.get("hidden_act") or "silu"],
            bias=_hf_bias(raw, family),
            norm_offset=family.norm_offset,
            embedding_scale=_embedding_scale(family, hidden),
            query_factor=(head_dim / scalar) ** 0.5,
            attention_cap=read.maybe("attn_logit_softcapping"),
            logit_cap=read.maybe("final_logit_softcapping"),
            sliding=_hf_sliding(read, family, layers, window),
            quantisation=quantisation_of(raw),
        )

    @classmethod
    def from_gguf(
        cls,
        metadata: Mapping[str, Any],
        tied: bool,
        rope_factors: tuple[float, ...] | None = None,
        bias: tuple[Place, ...] = (),
    ) -> "ModelConfig":
        """From GGUF metadata. What only the tensors say: `tied`, the file has no output tensor; `rope_factors`, its
        rope_freqs tensor; `bias`, the places with one."""
        family = gguf_family(metadata.get("general.architecture"))
        read = Reader("GGUF metadata", metadata)
        key = family.gguf_name + "."
        heads, hidden = read.size(key + "attention.head_count"), read.size(key + "embedding_length")
        layers, window = read.whole(key + "block_count"), read.whole(key + "context_length")
        head_dim = read.size(key + "attention.key_length", hidden // heads)
        _refuse_gguf(read, key, head_dim)
        gemma = family.name == "gemma2"
        return cls(
            architecture=family.name,
            vocab_size=read.whole(key + "vocab_size", _length(metadata.get("tokenizer.ggml.tokens"))),
            hidden=hidden,
            intermediate=read.whole(key + "feed_forward_length"),
            layers=layers,
            heads=heads,
            kv_heads=read.whole(key + "attention.head_count_kv", heads),
            head_dim=head_dim,
            norm_eps=read.number(key + "attention.layer_norm_rms_epsilon"),
            rope_theta=read.number(key + "rope.freq_base", 10000.0),
            rope_scaling=gguf_scaling(read, key, rope_factors),
            window=window,
            tied=tied,
            bos_id=first_id(metadata.get("tokenizer.ggml.bos_token_id")),
            eos_ids=merged_ids(*(metadata.get(f"tokenizer.ggml.{name}_token_id") for name in ("eos", "eot", "eom"))),
            activation="gelu_tanh" if gemma else "silu",
            bias=tuple(sorted({*family.bias, *bias})),
            embedding_scale=_embedding_scale(family, hidden),
            query_factor=_gguf_query_factor(layers, heads, hidden, head_dim) if gemma else 1.0,
            attention_cap=read.number(key + "attn_logit_softcapping", 50.0) if gemma else None,
            logit_cap=read.number(key + "final_logit_softcapping", 30.0) if gemma else None,
            sliding=_alternating(layers, read.whole(key + "attention.sliding_window", 4096), window) if gemma else (),
        )


def _refuse_hf(read: Reader) -> None:
    """What a config.json can say that our forward does not do."""
    activation = read.get("hidden_act") or "silu"
    if str(activation) not in _ACTIVATIONS:
        raise ModelUnsupported(f"activation {activation}", f"this version runs {', '.join(_ACTIVATIONS)}")
    if read.get("use_bidirectional_attention"):
        raise ModelUnsupported("attention in both directions", "this version runs causal attention")


def _refuse_gguf(read: Reader, key: str, head_dim: int) -> None:
    experts = read.get(key + "expert_count")
    if experts:
        raise ModelUnsupported(f"a mixture of {experts} experts", "this version runs dense models")
    rotated = read.whole(key + "rope.dimension_count", head_dim)
    if rotated != head_dim:
        raise ModelUnsupported(
            f"rotary positions on {rotated} of {head_dim} dimensions", "this version rotates whole heads"
        )
    files = read.whole("split.count", 1)
    if files > 1:
        raise ModelUnsupported(f"a GGUF split into {files} files", "merge it with llama-gguf-split")


def _hf_window(read: Reader) -> int:
    """Dual chunk attention reaches past the tokens trained on, by chunks of so many. We reach past them otherwise."""
    most, chunks = read.whole("max_position_embeddings"), read.inner("dual_chunk_attention_config")
    return most if chunks is None else min(most, chunks.whole("chunk_size"))


def _hf_bias(raw: Mapping[str, Any], family: Family) -> tuple[Place, ...]:
    """A family whose projections always have one says so in the table and not in its files."""
    if family.bias:
        return family.bias
    return tuple(sorted(place for key, places in _BIAS_KEYS.items() if raw.get(key) for place in places))


def _hf_sliding(read: Reader, family: Family, layers: int, window: int) -> tuple[int, ...]:
    if family.sliding == "none" or read.get("sliding_window") is None:
        return ()
    if family.sliding == "later" and not read.get("use_sliding_window"):
        return ()
    back, kinds = read.size("sliding_window"), read.get("layer_types")
    if kinds is not None:
        return _sliding([_is_sliding(kind) for kind in (kinds if isinstance(kinds, list) else [kinds])], back, window)
    if family.sliding == "alternate":
        return _alternating(layers, back, window)
    first = read.whole("max_window_layers", 0) if family.sliding == "later" else 0
    return _sliding([index >= first for index in range(layers)], back, window)


def _is_sliding(kind: Any) -> bool:
    if kind not in ("sliding_attention", "full_attention"):
        raise ModelUnsupported(f"layers of type {kind}", "this version runs sliding_attention and full_attention")
    return bool(kind == "sliding_attention")


def _alternating(layers: int, back: int, window: int) -> tuple[int, ...]:
    return _sliding([index % 2 == 0 for index in range(layers)], back, window)


def _sliding(which: list[bool], back: int, window: int) -> tuple[int, ...]:
    """Looking back over the whole trained window is what every layer does."""
    return tuple(back if one else 0 for one in which) if any(which) and back < window else ()


def _embedding_scale(family: Family, hidden: int) -> float:
    return float(hidden**0.5) if family.scaled_embedding else 1.0


def _gguf_query_factor(layers: int, heads: int, hidden: int, head_dim: int) -> float:
    """Gemma 2's GGUF files do not store it. Of its sizes only 27B, the one of 46 layers, divides by hidden / heads."""
    return float((head_dim * heads / hidden) ** 0.5) if layers == 46 else 1.0


def _length(value: Any) -> int | None:
    return len(value) if isinstance(value, list) else None
