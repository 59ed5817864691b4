"""The shape of a model as we run it, converted once from Hugging Face's config.json or from GGUF metadata.

Torch-free. What we do not run is refused here, by name, before any weight is read. A new architecture is one more
row in FAMILIES plus whatever its forward needs.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from unabridged.models.errors import ModelDamaged, ModelUnsupported
from unabridged.models.quantisation import Quantisation, quantisation_of


@dataclass(frozen=True, slots=True)
class Family:
    """An architecture that we run and the names it goes by."""

    name: str
    hf_class: str
    gguf_name: str


FAMILIES = (Family("llama", "LlamaForCausalLM", "llama"),)

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
class RopeScaling:
    """How the trained frequencies are stretched.

    "linear": divided by `factor`. "llama3": by `factor` for wavelengths above `original / low`, not at all below
    `original / high`, blended between. "factors": by one given number a frequency (GGUF stores them as a tensor).
    """

    kind: Literal["linear", "llama3", "factors"]
    factor: float = 1.0
    low: float = 1.0
    high: float = 4.0
    original: int = 0
    factors: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """One decoder-only transformer. `window`: tokens it was trained on. `head_dim * heads` need not be `hidden`.
    `quantisation`: how its checkpoint stores projections, if not in floating point (GGUF says so a tensor)."""

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
    quantisation: Quantisation | None = None

    def __post_init__(self) -> None:
        for name, most in _SIZES.items():
            if not 1 <= getattr(self, name) <= most:
                raise ModelDamaged(f"the model's configuration says {name} = {getattr(self, name)}")
        if self.heads % self.kv_heads:
            raise ModelDamaged(f"{self.heads} query heads cannot share {self.kv_heads} key/value heads evenly")
        if self.head_dim % 2:
            raise ModelDamaged(f"head_dim {self.head_dim} is odd: rotary positions need pairs")

    @property
    def group(self) -> int:
        """Query heads that share one key/value head."""
        return self.heads // self.kv_heads

    @classmethod
    def from_hf(cls, raw: Mapping[str, Any], generation: Mapping[str, Any] | None = None) -> "ModelConfig":
        """From config.json (and generation_config.json, for its end tokens).

        Raises ModelUnsupported for what we do not run, ModelDamaged for keys that are missing or of the wrong type.
        """
        family = _hf_family(raw)
        _refuse_hf(raw)
        read = _Reader("config.json", raw)
        heads, hidden = read.whole("num_attention_heads"), read.whole("hidden_size")
        rope = _hf_rope(raw)
        return cls(
            architecture=family.name,
            vocab_size=read.whole("vocab_size"),
            hidden=hidden,
            intermediate=read.whole("intermediate_size"),
            layers=read.whole("num_hidden_layers"),
            heads=heads,
            kv_heads=read.whole("num_key_value_heads", heads),
            head_dim=read.whole("head_dim", hidden // max(heads, 1)),
            norm_eps=read.number("rms_norm_eps", 1e-6),
            rope_theta=_Reader("config.json", rope).number("rope_theta", 10000.0),
            rope_scaling=_hf_scaling(rope),
            window=read.whole("max_position_embeddings"),
            tied=bool(raw.get("tie_word_embeddings", False)),
            bos_id=_first(_ids(raw.get("bos_token_id"))),
            eos_ids=_merge(raw.get("eos_token_id"), (generation or {}).get("eos_token_id")),
            quantisation=quantisation_of(raw),
        )

    @classmethod
    def from_gguf(
        cls, metadata: Mapping[str, Any], tied: bool, rope_factors: tuple[float, ...] | None = None
    ) -> "ModelConfig":
        """From GGUF metadata. `tied`: the file has no output tensor; `rope_factors`: its rope_freqs tensor, if any."""
        family = _gguf_family(metadata)
        read = _Reader("GGUF metadata", metadata)
        key = family.gguf_name + "."
        heads, hidden = read.whole(key + "attention.head_count"), read.whole(key + "embedding_length")
        head_dim = read.whole(key + "attention.key_length", hidden // max(heads, 1))
        _refuse_gguf(metadata, key, head_dim)
        return cls(
            architecture=family.name,
            vocab_size=read.whole(key + "vocab_size", _length(metadata.get("tokenizer.ggml.tokens"))),
            hidden=hidden,
            intermediate=read.whole(key + "feed_forward_length"),
            layers=read.whole(key + "block_count"),
            heads=heads,
            kv_heads=read.whole(key + "attention.head_count_kv", heads),
            head_dim=head_dim,
            norm_eps=read.number(key + "attention.layer_norm_rms_epsilon"),
            rope_theta=read.number(key + "rope.freq_base", 10000.0),
            rope_scaling=_gguf_scaling(metadata, key, rope_factors),
            window=read.whole(key + "context_length"),
            tied=tied,
            bos_id=_first(_ids(metadata.get("tokenizer.ggml.bos_token_id"))),
            eos_ids=_merge(*(metadata.get(f"tokenizer.ggml.{name}_token_id") for name in ("eos", "eot", "eom"))),
        )


@dataclass(frozen=True, slots=True)
class _Reader:
    """Typed access to a foreign mapping, with errors that name the key."""

    where: str
    raw: Mapping[str, Any]

    def whole(self, key: str, default: int | None = None) -> int:
        value = self._get(key, default)
        if isinstance(value, bool) or not isinstance(value, int):
            raise ModelDamaged(f"{self.where}: {key} is {value!r}, not a whole number")
        return value

    def number(self, key: str, default: float | None = None) -> float:
        value = self._get(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ModelDamaged(f"{self.where}: {key} is {value!r}, not a number")
        return float(value)

    def _get(self, key: str, default: float | None) -> Any:
        value = self.raw.get(key)
        if value is None:
            value = default
        if value is None:
            raise ModelDamaged(f"{self.where} lacks {key}", "copy the checkpoint's own file again")
        return value


def _hf_family(raw: Mapping[str, Any]) -> Family:
    names = raw.get("architectures") or []
    for family in FAMILIES:
        if family.hf_class in names or (not names and raw.get("model_type") == family.name):
            return family
    found = ", ".join(map(str, names)) or raw.get("model_type") or "none named"
    raise ModelUnsupported(f"architecture {found}", f"this version runs {_supported()}")


def _gguf_family(metadata: Mapping[str, Any]) -> Family:
    found = metadata.get("general.architecture")
    for family in FAMILIES:
        if family.gguf_name == found:
            return family
    raise ModelUnsupported(f"GGUF architecture {found}", f"this version runs {_supported()}")


def _supported() -> str:
    return ", ".join(family.name for family in FAMILIES)


def _refuse_hf(raw: Mapping[str, Any]) -> None:
    """What a Llama config can say that our forward does not do."""
    activation = raw.get("hidden_act", "silu")
    if activation != "silu":
        raise ModelUnsupported(f"activation {activation}", "this version runs silu")
    for key in ("attention_bias", "mlp_bias"):
        if raw.get(key):
            raise ModelUnsupported(f"{key} = {raw[key]}", "this version runs projections without bias")


def _refuse_gguf(metadata: Mapping[str, Any], key: str, head_dim: int) -> None:
    if metadata.get(key + "expert_count"):
        raise ModelUnsupported(
            f"a mixture of {metadata[key + 'expert_count']} experts", "this version runs dense models"
        )
    rotated = metadata.get(key + "rope.dimension_count", head_dim)
    if rotated != head_dim:
        raise ModelUnsupported(
            f"rotary positions on {rotated} of {head_dim} dimensions", "this version rotates whole heads"
        )
    if _Reader("GGUF metadata", metadata).whole("split.count", 1) > 1:
        raise ModelUnsupported(f"a GGUF split into {metadata['split.count']} files", "merge it with llama-gguf-split")


def _hf_rope(raw: Mapping[str, Any]) -> Mapping[str, Any]:
    """One mapping with rope_theta, rope_type and its numbers: older files spread them over two places."""
    scaling = raw.get("rope_parameters") or raw.get("rope_scaling") or {}
    theta = scaling.get("rope_theta", raw.get("rope_theta"))
    kind = scaling.get("rope_type", scaling.get("type", "default"))
    return {**scaling, "rope_theta": theta, "rope_type": kind}


def _hf_scaling(rope: Mapping[str, Any]) -> RopeScaling | None:
    kind = rope["rope_type"]
    read = _Reader("config.json rope_scaling", rope)
    if kind == "default":
        return None
    if kind == "linear":
        return RopeScaling("linear", factor=read.number("factor"))
    if kind == "llama3":
        return RopeScaling(
            "llama3",
            factor=read.number("factor"),
            low=read.number("low_freq_factor"),
            high=read.number("high_freq_factor"),
            original=read.whole("original_max_position_embeddings"),
        )
    raise ModelUnsupported(f"rope scaling {kind}", "this version runs default, linear and llama3")


def _gguf_scaling(metadata: Mapping[str, Any], key: str, factors: tuple[float, ...] | None) -> RopeScaling | None:
    if factors:
        return RopeScaling("factors", factors=factors)
    kind = metadata.get(key + "rope.scaling.type", "none")
    if kind == "none":
        return None
    if kind == "linear":
        factor = _Reader("GGUF metadata", metadata).number(key + "rope.scaling.factor")
        return RopeScaling("linear", factor=factor)
    raise ModelUnsupported(f"rope scaling {kind}", "this version runs none, linear and a rope_freqs tensor")


def _ids(value: Any) -> tuple[int, ...]:
    """A token id, a list of them or nothing, as a tuple."""
    if value is None:
        return ()
    values = value if isinstance(value, list) else [value]
    if not all(isinstance(one, int) for one in values):
        raise ModelDamaged(f"token id {value!r} is not a whole number")
    return tuple(values)


def _length(value: Any) -> int | None:
    return len(value) if isinstance(value, list) else None


def _first(ids: tuple[int, ...]) -> int | None:
    return ids[0] if ids else None


def _merge(*values: Any) -> tuple[int, ...]:
    return tuple(sorted({one for value in values for one in _ids(value)}))
