"""What doctor says of a GPU: the driver's tool is a script here, so that there are cards."""

from importlib.metadata import version
from pathlib import Path

import pytest

from unabridged.app import gpu_found


@pytest.fixture
def card(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A machine with the tool, which prints $CARD."""
    tool = tmp_path / "nvidia-smi"
    tool.write_text('#!/bin/sh\necho "$CARD"\n')
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setenv("CARD", "NVIDIA GeForce RTX 4090, 24564, 23000, 8.9, 570.86")
    return "CARD"


def test_a_machine_without_a_card_is_well_unless_one_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert gpu_found.look("auto") == ("ok", "none: the CPU is used", "")
    level, text, remedy = gpu_found.look("cuda")
    assert (level, remedy) == ("fail", "unabridged config set engine.device auto")
    assert "engine.device is cuda" in text


def test_a_card_and_what_keeps_this_installation_from_it(card: str) -> None:
    level, text, remedy = gpu_found.look("auto")
    assert "RTX 4090, 22.5 of 24.0 GiB free" in text
    if "+cpu" in version("torch"):
        assert (level, remedy) == ("warn", "install torch's CUDA build")
        assert gpu_found.look("cuda")[0] == "fail"
    else:
        assert (level, "8 bits" in text) == ("ok", True)
    assert gpu_found.look("cpu")[0] == "ok"


def test_an_old_card_is_named_with_what_it_lacks(card: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(card, "Tesla T4, 15360, 15000, 7.5, 570.86")
    level, text, _ = gpu_found.look("auto")
    assert (level, "compute capability 7.5" in text) == ("warn", True)


@pytest.mark.parametrize("says", ["", "NVIDIA-SMI has failed", "a, b, c"])
def test_a_tool_that_fails_is_no_card(card: str, says: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(card, says)
    assert gpu_found.look("auto")[1] == "none: the CPU is used"
