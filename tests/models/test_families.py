"""Every family against transformers on a tiny random checkpoint: in one pass, in chunks, token by token, and past its
sliding window; and what its files say that decides how it runs."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from gguf import GGMLQuantizationType as Kind
from gguf import get_tensor_name_map
from gguf.constants import MODEL_ARCH_NAMES
from safetensors.torch import load_file
from tests.models.families import CASES, LLAMA3, reference, save
from tests.models.gguf_files import write_gguf
from tests.models.test_llama import ours, theirs
from transformers import Gemma2Config, PreTrainedModel

from unabridged.models.config import ModelConfig
from unabridged.models.errors import ModelDamaged, ModelUnsupported
from unabridged.models.families import FAMILIES, Family
from unabridged.models.gguf import BLOCK, TOP, hf_name
from unabridged.models.load import load_model
from unabridged.models.rope import inv_freq

IDS = torch.randint(0, 256, (150,), generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("name", CASES)
def test_logits_agree_with_transformers(tmp_path: Path, name: str) -> None:
    theirs_ = reference(CASES[name])
    model = load_model(save(theirs_, tmp_path / name))
    wanted = theirs(theirs_, IDS)
    for chunk in (150, 64, 1):
        torch.testing.assert_close(ours(model, IDS, chunk), wanted, atol=1e-3, rtol=0)


@pytest.mark.parametrize(
    ("name", "without"),
    [
        ("llama-3.1", {"rope_scaling": None}),
        ("mistral-v0.1", {"sliding": ()}),
        ("mistral-v0.1", {"sliding": (49, 49, 49)}),
        ("qwen2-sliding", {"sliding": (40, 40, 40)}),
        ("gemma2", {"sliding": ()}),
        ("gemma2", {"attention_cap": None}),
        ("gemma2", {"logit_cap": None}),
        ("gemma2", {"query_factor": 1.0}),
    ],
    ids=str,
)
def test_every_option_matters_in_these_checkpoints(tmp_path: Path, name: str, without: dict[str, Any]) -> None:
    theirs_ = reference(CASES[name])
    model = load_model(save(theirs_, tmp_path / name))
    model.config = replace(model.config, **without)
    assert float((ours(model, IDS, 150) - theirs(theirs_, IDS)).abs().max()) > 2e-2


@pytest.mark.parametrize("name", ["qwen2", "gemma2", "exaone"])
def test_shards_and_packed_weights_give_the_same(tmp_path: Path, name: str) -> None:
    theirs_ = reference(CASES[name])
    folder = save(theirs_, tmp_path / name, shard="40KB")
    assert len(list(folder.glob("*.safetensors"))) > 2
    wanted = theirs(theirs_, IDS)
    torch.testing.assert_close(ours(load_model(folder), IDS, 150), wanted, atol=1e-3, rtol=0)
    torch.testing.assert_close(ours(load_model(folder, packed=True), IDS, 150), wanted, atol=3e-2, rtol=0)


def test_every_family_is_tried() -> None:
    assert {CASES[name].config.model_type for name in CASES} == {family.name for family in FAMILIES}  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", ["llama", "llama-3.1", "exaone"])
def test_frequencies_are_those_of_transformers(name: str) -> None:
    theirs_ = reference(CASES[name])
    config = ModelConfig.from_hf({**theirs_.config.to_dict(), "architectures": [type(theirs_).__name__]})
    torch.testing.assert_close(inv_freq(config), theirs_.model.rotary_emb.inv_freq, atol=0, rtol=1e-6)


def test_llama31_frequencies_at_its_own_numbers() -> None:
    scaling = {**LLAMA3, "original_max_position_embeddings": 8192}
    theirs_ = reference(CASES["llama"], rope_parameters=scaling, head_dim=128, max_position_embeddings=131072)
    config = ModelConfig.from_hf({**theirs_.config.to_dict(), "architectures": ["LlamaForCausalLM"]})
    found = inv_freq(config)
    torch.testing.assert_close(found, theirs_.model.rotary_emb.inv_freq, atol=0, rtol=1e-6)
    plain = 500000.0 ** -(torch.arange(0, 128, 2) / 128)
    ratio = plain / found
    assert float(ratio[0]) == 1.0
    assert float(ratio[-1]) == pytest.approx(8.0)
    assert bool(((ratio > 1.01) & (ratio < 7.99)).any()), "some are blended"


def config_of(model: PreTrainedModel, **changes: Any) -> ModelConfig:
    raw = {**json.loads(model.config.to_json_string()), "architectures": [type(model).__name__], **changes}
    return ModelConfig.from_hf(raw)


def test_exaone_as_it_is_published(tmp_path: Path) -> None:
    """LG's own files: other keys, no class that transformers knows. The reference is the Llama that it is."""
    theirs_ = reference(CASES["exaone"])
    folder = save(theirs_, tmp_path / "exaone")
    raw = json.loads((folder / "config.json").read_text())
    for ours_, published in (
        ("num_hidden_layers", "num_layers"),
        ("rms_norm_eps", "layer_norm_epsilon"),
        ("hidden_act", "activation_function"),
    ):
        raw[published] = raw.pop(ours_)
    scaling = raw.pop("rope_parameters")
    raw |= {"rope_theta": scaling.pop("rope_theta"), "rope_scaling": scaling, "architectures": ["ExaoneForCausalLM"]}
    (folder / "config.json").write_text(json.dumps(raw))
    assert "transformer.h.0.mlp.c_fc_0.weight" in load_file(folder / "model.safetensors")
    torch.testing.assert_close(ours(load_model(folder), IDS, 64), theirs(theirs_, IDS), atol=1e-3, rtol=0)


def test_gemma2_as_it_is_published() -> None:
    """Google's files leave out what is transformers' default; so does ours."""
    raw = Gemma2Config(num_hidden_layers=4).to_diff_dict()
    for key in ("tie_word_embeddings", "layer_types", "sliding_window", "query_pre_attn_scalar", "head_dim"):
        raw.pop(key, None)
    config = ModelConfig.from_hf({**raw, "architectures": ["Gemma2ForCausalLM"]})
    assert (config.tied, config.head_dim, config.activation) == (True, 256, "gelu_tanh")
    assert (config.attention_cap, config.logit_cap, config.query_factor) == (50.0, 30.0, 1.0)
    assert config.sliding == (4096, 0, 4096, 0)
    assert config.embedding_scale == pytest.approx(48.0)


@pytest.mark.parametrize(
    ("name", "changes", "sliding"),
    [
        ("mistral-v0.1", {}, (50, 50, 50)),
        ("mistral-v0.1", {"sliding_window": 512}, ()),
        ("mistral-v0.3", {}, ()),
        ("qwen2", {"sliding_window": 40}, ()),
        ("qwen2-sliding", {}, (0, 40, 40)),
        ("qwen2-sliding", {"layer_types": None, "max_window_layers": 2}, (0, 0, 40)),
        ("gemma2", {}, (50, 0, 50)),
        ("llama", {"sliding_window": 50}, ()),
    ],
)
def test_which_layers_slide(name: str, changes: dict[str, Any], sliding: tuple[int, ...]) -> None:
    assert config_of(reference(CASES[name]), **changes).sliding == sliding


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        (
            "qwen2",
            {"rope_scaling": {"type": "yarn", "factor": 4.0}, "rope_parameters": None},
            "rope scaling yarn.*leave",
        ),
        ("qwen2-sliding", {"layer_types": ["linear_attention"] * 3}, "layers of type linear_attention"),
        ("gemma2", {"hidden_activation": "relu"}, "activation relu"),
        ("gemma2", {"use_bidirectional_attention": True}, "both directions"),
        ("exaone", {"architectures": ["Exaone4ForCausalLM"], "model_type": "exaone4"}, "architecture Exaone4"),
    ],
)
def test_what_we_do_not_run_is_named(name: str, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelUnsupported, match=message):
        config_of(reference(CASES[name]), **changes)


def test_a_layer_list_of_another_length_is_damaged() -> None:
    with pytest.raises(ModelDamaged, match="2 layers have a kind of attention, the model has 3"):
        config_of(reference(CASES["gemma2"]), layer_types=["sliding_attention"] * 2)


GGUF: dict[str, tuple[str, dict[str, Any]]] = {
    "llama-biases": ("llama", {}),
    "mistral-v0.3": ("llama", {}),
    "qwen2": ("qwen2", {}),
    "qwen3": ("qwen3", {}),
    "gemma2": ("gemma2", {"query_pre_attn_scalar": 16, "attn_logit_softcapping": 5.0}),
    "exaone": ("exaone", {"rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}}),
}


@pytest.mark.parametrize("name", GGUF)
def test_gguf_files_give_the_same_model(tmp_path: Path, name: str) -> None:
    architecture, fields = GGUF[name]
    theirs_ = reference(CASES[name], **fields)
    write_gguf(tmp_path / "m.gguf", theirs_, architecture, Kind.F32)
    model = load_model(tmp_path / "m.gguf")
    assert model.config.architecture == architecture
    assert model.config.sliding == ((50, 0, 50) if name == "gemma2" else ())
    torch.testing.assert_close(ours(model, IDS, 64), theirs(theirs_, IDS), atol=1e-3, rtol=0)


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_gguf_names_are_those_of_the_gguf_package(family: Family) -> None:
    arch = next(key for key, value in MODEL_ARCH_NAMES.items() if value == family.gguf_name)
    known = get_tensor_name_map(arch, 8)
    for place, field in {**TOP, **BLOCK}.items():
        name = getattr(family.names, field)
        if name:
            hf = name if place in TOP else family.names.layer.format(5) + name
            found = place if place in TOP else f"blk.5.{place}"
            # The package's map lacks a separate head for Gemma 2, which is always tied.
            if (family.name, place) != ("gemma2", "output"):
                assert known.get_name(hf) == found
            assert hf_name(found + ".weight", "x", family) == hf + ".weight"


def test_a_gguf_tensor_of_another_family_is_named() -> None:
    with pytest.raises(ModelUnsupported, match=r"attn_q_norm.weight has no place in a llama model"):
        hf_name("blk.0.attn_q_norm.weight", "m.gguf")


def test_gemma2_27b_divides_queries_otherwise() -> None:
    metadata = {
        "general.architecture": "gemma2",
        "gemma2.attention.head_count": 32,
        "gemma2.attention.head_count_kv": 16,
        "gemma2.attention.key_length": 128,
        "gemma2.embedding_length": 4608,
        "gemma2.feed_forward_length": 36864,
        "gemma2.block_count": 46,
        "gemma2.context_length": 8192,
        "gemma2.vocab_size": 256000,
        "gemma2.attention.layer_norm_rms_epsilon": 1e-6,
    }
    config = ModelConfig.from_gguf(metadata, tied=True)
    # 4608 / 32 heads, as its config.json has it.
    assert config.query_factor == pytest.approx((128 / 144) ** 0.5)
    assert ModelConfig.from_gguf({**metadata, "gemma2.block_count": 26}, tied=True).query_factor == 1.0
