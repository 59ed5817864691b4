"""What a configuration says of 4-bit weights is read whole; what we do not run is refused by name, with a way out."""

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from unabridged.models.errors import ModelDamaged, ModelUnsupported
from unabridged.models.folder import hf_config
from unabridged.models.kernels import w4
from unabridged.models.quantisation import GROUPS, Quantisation, quantisation_of

AWQ: dict[str, Any] = {"quant_method": "awq", "version": "gemm", "bits": 4, "group_size": 128, "zero_point": True}
WEIGHTS: dict[str, Any] = {
    "num_bits": 4,
    "type": "int",
    "strategy": "group",
    "group_size": 64,
    "symmetric": False,
    "actorder": None,
}
COMPRESSED: dict[str, Any] = {
    "quant_method": "compressed-tensors",
    "format": "pack-quantized",
    "ignore": ["lm_head"],
    "kv_cache_scheme": None,
    "config_groups": {"group_0": {"targets": ["Linear"], "input_activations": None, "weights": WEIGHTS}},
}


def read(found: object) -> Quantisation | None:
    return quantisation_of({"quantization_config": found})


def compressed(group: dict[str, Any] | None = None, **weights: Any) -> dict[str, Any]:
    """COMPRESSED with changes to its group and the group's weights."""
    found = deepcopy(COMPRESSED)
    found["config_groups"]["group_0"]["weights"].update(weights)
    found["config_groups"]["group_0"].update(group or {})
    return found


def test_autoawq() -> None:
    found = AWQ | {"modules_to_not_convert": ["lm_head"], "backend": "autoawq", "do_fuse": False, "exllama_config": {}}
    assert read(found) == Quantisation("awq", 128, True, ("lm_head",))
    assert read(AWQ | {"version": "GEMM", "modules_to_not_convert": None}) == Quantisation("awq", 128, True)


def test_compressed_tensors() -> None:
    assert read(COMPRESSED) == Quantisation("compressed-tensors", 64, True, ("lm_head",))
    assert read(compressed(symmetric=True, actorder="weight")) == Quantisation(
        "compressed-tensors", 64, False, ("lm_head",)
    )


def test_floating_weights_say_nothing() -> None:
    assert quantisation_of({}) is None
    assert read(None) is None


def test_the_old_file_beside_config_json_is_read(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    old = {"zero_point": True, "q_group_size": 64, "w_bit": 4, "version": "GEMM"}
    (tmp_path / "quant_config.json").write_text(json.dumps(old))
    assert quantisation_of(hf_config(tmp_path)) == Quantisation("awq", 64, True)
    (tmp_path / "config.json").write_text(json.dumps({"quantization_config": AWQ}))
    assert quantisation_of(hf_config(tmp_path)) == Quantisation("awq", 128, True)


@pytest.mark.parametrize(
    ("found", "message"),
    [
        ({"quant_method": "gptq", "bits": 4}, "quantised with gptq"),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True}, "quantised with bitsandbytes"),
        ({"quant_method": "fp8"}, "quantised with fp8"),
        ({"bits": 4}, "quantised with an unnamed method"),
        (AWQ | {"version": "gemv"}, "version gemv"),
        (AWQ | {"version": "gemv_fast"}, "version gemv_fast"),
        (AWQ | {"version": "marlin"}, "version marlin"),
        (AWQ | {"version": "exllama"}, "version exllama"),
        (AWQ | {"backend": "llm-awq"}, "version llm-awq"),
        (AWQ | {"bits": 8}, "8 bits a weight"),
        (AWQ | {"group_size": -1}, "group size -1.*groups of 32, 64, 128"),
        (AWQ | {"zero_point": False}, "without zero points"),
        (COMPRESSED | {"format": "int-quantized"}, "compressed-tensors int-quantized"),
        (COMPRESSED | {"format": "float-quantized"}, "compressed-tensors float-quantized"),
        (COMPRESSED | {"format": "marlin-24"}, "compressed-tensors marlin-24"),
        (COMPRESSED | {"format": "nvfp4-pack-quantized"}, "nvfp4-pack-quantized"),
        (COMPRESSED | {"kv_cache_scheme": {"num_bits": 8}}, "kv_cache_scheme"),
        (COMPRESSED | {"sparsity_config": {"format": "sparse-24-bitmask"}}, "sparse-24-bitmask"),
        (COMPRESSED | {"config_groups": {"W4A16": ["Linear"]}}, "W4A16 is a preset"),
        (compressed({"input_activations": {"num_bits": 8}}), "quantises input_activations"),
        (compressed(num_bits=8), "8 bits a weight"),
        (compressed(type="float"), "type float"),
        (compressed(strategy="channel", group_size=None), "one scale for each channel"),
        (compressed(group_size=256), "group size 256"),
        (compressed(actorder="group"), r"activation order \(group\)"),
    ],
)
def test_what_we_do_not_run_is_named(found: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelUnsupported, match=message) as raised:
        read(found)
    assert raised.value.hint


def test_schemes_that_differ_are_refused() -> None:
    found = compressed()
    found["config_groups"]["group_1"] = deepcopy(found["config_groups"]["group_0"])
    assert read(found) is not None
    found["config_groups"]["group_1"]["weights"]["group_size"] = 32
    with pytest.raises(ModelUnsupported, match="2 different schemes"):
        read(found)


@pytest.mark.parametrize(
    ("found", "message"),
    [
        ("awq", "is 'awq', not an object"),
        (AWQ | {"modules_to_not_convert": "lm_head"}, "modules_to_not_convert is 'lm_head'"),
        (COMPRESSED | {"config_groups": {}}, "lacks config_groups"),
        (COMPRESSED | {"sparsity_config": [1]}, r"sparsity_config is \[1\], not an object"),
        (COMPRESSED | {"transform_config": "none"}, "transform_config is 'none', not an object"),
        (compressed({"weights": [4]}), r"weights is \[4\], not an object"),
    ],
)
def test_a_broken_file_is_damaged(found: object, message: str) -> None:
    with pytest.raises(ModelDamaged, match=message):
        read(found)


def test_groups_are_those_of_the_kernels() -> None:
    assert GROUPS == w4.GROUPS
