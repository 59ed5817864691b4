"""What a checkpoint's configuration says about 4-bit weights. Torch-free.

Two layouts are run: AutoAWQ's "gemm", and compressed-tensors "pack-quantized" with integer weights of 4 bits in groups.
Everything else is refused here, by name and before any weight is read. Which layers are quantised is for their tensors
to say: `skipped` is what the configuration lists as left alone, for messages.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from unabridged.models.errors import ModelDamaged, ModelUnsupported
from unabridged.models.foreign import Reader

# Neighbouring columns that share a scale, as the kernels take them.
GROUPS = (32, 64, 128)

# Where AutoAWQ wrote its configuration before config.json held it.
LEGACY_FILE = "quant_config.json"

# Names of tensors: those that hold eight weights a word, and what is stored beside them.
PACKED = (".qweight", ".weight_packed")
BESIDES = (".qzeros", ".scales", ".weight_scale", ".weight_zero_point", ".weight_shape")

_OTHERWISE = "use a 4-bit AWQ checkpoint of version gemm, the unquantised checkpoint, or a GGUF of it"


@dataclass(frozen=True, slots=True)
class Quantisation:
    """4-bit weights in groups of `group` columns. `zeros`: each group stores the value that stands for 0; without, it
    is 8. `skipped`: names or patterns of modules that were left in floating point."""

    layout: Literal["awq", "compressed-tensors"]
    group: int
    zeros: bool
    skipped: tuple[str, ...] = ()

    def shapes(self, rows: int, columns: int) -> dict[str, tuple[int, ...]]:
        """The tensors of a quantised projection by how its name continues. `columns` are whole groups."""
        groups, row_words = columns // self.group, -(-rows // 8)
        if self.layout == "awq":
            return {"qweight": (columns, row_words), "qzeros": (groups, row_words), "scales": (groups, rows)}
        zeros = {"weight_zero_point": (row_words, groups)} if self.zeros else {}
        return {"weight_packed": (rows, columns // 8), "weight_scale": (rows, groups), **zeros, "weight_shape": (2,)}


def quantisation_of(raw: Mapping[str, Any]) -> Quantisation | None:
    """Of config.json's content; None when its weights are in floating point.

    Raises ModelUnsupported naming what was found and what to use, ModelDamaged for values of the wrong type.
    """
    found = raw.get("quantization_config") or raw.get("compression_config")
    if not found:
        return None
    if not isinstance(found, Mapping):
        raise ModelDamaged(
            f"quantization_config is {found!r}, not an object", "copy the checkpoint's config.json again"
        )
    method = found.get("quant_method", "an unnamed method")
    if method == "awq":
        return _awq(found)
    if method == "compressed-tensors":
        return _compressed(found)
    raise ModelUnsupported(f"weights quantised with {method}", _OTHERWISE)


def from_legacy(found: Mapping[str, Any]) -> dict[str, Any]:
    """What quantization_config would be, of the content of AutoAWQ's old quant_config.json."""
    names = {"w_bit": "bits", "q_group_size": "group_size"}
    return {"quant_method": "awq", **{names.get(key, key): value for key, value in found.items()}}


def _awq(found: Mapping[str, Any]) -> Quantisation:
    version = str(found.get("version") or found.get("format") or "gemm").lower()
    if found.get("backend") == "llm-awq":
        version = "llm-awq"
    if version != "gemm":
        raise ModelUnsupported(f"AWQ weights of version {version}", _OTHERWISE)
    if found.get("zero_point", True) is not True:
        raise ModelUnsupported("AWQ weights without zero points", _OTHERWISE)
    _four_bits("AWQ weights", found.get("bits", 4))
    group = _group("AWQ weights", found.get("group_size", 128))
    return Quantisation("awq", group, True, _names(found, "modules_to_not_convert"))


def _compressed(found: Mapping[str, Any]) -> Quantisation:
    if found.get("kv_cache_scheme"):
        raise ModelUnsupported(
            "compressed-tensors with a kv_cache_scheme", "use a checkpoint that quantises weights only"
        )
    form = found.get("format", "of no named format")
    if form != "pack-quantized":
        raise ModelUnsupported(f"compressed-tensors {form}", f"pack-quantized with 4 bits is run: {_OTHERWISE}")
    read = Reader("quantization_config", found)
    sparsity, transform = read.inner("sparsity_config"), read.inner("transform_config")
    if sparsity is not None and (kind := sparsity.raw.get("format", "dense")) != "dense":
        raise ModelUnsupported(f"sparse weights ({kind})", _OTHERWISE)
    if transform is not None and transform.get("config_groups"):
        raise ModelUnsupported("compressed-tensors with transforms of activations", _OTHERWISE)
    groups = found.get("config_groups")
    if not isinstance(groups, Mapping) or not groups:
        raise ModelDamaged("quantization_config lacks config_groups", "copy the checkpoint's config.json again")
    schemes = {_scheme(name, group) for name, group in groups.items()}
    if len(schemes) > 1:
        raise ModelUnsupported(f"compressed-tensors with {len(schemes)} different schemes of weights", _OTHERWISE)
    group, zeros = schemes.pop()
    return Quantisation("compressed-tensors", group, zeros, _names(found, "ignore"))


def _scheme(name: str, group: Any) -> tuple[int, bool]:
    """Group size and whether zero points are stored, of one of the config_groups."""
    where = f"compressed-tensors {name}"
    if not isinstance(group, Mapping):
        raise ModelUnsupported(f"{where} is a preset, not a scheme", _OTHERWISE)
    for part in ("input_activations", "output_activations"):
        if group.get(part):
            raise ModelUnsupported(f"{where} quantises {part}", "use a checkpoint that quantises weights only (W4A16)")
    if group.get("format") not in (None, "pack-quantized"):
        raise ModelUnsupported(f"{where} has format {group['format']}", _OTHERWISE)
    inner = Reader(where, group).inner("weights")
    weights: Mapping[str, Any] = {} if inner is None else inner.raw
    kind, strategy, order = (weights.get(key) for key in ("type", "strategy", "actorder"))
    if kind != "int":
        raise ModelUnsupported(f"{where} has weights of type {kind}", _OTHERWISE)
    _four_bits(where, weights.get("num_bits"))
    if strategy != "group":
        raise ModelUnsupported(f"{where} has one scale for each {strategy}", "scales for groups of columns are run")
    # "weight" and "static" order only the calibration: the groups that they store are of neighbouring columns.
    if order not in (None, False, "weight", "static"):
        raise ModelUnsupported(f"{where} has columns in activation order ({order})", _OTHERWISE)
    return _group(where, weights.get("group_size")), not weights.get("symmetric", True)


def _four_bits(where: str, bits: Any) -> None:
    if bits != 4:
        raise ModelUnsupported(f"{where}: {bits} bits a weight", _OTHERWISE)


def _group(where: str, size: Any) -> int:
    if size not in GROUPS:
        known = ", ".join(map(str, GROUPS))
        raise ModelUnsupported(f"{where}: group size {size}", f"this version runs groups of {known}")
    return int(size)


def _names(found: Mapping[str, Any], key: str) -> tuple[str, ...]:
    names = found.get(key) or []
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ModelDamaged(f"quantization_config: {key} is {names!r}, not a list of names")
    return tuple(names)
