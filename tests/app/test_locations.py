"""Places on disk."""

import stat
from pathlib import Path

import pytest

from unabridged.app.locations import Locations


def test_a_data_dir_holds_everything(tmp_path: Path) -> None:
    found = Locations.find(tmp_path, {"UNABRIDGED_DATA_DIR": "/elsewhere"})
    places = [
        found.config_file,
        found.library,
        found.models,
        found.kv,
        found.conversations,
        found.server_file,
        found.log,
    ]
    assert all(place.is_relative_to(tmp_path) for place in [*places, found.server_lock])


def test_the_environment_names_the_data_dir(tmp_path: Path) -> None:
    assert Locations.find(None, {"UNABRIDGED_DATA_DIR": str(tmp_path)}) == Locations.below(tmp_path)


def test_the_platform_has_its_own_places(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    found = Locations.find(None, {})
    assert found.library == tmp_path / "data" / "unabridged" / "library.db"
    assert found.config_file == tmp_path / "config" / "unabridged" / "config.toml"
    assert found.runtime.is_relative_to(tmp_path / "state")


def test_folders_are_private(tmp_path: Path) -> None:
    found = Locations.below(tmp_path / "new")
    assert not found.data.exists()
    found.create()
    assert all(stat.S_IMODE(folder.stat().st_mode) == 0o700 for folder in (found.data, found.runtime, found.kv))
