"""`models quantize`: what is installed or written, what is said, and that an interrupted command goes on."""

import json
import os
import re
import resource
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from benchmarks.byte_tokenizer import save_tokenizer
from tests.models.families import CASES, reference, save

from unabridged.app import cli
from unabridged.models.load import load_model
from unabridged.models.quantise import run as running
from unabridged.models.quantise import work
from unabridged.models.quantise.recipe import quantise
from unabridged.models.registry import Registry

Run = Callable[..., tuple[int, str, str]]
SHAPE = {"hidden_size": 64, "intermediate_size": 96, "head_dim": 16, "num_attention_heads": 4, "num_hidden_layers": 2}
PROSE = " ".join(f"The {number}th ferry left the old harbour before the market closed." for number in range(200))


@pytest.fixture
def run(tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs a command over a data directory of the test's own: (exit code, standard output, standard error)."""
    monkeypatch.setenv("UNABRIDGED_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setattr("unabridged.app.quantising.TOKENS", 32)

    def go(*arguments: str) -> tuple[int, str, str]:
        capfd.readouterr()
        code = cli.run(["models", "quantize", *arguments])
        out, error = capfd.readouterr()
        return code, out, error

    return go


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A checkpoint whose widths suit groups of 32."""
    return save(reference(CASES["llama"], **SHAPE), tmp_path / "mine")


@pytest.fixture
def prose(tmp_path: Path) -> Path:
    """Text to measure with."""
    file = tmp_path / "prose.txt"
    file.write_text(PROSE)
    return file


@pytest.fixture
def registry(tmp_path: Path) -> Registry:
    """The installed models."""
    return Registry(tmp_path / "data" / "models")


def test_the_result_is_installed_and_nothing_else_stays(
    run: Run, source: Path, prose: Path, registry: Registry
) -> None:
    code, out, error = run(str(source), "--text", str(prose))
    assert (code, out) == (0, "")
    lines = error.splitlines()
    assert lines[0].startswith("groups of 32 weights")
    assert lines[1] == "reading 8 pieces of 32 tokens on cpu"
    assert [line.partition(",")[0] for line in lines[2:5]] == [f"layer {done} of 2" for done in range(3)]
    assert lines[5].startswith("installed mine-awq in ")
    model = registry.get("mine-awq")
    assert registry.verify("mine-awq") == []
    assert model.manifest.source == f"{source}, quantised"
    assert load_model(model.path).config.layers == 2
    assert list((registry.directory / ".quantised").iterdir()) == []
    code, _, error = run(str(source), "--text", str(prose))
    assert code == cli.FAILED
    assert error.startswith("unabridged: error: a model mine-awq is already installed")


def test_a_folder_is_written_and_installed_only_by_name(
    run: Run, source: Path, prose: Path, registry: Registry, tmp_path: Path
) -> None:
    assert run(str(source), "--text", str(prose), "--output", str(tmp_path / "first"))[0] == 0
    assert registry.list() == []
    assert run(str(source), "--text", str(prose), "--output", str(tmp_path / "second"), "--name", "small")[0] == 0
    assert [model.name for model in registry.list()] == ["small"]
    for name in ("model-00001-of-00003.safetensors", "config.json"):
        assert (tmp_path / "first" / name).read_bytes() == (tmp_path / "second" / name).read_bytes()
    code, _, error = run(str(source), "--output", str(tmp_path / "first"))
    assert code == cli.FAILED
    assert f"{tmp_path / 'first'} is there already" in error


def test_an_interrupted_command_is_listed_and_goes_on(
    run: Run,
    source: Path,
    prose: Path,
    registry: Registry,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls = 0

    def interrupted(*arguments: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise KeyboardInterrupt
        return quantise(*arguments)

    monkeypatch.setattr(running, "quantise", interrupted)
    code, _, error = run(str(source), "--text", str(prose))
    assert code == cli.INTERRUPTED
    assert "finished layers are kept: the same command goes on with them" in error
    left = Path(f"{registry.directory}/.quantised/.mine-awq.quantising")
    capfd.readouterr()
    assert cli.run(["models", "list"]) == 0
    listed = capfd.readouterr()[1]
    assert listed.startswith("no models")
    assert re.search(r"mine-awq is not fully quantised, \d+\.\d KB \(finish it with the same", listed)
    assert f"or: rm -r {left})" in listed
    code, _, error = run(str(source), "--text", str(prose))
    assert code == 0
    assert "layer 1 of 2" in error
    assert "layer 0 of 2" not in error
    assert registry.get("mine-awq").window == 512


def test_an_interrupted_installation_goes_on(
    run: Run, source: Path, prose: Path, registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: Any) -> Any:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("unabridged.models.registry.link_hashed", interrupted)
        code, _, error = run(str(source), "--text", str(prose))
    assert code == cli.INTERRUPTED
    assert "the same command goes on with them" in error
    assert registry.list() == []
    code, _, error = run(str(source), "--text", str(prose))
    assert code == 0
    assert "layer 2 of 2" in error
    assert "layer 1 of 2" not in error
    assert registry.verify("mine-awq") == []
    assert list((registry.directory / ".quantised").iterdir()) == []


def test_a_file_that_may_not_be_so_large_is_named(run: Run, source: Path, prose: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, before[1]))
    try:
        code, _, error = run(str(source), "--text", str(prose))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert code == cli.FAILED
    assert "mine-awq.quantising/model/model-00001-of-00003.safetensors.new: File too large (a limit (ulimit" in error


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
@pytest.mark.parametrize("closed", ["", "config.json", "model.safetensors"])
def test_a_source_that_cannot_be_read_is_named(run: Run, source: Path, prose: Path, closed: str) -> None:
    (source / closed).chmod(0)
    code, _, error = run(str(source), "--text", str(prose))
    (source / closed).chmod(0o700)
    named = source / closed
    assert (code, error) == (cli.FAILED, f"unabridged: error: {named} cannot be read (check its permissions)\n")


def test_an_output_where_nothing_may_be_made_is_named(run: Run, source: Path, prose: Path) -> None:
    code, _, error = run(str(source), "--text", str(prose), "--output", "/sys/none")
    assert code == cli.FAILED
    assert error.splitlines()[-1].startswith("unabridged: error: /sys/.none.quantising: ")
    assert "--data-dir" not in error


@pytest.mark.parametrize("output", [False, True])
def test_another_command_that_ends_first_costs_nothing(
    run: Run,
    source: Path,
    prose: Path,
    registry: Registry,
    tmp_path: Path,
    output: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    arguments = [str(source), "--text", str(prose), *(["--output", str(tmp_path / "out")] if output else [])]
    lock, codes, layers = work._lock, list[int](), list[Any]()

    def late(*held: Any) -> None:
        monkeypatch.setattr(work, "_lock", lock)
        codes.append(run(*arguments)[0])
        lock(*held)

    def counted(*inputs: Any) -> Any:
        layers.append(inputs)
        return quantise(*inputs)

    monkeypatch.setattr(work, "_lock", late)
    monkeypatch.setattr(running, "quantise", counted)
    code, _, error = run(*arguments)
    assert (codes, code, len(layers)) == ([0], cli.FAILED, 2)
    assert ("out is there already" if output else "a model mine-awq is already installed") in error
    assert not list(tmp_path.rglob("*.quantising"))


def test_a_source_whose_result_could_not_be_installed_is_refused_first(
    run: Run, source: Path, prose: Path, registry: Registry
) -> None:
    save_tokenizer(source, vocabulary=400)
    code, _, error = run(str(source), "--text", str(prose))
    assert code == cli.FAILED
    assert error.startswith("unabridged: error: the tokenizer's ids reach 399, the model knows 259 tokens")
    assert not (registry.directory / ".quantised").exists()


def test_a_first_token_that_the_model_does_not_know_is_left_out(run: Run, source: Path, prose: Path) -> None:
    config = json.loads((source / "config.json").read_text())
    (source / "config.json").write_text(json.dumps({**config, "bos_token_id": 10**30}))
    assert run(str(source), "--text", str(prose))[0] == 0


def test_any_folder_name_makes_a_model_name(run: Run, source: Path, prose: Path, registry: Registry) -> None:
    odd = source.rename(source.with_name("my ü model"))
    assert run(str(odd), "--text", str(prose))[0] == 0
    assert [model.name for model in registry.list()] == ["my-model-awq"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["none"], "no model none in"),
        (["{source}/none"], "no model at {source}/none"),
        (["{source}", "--text", "{blank}"], "no text in {blank}"),
        (["{source}", "--text", "{prose}", "--collection", "default"], "exclude each other"),
        (["{source}", "--text", "{short}"], "characters of text are too few"),
        (["{source}", "--collection", "none"], "none"),
        (["{source}", "--text", "{prose}", "--device", "cuda"], "no CUDA device"),
        (["{source}", "--text", "{prose}", "--output", "{source}/out"], "{source}/out lies in the source {source}"),
        (["{source}", "--text", "{prose}", "--output", "{models}/x/out"], "{models}/x/out lies among the installed"),
        (["{source}", "--text", "{prose}", "--output", "{link}/out"], "{link}/out lies in the source {source}"),
    ],
)
def test_what_cannot_be_done_is_one_line(
    run: Run,
    source: Path,
    prose: Path,
    tmp_path: Path,
    arguments: list[str],
    said: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    short = tmp_path / "short.txt"
    short.write_text("A line.")
    blank = tmp_path / "blank.txt"
    blank.write_text(" \n" * 20_000)
    link = tmp_path / "link"
    link.symlink_to(source)
    models = tmp_path / "data" / "models"
    files = {"models": models, "link": link, "source": source, "prose": prose, "short": short, "blank": blank}
    code, _, error = run(*(one.format(**files) for one in arguments))
    assert code in (cli.FAILED, cli.USAGE)
    assert said.format(**files) in error
    assert error.count("\n") == 1
