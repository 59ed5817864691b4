"""AWQ int4: rounding and packing, that the searches help and change nothing else, and that a stop loses nothing."""

import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from gguf import GGMLQuantizationType
from safetensors.torch import load_file, save_file
from tests.models.families import CASES, reference, save
from tests.models.gguf_files import write_gguf
from tests.models.test_families import GGUF
from tests.models.test_llama import ours
from torch import Tensor

from unabridged.models.awq import Int4
from unabridged.models.config import ModelConfig
from unabridged.models.errors import ModelDamaged, ModelError, ModelUnsupported
from unabridged.models.folder import read_json
from unabridged.models.load import load_model
from unabridged.models.quantise import run
from unabridged.models.quantise.block import PROJECTIONS, Block
from unabridged.models.quantise.clipping import clipped, moments
from unabridged.models.quantise.folding import folded, spread
from unabridged.models.quantise.format import half, projection
from unabridged.models.quantise.recipe import quantise
from unabridged.models.quantise.rounding import group_for, limits, restored, rounded, to_nearest
from unabridged.models.quantise.run import Progress, Quantiser
from unabridged.models.quantise.scales import best, condensed
from unabridged.models.quantise.sides import source_config, write_json, write_sides
from unabridged.models.quantise.source import Source
from unabridged.models.quantise.unfinished import folder_of
from unabridged.models.quantise.work import working
from unabridged.models.tokenizer import Tokenizer

CPU = torch.device("cpu")
SHAPE: dict[str, Any] = {"hidden_size": 64, "intermediate_size": 96, "head_dim": 16, "num_attention_heads": 4}
LAYERS = 2
PIECES = torch.randint(0, 256, (2, 32), generator=torch.Generator().manual_seed(2)).tolist()


def normal(*shape: int, seed: int = 0) -> Tensor:
    """Random numbers."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def made(tmp_path: Path, name: str = "llama", **fields: Any) -> Path:
    """A checkpoint whose widths suit groups of 32."""
    return save(reference(CASES[name], **{**SHAPE, "num_hidden_layers": LAYERS, **fields}), tmp_path / name)


def quantised(source: Path, output: Path, pieces: Any = PIECES) -> Path:
    """`output`, made."""
    Quantiser(Source(source), pieces, CPU).run(output, lambda _: None)
    return output


def content(folder: Path) -> dict[str, bytes]:
    """Every file."""
    return {path.name: path.read_bytes() for path in folder.iterdir()}


# ---------------------------------------------------------------------------------------------------------- rounding


def test_rounding_errs_by_half_a_step_and_keeps_zero() -> None:
    weight = normal(8, 128)
    weight[0] = weight[0].abs() + 1
    weight[1, :64] = 0
    weight[:, 5] = 0
    found = to_nearest(weight, 64)
    low, high = limits(weight, 64)
    step = ((high - low) / 15)[..., None].expand(-1, -1, 64).flatten(1)
    # Zero points are whole: the ends of a range may lie half a step outside.
    assert bool(((found - weight).abs() <= step * 1.01).all())
    assert float(((found - weight).abs() > step * 0.51).float().mean()) < 0.02
    assert bool((found[:, 5] == 0).all())
    assert bool((found[1, :64] == 0).all())


def test_what_is_stored_is_what_the_search_saw() -> None:
    weight = normal(8, 96)
    low, high = limits(weight, 32)
    stored = rounded(weight, low * 0.9, high * 0.8)
    exact = (stored.values.unflatten(1, (3, 32)).float() - stored.zeros[..., None].float()) * stored.scales[..., None]
    assert torch.equal(exact.flatten(1), restored(weight, low * 0.9, high * 0.8))
    torch.testing.assert_close(stored.dequantised(torch.float32), exact.flatten(1), rtol=1e-3, atol=0)


def test_groups_are_the_largest_that_fit_every_width() -> None:
    assert [group_for(widths) for widths in ({4096, 14336}, {576, 1536}, {96, 4096})] == [128, 64, 32]
    with pytest.raises(ModelUnsupported, match=r"48, 80 inputs"):
        group_for({48, 80})


def test_words_are_those_of_autoawq(shared_data: Path) -> None:
    tensors = load_file(shared_data / "awq-tiny" / "model.safetensors")
    name = "model.layers.1.mlp.gate_proj"
    shifts = 4 * torch.tensor([0, 4, 1, 5, 2, 6, 3, 7])
    values, zeros = (
        (tensors[f"{name}.{part}"][..., None] >> shifts & 15).flatten(-2).T.to(torch.uint8)
        for part in ("qweight", "qzeros")
    )
    for key, tensor in projection(name, Int4(values, tensors[f"{name}.scales"].T, zeros)).items():
        assert torch.equal(tensor, tensors[key])


def test_numbers_that_float16_does_not_hold_are_refused_by_name() -> None:
    with pytest.raises(ModelUnsupported, match=r"model\.norm\.weight holds 7e\+04"):
        half("model.norm.weight", torch.tensor([1.0, 7e4]))


# ---------------------------------------------------------------------------------------------------------- searches


def test_clipping_never_loses_in_a_group() -> None:
    x, weight = normal(200, 64), normal(16, 64, seed=1) ** 3
    seen = moments(x, 32)

    def losses(low: Tensor, high: Tensor) -> Tensor:
        error = (restored(weight, low, high) - weight).unflatten(1, (2, 32))
        return torch.einsum("nga,gab,ngb->ng", error, seen, error)

    found, plain = losses(*clipped(weight, seen)), losses(*limits(weight, 32))
    assert bool((found <= plain * 1.0001).all())
    assert float(found.sum()) < 0.95 * float(plain.sum())


def test_condensed_rows_have_the_same_errors() -> None:
    x, error = normal(300, 32), normal(8, 32, seed=1)
    short = condensed(x)
    assert short.shape == (32, 32)
    torch.testing.assert_close((short @ error.T).square().sum(), (x @ error.T).square().sum())


def layer(tmp_path: Path, name: str) -> tuple[ModelConfig, dict[str, Tensor], Tensor]:
    """A layer, and rows of which a few channels are large, as real ones are."""
    source = Source(made(tmp_path, name))
    rows = normal(4, 40, 64)
    rows[..., ::16] *= 30
    return source.config, source.layer(0, CPU), rows


@pytest.mark.parametrize("name", ["llama", "llama-biases", "qwen3", "gemma2"])
def test_factors_change_nothing_but_the_rounding(tmp_path: Path, name: str) -> None:
    config, weights, rows = layer(tmp_path, name)
    factors = {place: normal(weights[place].shape[1], seed=3).exp() for place in PROJECTIONS}
    factors["output"] = spread(config, normal(config.kv_heads * config.head_dim, seed=4).exp())
    changed = folded(config, weights, factors)
    assert all(not torch.equal(changed[place], weights[place]) for place in PROJECTIONS)
    wanted, _ = Block(config, weights, rows).observe()
    found, _ = Block(config, changed, rows).observe()
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4)


def test_ranges_of_queries_and_keys_are_whole_and_others_drawn_in_for_what_they_read(tmp_path: Path) -> None:
    config, weights, rows = layer(tmp_path, "llama")
    result = quantise(config, weights, rows, 32)
    factors = {
        "qkv": weights["attention_norm"] / result.others["attention_norm"],
        "gate_up": weights["mlp_norm"] / result.others["mlp_norm"],
    }
    _, seen = Block(config, weights, rows).observe()
    queries_and_keys = (config.heads + config.kv_heads) * config.head_dim
    low, high = limits(weights["qkv"][:queries_and_keys] * factors["qkv"], 32)
    steps = result.projections["qkv"].scales[:queries_and_keys].float()
    torch.testing.assert_close(steps, (high - low) / 15, rtol=1e-3, atol=0)
    # Gates are the rows of gate_up that nothing divides.
    low, high = clipped(
        weights["gate_up"][: config.intermediate] * factors["gate_up"],
        moments(seen["gate_up"] / factors["gate_up"], 32),
    )
    steps = result.projections["gate_up"].scales[: config.intermediate].float()
    near = ((steps * 15 / (high - low) - 1).abs() < 1e-3).float().mean()
    assert float(near) > 0.99


@pytest.mark.parametrize("name", ["llama", "llama-biases", "qwen3", "gemma2"])
def test_a_layer_computes_what_it_did_up_to_its_rounding(tmp_path: Path, name: str) -> None:
    config, weights, rows = layer(tmp_path, name)
    wanted, _ = Block(config, weights, rows).observe()
    result = quantise(config, weights, rows, 32)
    assert torch.equal(result.rows, wanted)
    stored = {place: weight.dequantised(torch.float32) for place, weight in result.projections.items()}

    def lost(changed: dict[str, Tensor]) -> float:
        found, _ = Block(config, {**weights, **changed}, rows).observe()
        return float((found - wanted).square().sum() / (wanted - rows).square().sum())

    plain = lost({place: to_nearest(weights[place], 32) for place in PROJECTIONS})
    assert lost({**stored, **result.others}) < 0.8 * plain
    assert plain < 0.2


def test_the_least_change_wins_when_nothing_is_gained() -> None:
    sizes = normal(8).abs()
    assert torch.equal(best(sizes, lambda _: torch.tensor(1.0)), torch.ones(8))
    assert torch.equal(best(torch.zeros(8), lambda _: torch.tensor(1.0)), torch.ones(8))
    wanted = sizes**0.5
    found = best(sizes, lambda factors: (factors / factors[0] - wanted / wanted[0]).square().sum())
    torch.testing.assert_close(found / found[0], wanted / wanted[0])


# ------------------------------------------------------------------------------------------------------------- folders


@pytest.mark.parametrize("name", CASES)
def test_the_result_is_loaded_and_is_near_its_source(tmp_path: Path, name: str) -> None:
    source = made(tmp_path, name)
    output = quantised(source, tmp_path / "out")
    ids = torch.tensor(PIECES[0])
    wanted, found = ours(load_model(source), ids, 32), ours(load_model(output), ids, 32)
    # Random weights are not kind to 4 bits; a factor that is taken out where it was not put in makes this 1 and more.
    assert float((found - wanted).square().sum() / wanted.square().sum()) < 0.35
    raw = read_json(output / "config.json")
    assert raw["quantization_config"] == {
        "quant_method": "awq",
        "version": "gemm",
        "bits": 4,
        "group_size": 32,
        "zero_point": True,
        "modules_to_not_convert": None,
    }
    shards = set(read_json(output / "model.safetensors.index.json")["weight_map"].values())
    assert shards == {path.name for path in output.glob("*.safetensors")}
    assert Tokenizer.load(output).id == Tokenizer.load(source).id
    assert not folder_of(output).exists()


def test_a_gguf_brings_its_tokenizer_and_its_shape(smollm2: Path, tmp_path: Path) -> None:
    source = Source(smollm2)
    write_sides(source.folder, source.config, tmp_path)
    raw = source_config(source.folder, source.config)
    write_json(tmp_path / "config.json", raw)
    save_file({}, tmp_path / "model.safetensors")
    assert ModelConfig.from_hf(raw) == source.config
    theirs, mine = Tokenizer.load(smollm2), Tokenizer.load(tmp_path)
    turns = [("system", "Be brief."), ("user", "What is 7 x 6?")]
    assert (mine.id, mine.eos_ids, mine.chat(turns)) == (theirs.id, theirs.eos_ids, theirs.chat(turns))
    assert source.layer(29, CPU)["down"].shape == (576, 1536)


@pytest.mark.parametrize("name", GGUF)
def test_a_gguf_of_any_family_has_its_weights_under_the_family_s_names(tmp_path: Path, name: str) -> None:
    architecture, fields = GGUF[name]
    model = reference(CASES[name], **fields)
    write_gguf(tmp_path / "m.gguf", model, architecture, GGMLQuantizationType.F32)
    source, weights = Source(tmp_path / "m.gguf"), load_file(save(model, tmp_path / "hf") / "model.safetensors")
    for matrix in source.layer_matrices(1):
        wanted = torch.cat([weights[f"{piece.name}.weight"] for piece in matrix.pieces])
        assert torch.equal(source.layer(1, CPU)[matrix.place.partition(".")[2]], wanted)


class Stopped(Exception):
    """What ends a run in these tests."""


@pytest.mark.parametrize("after", [1, LAYERS])
def test_a_stopped_run_goes_on_and_ends_with_the_same_bytes(
    tmp_path: Path, after: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = made(tmp_path)
    whole = content(quantised(source, tmp_path / "whole"))
    output = tmp_path / "out"

    def stop(progress: Progress) -> None:
        if progress.done == after:
            raise Stopped

    with pytest.raises(Stopped):
        Quantiser(Source(source), PIECES, CPU).run(output, stop)
    assert not output.exists()
    layers: list[Any] = []

    def counted(*arguments: Any) -> Any:
        layers.append(arguments)
        return quantise(*arguments)

    monkeypatch.setattr(run, "quantise", counted)
    assert content(quantised(source, output)) == whole
    assert len(layers) == LAYERS - after


KILLED = """
import os, signal, sys
from pathlib import Path
import torch
from unabridged.models.quantise.run import Quantiser
from unabridged.models.quantise.source import Source

def kill(progress):
    if progress.done == 1:
        os.kill(os.getpid(), signal.SIGKILL)

Quantiser(Source(Path(sys.argv[1])), eval(sys.argv[3]), torch.device("cpu")).run(Path(sys.argv[2]), kill)
"""


@pytest.mark.slow
def test_a_killed_run_goes_on_and_ends_with_the_same_bytes(tmp_path: Path) -> None:
    source, output = made(tmp_path), tmp_path / "out"
    done = subprocess.run([sys.executable, "-c", KILLED, str(source), str(output), repr(PIECES)], check=False)
    assert done.returncode == -signal.SIGKILL
    assert sorted(path.name for path in folder_of(output).iterdir()) == ["fingerprint", "model", "rows-1.safetensors"]
    assert content(quantised(source, output)) == content(quantised(source, tmp_path / "whole"))


def test_other_text_starts_anew(tmp_path: Path) -> None:
    source, output = made(tmp_path), tmp_path / "out"

    def stop(progress: Progress) -> None:
        if progress.done == 1:
            raise Stopped

    with pytest.raises(Stopped):
        Quantiser(Source(source), PIECES, CPU).run(output, stop)
    other = [row[::-1] for row in PIECES]
    assert content(quantised(source, output, other)) == content(quantised(source, tmp_path / "whole", other))


# ------------------------------------------------------------------------------------------------------------ refusals


def test_a_folder_that_is_there_and_work_that_is_held_are_refused(tmp_path: Path) -> None:
    source, output = made(tmp_path), tmp_path / "out"
    with working(output, LAYERS + 1), pytest.raises(ModelError, match="another process is making"):
        quantised(source, output)
    output.mkdir()
    with pytest.raises(ModelError, match="out is there already"):
        quantised(source, output)


def test_a_quantised_model_is_refused(tmp_path: Path) -> None:
    output = quantised(made(tmp_path), tmp_path / "out")
    with pytest.raises(ModelUnsupported, match="out is quantised already"):
        Source(output)
    raw = read_json(output / "config.json")
    del raw["quantization_config"]
    (output / "config.json").write_text(json.dumps(raw))
    with pytest.raises(ModelUnsupported, match="out is quantised already"):
        Source(output)


def test_weights_that_are_missing_or_have_no_place_are_named_before_the_start(tmp_path: Path) -> None:
    folder = made(tmp_path)
    file = folder / "model.safetensors"
    weights = load_file(file)
    save_file(weights | {"model.layers.0.self_attn.rotary_emb.inv_freq": torch.ones(8)}, file)
    Source(folder)
    save_file(weights | {"model.extra.weight": torch.ones(8)}, file)
    with pytest.raises(ModelUnsupported, match=r"model\.extra\.weight has no place"):
        Source(folder)
    del weights["model.layers.1.mlp.up_proj.weight"]
    save_file(weights, file)
    with pytest.raises(ModelDamaged, match=r"lacks 1 weights \(model\.layers\.1\.mlp\.up_proj\.weight"):
        Source(folder)


def test_too_little_space_is_said_before_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = made(tmp_path)
    usage = shutil.disk_usage(tmp_path)._replace(free=1000)
    monkeypatch.setattr("shutil.disk_usage", lambda _: usage)
    with pytest.raises(ModelError, match=r"\d\.\d KB are needed in .*out.*, \d+\.\d KB more than are free"):
        quantised(source, tmp_path / "out")
    monkeypatch.undo()
    quantiser = Quantiser(Source(source), PIECES, CPU)
    quantiser.run(tmp_path / "out", lambda _: None)
    weights = sum(path.stat().st_size for path in (tmp_path / "out").glob("*.safetensors"))
    assert 0.5 * quantiser.size < weights < quantiser.size + 20_000
