"""How a model's rotary frequencies are stretched, as config.json and GGUF metadata say it. Torch-free.

The frequencies themselves are `models.rope`'s.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from unabridged.models.errors import ModelUnsupported
from unabridged.models.foreign import Reader

_WAY_OUT = "leave rope scaling out: inside the trained window it is not needed, and past it attention selects"


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


def hf_rope(raw: Mapping[str, Any]) -> tuple[float, RopeScaling | None]:
    """Base and scaling of a config.json: older files spread them over two places. Raises ModelUnsupported naming a
    scaling that we do not run, ModelDamaged for missing numbers."""
    whole = Reader("config.json", raw)
    inner = whole.inner("rope_parameters") or whole.inner("rope_scaling")
    found: Mapping[str, Any] = {} if inner is None else inner.raw
    rotated = found.get("partial_rotary_factor", raw.get("partial_rotary_factor", 1.0))
    if rotated not in (None, 1, 1.0):
        raise ModelUnsupported(f"partial_rotary_factor = {rotated}", "this version rotates whole heads")
    read = Reader("config.json", {**found, "rope_theta": found.get("rope_theta", raw.get("rope_theta"))})
    return read.positive("rope_theta", 10000.0), _hf_scaling(found)


def _hf_scaling(found: Mapping[str, Any]) -> RopeScaling | None:
    kind = found.get("rope_type", found.get("type", "default"))
    read = Reader("config.json rope_scaling", found)
    if kind == "default":
        return None
    if kind == "linear":
        return RopeScaling("linear", factor=read.positive("factor"))
    if kind == "llama3":
        return RopeScaling(
            "llama3",
            factor=read.positive("factor"),
            low=read.positive("low_freq_factor"),
            high=read.positive("high_freq_factor"),
            original=read.whole("original_max_position_embeddings"),
        )
    raise ModelUnsupported(f"rope scaling {kind}", f"this version runs default, linear and llama3; {_WAY_OUT}")


def gguf_scaling(read: Reader, key: str, factors: tuple[float, ...] | None) -> RopeScaling | None:
    """The scaling of GGUF metadata under `key` ("llama."); `factors`: its rope_freqs tensor. Raises as `hf_rope`."""
    if factors:
        return RopeScaling("factors", factors=factors)
    kind = read.get(key + "rope.scaling.type") or "none"
    if kind == "none":
        return None
    if kind == "linear":
        return RopeScaling("linear", factor=read.positive(key + "rope.scaling.factor"))
    raise ModelUnsupported(
        f"rope scaling {kind}", f"this version runs none, linear and a rope_freqs tensor; {_WAY_OUT}"
    )
