"""Safetensors in any number of files give one model; what is missing, torn or of another shape is named."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from tests.models.conftest import TinyLlama
from tests.models.test_llama import ours

from unabridged.models.errors import ModelDamaged, ModelNotFound, ModelUnsupported
from unabridged.models.folder import ModelFolder
from unabridged.models.load import load_model
from unabridged.models.weights import stream_safetensors


def test_shards_give_the_same_model(tiny_llama: TinyLlama) -> None:
    ids = torch.arange(20)
    whole = ours(load_model(tiny_llama()[0]), ids, 20)
    folder, _ = tiny_llama(shard="40KB")
    (folder / "model.safetensors").unlink()
    assert len(ModelFolder.inspect(folder).weights) > 2
    assert torch.equal(ours(load_model(folder), ids, 20), whole)


def test_weights_come_one_at_a_time(tiny_llama: TinyLlama) -> None:
    folder, reference = tiny_llama()
    stream = stream_safetensors(ModelFolder.inspect(folder))
    name, tensor = next(stream)
    assert torch.equal(tensor, reference.state_dict()[name])
    assert len(list(stream)) == len(reference.state_dict()) - 1


def test_a_missing_shard_is_named(tiny_llama: TinyLlama) -> None:
    folder, _ = tiny_llama(shard="40KB")
    sorted(folder.glob("model-*.safetensors"))[1].unlink()
    with pytest.raises(ModelDamaged, match="model-00002-of-"):
        load_model(folder)


def test_an_index_cannot_point_outside_the_folder(tiny_llama: TinyLlama) -> None:
    folder, _ = tiny_llama()
    index = {"weight_map": {"model.norm.weight": "../tiny/model.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(ModelDamaged, match=r"\.\./tiny"):
        load_model(folder)


def test_a_truncated_file_is_named(tiny_llama: TinyLlama) -> None:
    folder, _ = tiny_llama()
    file = folder / "model.safetensors"
    data = file.read_bytes()
    for length in (0, 5, 100, len(data) - 3):
        file.write_bytes(data[:length])
        with pytest.raises(ModelDamaged, match=r"model\.safetensors"):
            load_model(folder)


@pytest.mark.parametrize(
    ("name", "tensor", "kind", "message"),
    [
        ("model.norm.weight", None, ModelDamaged, r"1 weights are missing \(model.norm.weight"),
        ("model.norm.weight", torch.zeros(47), ModelDamaged, r"has shape \[47\], its configuration says \[48\]"),
        ("model.layers.0.self_attn.q_proj.bias", torch.zeros(48), ModelUnsupported, "q_proj.bias has no place"),
        ("model.norm.weight", torch.zeros(48, dtype=torch.int8), ModelUnsupported, "is torch.int8"),
        ("model.norm.weight", torch.full((48,), float("nan")), ModelDamaged, "norm.weight holds numbers that are not"),
    ],
    ids=["missing", "shape", "extra", "integers", "nan"],
)
def test_weights_that_do_not_fit_are_named(
    tiny_llama: TinyLlama, name: str, tensor: torch.Tensor | None, kind: type[Exception], message: str
) -> None:
    folder, _ = tiny_llama()
    weights = load_file(folder / "model.safetensors")
    weights.pop(name, None)
    if tensor is not None:
        weights[name] = tensor
    save_file(weights, folder / "model.safetensors")
    with pytest.raises(kind, match=message):
        load_model(folder)


def test_weights_that_are_there_twice_are_read_once(tiny_llama: TinyLlama) -> None:
    for shard, count in (("1GB", 1), ("40KB", 4)):
        folder, _ = tiny_llama(shard=shard)
        save_file({"layers.0.attention.wq.weight": torch.zeros(2, 2)}, folder / "consolidated.safetensors")
        assert len(ModelFolder.inspect(folder).weights) >= count
        load_model(folder)


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo, lambda path: path.symlink_to("none")])
def test_what_is_no_file_is_named(tiny_llama: TinyLlama, make: Callable[[Path], None]) -> None:
    folder, _ = tiny_llama()
    (folder / "model.safetensors").unlink()
    make(folder / "model.safetensors")
    with pytest.raises(ModelDamaged, match=r"model\.safetensors is not a file"):
        ModelFolder.inspect(folder)


def test_no_memory_is_taken_for_a_vocabulary_that_is_not_there(tiny_llama: TinyLlama) -> None:
    folder, _ = tiny_llama(tie_word_embeddings=True)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "vocab_size": 1 << 24, "hidden_size": 1 << 20}))
    with pytest.raises(ModelDamaged, match=r"embed_tokens.weight has shape \[259, 48\]"):
        load_model(folder)


def test_folders_without_a_checkpoint_say_what_they_hold(tmp_path: Path) -> None:
    with pytest.raises(ModelNotFound):
        load_model(tmp_path / "none")
    with pytest.raises(ModelUnsupported, match="holds no checkpoint"):
        load_model(tmp_path)
    (tmp_path / "pytorch_model.bin").touch()
    with pytest.raises(ModelUnsupported, match="pickled"):
        load_model(tmp_path)
    for name in ("a.gguf", "b.gguf"):
        (tmp_path / name).touch()
    with pytest.raises(ModelUnsupported, match=r"2 GGUF files \(a.gguf, b.gguf\)"):
        load_model(tmp_path)
