"""The forward pass agrees with transformers, however the checkpoint is shaped and however the tokens are cut up."""

from pathlib import Path

import pytest
import torch
from tests.models.conftest import TinyLlama
from tests.models.dense import DenseAttend
from transformers import LlamaConfig, LlamaForCausalLM
from transformers.initialization import no_init_weights
from transformers.modeling_gguf_pytorch_utils import load_gguf_checkpoint

from unabridged.models import llama, slices
from unabridged.models.config import ModelConfig
from unabridged.models.container import read_header
from unabridged.models.gguf import config_of, stream_gguf
from unabridged.models.llama import Llama
from unabridged.models.load import load_model

LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 500000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}
SHAPES = {
    "gqa": {},
    "tied": {"tie_word_embeddings": True},
    "mha": {"num_key_value_heads": 6},
    "wide-heads": {"head_dim": 16},
    "llama3-rope": {"rope_parameters": LLAMA3},
    "llama3-rope-tied": {"rope_parameters": LLAMA3, "tie_word_embeddings": True},
    "linear-rope": {"rope_parameters": {"rope_type": "linear", "rope_theta": 10000.0, "factor": 4.0}},
}


def ours(model: Llama, ids: torch.Tensor, chunk: int) -> torch.Tensor:
    """Logits of all rows, prefilled in chunks. `ids` `[T]`."""
    attend = DenseAttend(model.config)
    return torch.cat([model.logits(model.forward(part, attend)) for part in torch.split(ids, chunk)])


def theirs(model: LlamaForCausalLM, ids: torch.Tensor) -> torch.Tensor:
    """The same by transformers."""
    with torch.inference_mode():
        logits: torch.Tensor = model(ids[None]).logits[0]
    return logits


@pytest.mark.parametrize("fields", SHAPES.values(), ids=SHAPES.keys())
def test_logits_agree_with_transformers(tiny_llama: TinyLlama, fields: dict[str, object]) -> None:
    folder, reference = tiny_llama(**fields)
    ids = torch.randint(0, 256, (200,))
    torch.testing.assert_close(ours(load_model(folder), ids, 200), theirs(reference, ids), atol=1e-3, rtol=0)


@pytest.mark.parametrize("chunk", [1, 7, 64])
def test_chunks_change_nothing(tiny_llama: TinyLlama, chunk: int) -> None:
    model = load_model(tiny_llama()[0])
    ids = torch.randint(0, 256, (65,))
    torch.testing.assert_close(ours(model, ids, chunk), ours(model, ids, 65), atol=1e-4, rtol=0)


def test_slices_of_the_mlp_change_nothing(tiny_llama: TinyLlama, monkeypatch: pytest.MonkeyPatch) -> None:
    model = load_model(tiny_llama()[0])
    ids = torch.randint(0, 256, (65,))
    whole, seen = ours(model, ids, 65), list[list[int]]()
    monkeypatch.setattr(slices, "SLICE", 20)
    monkeypatch.setattr(llama, "SLICE", 20)
    split = torch.Tensor.tensor_split

    def counted(x: torch.Tensor, count: int) -> tuple[torch.Tensor, ...]:
        found = split(x, count)
        seen.append([len(one) for one in found])
        return found

    monkeypatch.setattr(torch.Tensor, "tensor_split", counted)
    torch.testing.assert_close(ours(model, ids, 65), whole, atol=1e-4, rtol=0)
    assert seen == [[17, 16, 16, 16]] * 2 * len(model.layers)


def test_packed_weights_change_logits_by_their_rounding_alone(tiny_llama: TinyLlama) -> None:
    folder, reference = tiny_llama()
    ids = torch.randint(0, 256, (65,))
    for chunk in (1, 65):
        packed = ours(load_model(folder, packed=True), ids, chunk)
        torch.testing.assert_close(packed, theirs(reference, ids), atol=1e-2, rtol=0)


def test_bfloat16_keeps_its_type_and_stays_near(tiny_llama: TinyLlama) -> None:
    folder, _ = tiny_llama()
    model = load_model(folder, torch.bfloat16)
    hidden = model.forward(torch.arange(40), DenseAttend(model.config))
    assert hidden.dtype == model.dtype == torch.bfloat16
    exact = ours(load_model(folder), torch.arange(40), 40)
    cosine = torch.nn.functional.cosine_similarity(model.logits(hidden).float(), exact)
    assert cosine.min() > 0.99


def test_attention_that_raises_leaves_the_model_usable(tiny_llama: TinyLlama) -> None:
    model = load_model(tiny_llama()[0])

    def fail(layer: int, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        raise RuntimeError("no room")

    before = ours(model, torch.arange(9), 9)
    with pytest.raises(RuntimeError, match="no room"):
        model.forward(torch.arange(9), fail)
    assert torch.equal(ours(model, torch.arange(9), 9), before)


def reference_of(config: ModelConfig, state: dict[str, torch.Tensor]) -> LlamaForCausalLM:
    """transformers' model of the default model's shape with these weights."""
    model = empty_reference(config)
    assert model.load_state_dict(state, strict=False).missing_keys == ["lm_head.weight"]
    model.tie_weights()
    return model


def empty_reference(config: ModelConfig) -> LlamaForCausalLM:
    """The same without weights: drawing random ones takes longer than the test."""
    fields = LlamaConfig(
        vocab_size=config.vocab_size,
        hidden_size=config.hidden,
        intermediate_size=config.intermediate,
        num_hidden_layers=config.layers,
        num_attention_heads=config.heads,
        num_key_value_heads=config.kv_heads,
        max_position_embeddings=config.window,
        rms_norm_eps=config.norm_eps,
        rope_parameters={"rope_type": "default", "rope_theta": config.rope_theta},
        tie_word_embeddings=True,
    )
    with no_init_weights():
        return LlamaForCausalLM(fields).eval()


def test_smollm2_agrees_with_transformers_on_the_weights_we_read(smollm2: Path) -> None:
    """The forward alone: transformers gets the weights that we dequantised (the slow test checks those too)."""
    header = read_header(smollm2 / "model.gguf")
    config = config_of(header)
    reference = reference_of(config, dict(stream_gguf(header, config)))
    ids = torch.randint(0, config.vocab_size, (48,), generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(ours(load_model(smollm2), ids, 48), theirs(reference, ids), atol=1e-3, rtol=0)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_smollm2_agrees_with_transformers_own_reading_of_the_gguf(smollm2: Path) -> None:
    model = load_model(smollm2)
    shape = empty_reference(model.config)
    read = load_gguf_checkpoint(str(smollm2 / "model.gguf"), return_tensors=True, model_to_load=shape)
    state = {name: torch.as_tensor(tensor) for name, tensor in read["tensors"].items()}
    reference = reference_of(model.config, state)
    ids = torch.randint(0, 49152, (256,), generator=torch.Generator().manual_seed(2))
    torch.testing.assert_close(ours(model, ids, 256), theirs(reference, ids), atol=1e-3, rtol=0)
