"""`unabridged plan` and what doctor says of the plan: a card is described, or the driver's tool is a script."""

import json
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.engine.test_plan import LLAMA
from tests.engine.tiny import save_tiny

from unabridged.app import cli, gpu_found
from unabridged.app.assembly import engine_options
from unabridged.app.commands.common import SIZE
from unabridged.app.diagnosis import diagnose
from unabridged.app.locations import Locations
from unabridged.app.planning import plan
from unabridged.app.settings import EngineSettings, Settings
from unabridged.engine.events import AttentionChoice
from unabridged.engine.plan.machine import usable
from unabridged.models.registry import Registry

Run = Callable[..., tuple[int, str]]
MACHINE = ("--vram", "24GiB", "--ram", "96GiB")


@pytest.fixture
def run(locations: Locations, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Run:
    """A command line without a card; exit code and all that it said."""
    monkeypatch.setattr(gpu_found, "found", lambda: None)

    def go(*arguments: str) -> tuple[int, str]:
        code = cli.run(["--data-dir", str(locations.data), "plan", *arguments])
        return code, "".join(capfd.readouterr())

    return go


@pytest.fixture
def llama(tmp_path: Path) -> str:
    """An 8B model of which only the configuration is here."""
    folder = tmp_path / "llama8b"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(LLAMA))
    return str(folder / "config.json")


def card(total: int = 24, capability: tuple[int, ...] = (8, 9)) -> gpu_found.Card:
    return gpu_found.Card("NVIDIA GeForce RTX 4090", total << 30, (total - 1) << 30, capability, "570")


@pytest.mark.parametrize(
    ("text", "size"),
    [("24GiB", 24 << 30), ("24G", 24 << 30), ("24GB", 24 * 10**9), ("512 MiB", 512 << 20), ("1.5gib", 3 << 29)],
)
def test_sizes_have_units(text: str, size: int) -> None:
    assert SIZE.convert(text, None, None) == size


@pytest.mark.parametrize("text", ["24", "GiB", "24GiBs", "-1GiB", "1e3G"])
def test_what_is_no_size_is_refused_by_name(run: Run, llama: str, text: str) -> None:
    code, said = run(llama, f"--vram={text}")
    assert code == cli.USAGE
    assert "is no size, write 24GiB" in said


def test_a_configuration_alone_is_planned_for_a_described_machine(run: Run, llama: str) -> None:
    code, said = run(llama, *MACHINE, "--context", "1000000", "--index", "--slots", "1")
    assert code == 0
    assert "1,000,000 tokens in host memory (float8_e4m3fn), 1 answer at a time" in said
    assert "steps of one answer" in said
    assert "RTX 4090: about" in said
    assert "estimates, from measurements" in said
    code, said = run(llama, *MACHINE, "--context", "1000000", "--index", "--slots", "1", "--json")
    found = json.loads(said)
    assert (found["model"], found["place"], found["tokens"], found["slots"]) == ("llama8b", "host", 1_000_000, 1)
    assert sum(found["gpu"].values()) == found["gpu_total"] <= found["gpu_may_take"] == 24 << 30
    assert found["host"] == 1_000_000 * 65536 <= found["host_may_take"] == usable(96 << 30)
    assert {one["card"] for one in found["speeds"]} == {"H200", "RTX 4090"}


def test_the_settings_and_the_options_say_how(run: Run, llama: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNABRIDGED_ENGINE_SLOTS", "2")
    monkeypatch.setenv("UNABRIDGED_ENGINE_CONTEXT_TOKENS", "64000")
    found = json.loads(run(llama, *MACHINE, "--json")[1])
    assert (found["place"], found["tokens"], found["slots"], found["kv"]) == ("gpu", 64_000, 2, "float8_e4m3fn")
    found = json.loads(run(llama, *MACHINE, "--place", "host", "--kv", "bfloat16", "--json")[1])
    assert (found["place"], found["kv"], found["host"]) == ("host", "bfloat16", 64_000 * 131072)


def test_attention_that_says_nothing_sensible_keeps_no_engine_from_starting(locations: Locations) -> None:
    engine = EngineSettings(refresh="fast", overrides=("k=1024",))
    chosen = engine_options(Settings(engine=engine), locations).attention
    assert (chosen.refresh, chosen.overrides) == ("fast", {"k": 1024})
    engine = EngineSettings(overrides=("k",))
    assert engine_options(Settings(engine=engine), locations).attention == AttentionChoice()


def test_what_does_not_fit_exits_1_with_what_would(run: Run, llama: str) -> None:
    code, said = run(llama, "--vram", "24GiB", "--ram", "32GiB", "--context", "1000000")
    assert code == cli.FAILED
    assert said.startswith("unabridged: error: 1,000,000 tokens of llama8b need 61.0 GiB of host memory")
    assert "would fit:" in said


def test_without_a_card_one_must_be_described(run: Run, llama: str) -> None:
    code, said = run(llama)
    assert code == cli.NO_ENGINE
    assert "--vram 24GiB" in said


def test_installed_models_are_planned_by_name_with_their_own_index(
    run: Run, locations: Locations, tmp_path: Path
) -> None:
    folder = save_tiny(tmp_path / "tiny", 512, dim=64, layers=2, heads=2, kv_heads=1)
    model = Registry(locations.models).add(folder, "mine")
    found = json.loads(run("mine", *MACHINE, "--json")[1])
    assert (found["model"], "index" in found["gpu"]) == ("mine", False)
    model.calibration.write_bytes(b"measured")
    found = json.loads(run("mine", *MACHINE, "--json")[1])
    assert (found["attention"], "index" in found["gpu"]) == ("8k-index", True)


@pytest.mark.parametrize("name", ["other", "./other", ""])
def test_a_model_that_is_missing_exits_3(run: Run, name: str) -> None:
    code, said = run(*([name] if name else []), *MACHINE)
    assert code == cli.NO_ENGINE
    assert said.startswith("unabridged: error: no model ")


@pytest.mark.parametrize(
    ("setting", "value", "expected"),
    [
        ("PRESET", "nonsense", 'attention preset "nonsense" is unknown (known: auto, 3k'),
        ("PRESET", "3k-index", "index"),
        ("OVERRIDES", "k", "setting engine.overrides has 'k' (write name=value"),
        ("OVERRIDES", "nonsense=3", 'attention override "nonsense" is unknown (known: '),
        ("OVERRIDES", "stream=255", "attention stream = 255 (a multiple of 16 on a GPU)"),
    ],
)
def test_attention_that_questions_would_be_refused_for_is_not_planned(
    run: Run, llama: str, monkeypatch: pytest.MonkeyPatch, setting: str, value: str, expected: str
) -> None:
    monkeypatch.setenv(f"UNABRIDGED_ENGINE_{setting}", value)
    code, said = run(llama, *MACHINE)
    assert code == cli.FAILED
    assert said.startswith("unabridged: error: ")
    assert (expected in said, said.count("\n")) == (True, 1)


def test_a_folder_that_lies_here_is_planned_where_no_model_has_its_name(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = save_tiny(tmp_path / "tiny", 512, dim=64, layers=2, heads=2, kv_heads=1)
    monkeypatch.chdir(tmp_path)
    assert json.loads(run("tiny", *MACHINE, "--json")[1])["model"] == "tiny"
    monkeypatch.chdir(folder)
    assert "no model tiny" in run("tiny", *MACHINE)[1]


def test_a_card_that_is_here_counts_with_what_is_free(
    llama: str, locations: Locations, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu_found, "found", card)
    options = engine_options(Settings(), locations)
    found = plan(Path(llama), "llama8b", options)
    assert (found.machine.vram, found.machine.card) == (23 << 30, "NVIDIA GeForce RTX 4090")
    assert [one.card for one in found.speeds] == ["RTX 4090"]
    monkeypatch.setattr(gpu_found, "found", lambda: card(capability=(8, 6)))
    assert plan(Path(llama), "llama8b", options).subject.kind == "bfloat16"


def test_doctor_says_what_the_plan_says(locations: Locations, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def findings() -> list[tuple[str, str]]:
        return [(one.level, one.text) for one in diagnose(locations) if one.check == "plan"]

    Registry(locations.models).add(save_tiny(tmp_path / "tiny", 512, dim=64, layers=2, heads=2, kv_heads=1), "mine")
    locations.config_file.write_text('[model]\nname = "mine"\n')
    monkeypatch.setattr(gpu_found, "found", lambda: None)
    assert findings() == []
    monkeypatch.setattr(gpu_found, "found", card)
    monkeypatch.setattr(gpu_found, "missing_parts", list)
    ((level, text),) = findings()
    assert (level, "tokens in GPU memory" in text) == ("ok", True)
    locations.config_file.write_text('[model]\nname = "mine"\n[engine]\nvram_mib = 300\n')
    ((level, text),) = findings()
    assert level == "warn"
    assert "of GPU memory, 300 MiB may be taken: the CPU is used" in text


def test_the_torch_that_is_here_is_named_where_it_lacks_the_gpu() -> None:
    if "+cpu" in version("torch"):
        assert "computes on the CPU only" in gpu_found.missing_parts()[0][0]


@pytest.mark.parametrize("command", ["serve", "ask", "chat", "plan"])
def test_a_limit_is_an_option_of_whatever_starts_an_engine(command: str) -> None:
    assert "--vram SIZE" in CliRunner().invoke(cli.cli, [command, "--help"]).output
