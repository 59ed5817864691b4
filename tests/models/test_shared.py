"""Models for all users: found behind a user's own, never changed."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from unabridged.models.errors import ModelError
from unabridged.models.manifest import InstalledFile, Manifest, write_manifest
from unabridged.models.registry import Registry
from unabridged.models.shared import ENVIRONMENT


def install(directory: Path, name: str, source: str) -> None:
    (directory / name).mkdir(parents=True)
    (directory / name / "model.gguf").write_bytes(b"weights")
    files = (InstalledFile("model.gguf", 7, "0" * 64),)
    manifest = Manifest(
        schema=1,
        name=name,
        format="gguf",
        source=source,
        window=8,
        parameters=1,
        fingerprint="f",
        files=files,
        defaults={},
    )
    write_manifest(directory / name, manifest)


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Registry:
    """Own: mine, both. Shared, in two folders and one that is missing: both, ours; ours, theirs."""
    for folder, names in (("own", ("mine", "both")), ("one", ("both", "ours")), ("two", ("ours", "theirs"))):
        for name in names:
            install(tmp_path / folder, name, folder)
    monkeypatch.setenv(ENVIRONMENT, os.pathsep.join(str(tmp_path / name) for name in ("none", "one", "two")))
    return Registry(tmp_path / "own")


def test_ones_own_come_first_then_the_folders_in_their_order(registry: Registry) -> None:
    found = {model.name: model.manifest.source for model in registry.list()}
    assert found == {"mine": "own", "both": "own", "ours": "one", "theirs": "two"}
    assert registry.get("ours").path.parent.name == "one"


@pytest.mark.parametrize("change", [lambda one: one.remove("ours"), lambda one: one.record("ours", mode="whole")])
def test_shared_ones_are_not_changed(change: Callable[[Registry], object], registry: Registry) -> None:
    before = (registry.get("ours").path / "manifest.json").read_bytes()
    with pytest.raises(ModelError, match="shared by all users") as caught:
        change(registry)
    assert "--name" in caught.value.hint
    assert (registry.get("ours").path / "manifest.json").read_bytes() == before


def test_ones_own_of_the_same_name_can_be_removed_and_the_shared_one_is_there_again(registry: Registry) -> None:
    registry.remove("both")
    assert registry.get("both").manifest.source == "one"
