"""What this process may still take: the machine's free memory, and the limits of the groups that it is in."""

from pathlib import Path

import pytest

from unabridged.engine.errors import OutOfMemory
from unabridged.engine.kv import memory

MIB = 1 << 20


def put(folder: Path, limit: tuple[str, str], used: tuple[str, int], files: tuple[str, int]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / limit[0]).write_text(f"{limit[1]}\n")
    (folder / used[0]).write_text(f"{used[1]}\n")
    (folder / "memory.stat").write_text(f"anon 5\n{files[0]} {files[1]}\n")


@pytest.fixture
def groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(memory, "_GROUPS", tmp_path / "groups")
    monkeypatch.setattr(memory, "_OWN", tmp_path / "own")
    monkeypatch.setattr(memory, "_meminfo", lambda: 1000 * MIB)
    return tmp_path


def test_without_limits_the_machine_tells(groups: Path) -> None:
    assert memory.available() == 1000 * MIB
    (groups / "own").write_text("0::/\n")
    put(groups / "groups", ("memory.max", "max"), ("memory.current", 5), ("inactive_file", 0))
    assert memory.available() == 1000 * MIB


def test_the_narrowest_limit_counts_and_files_read_are_as_good_as_free(groups: Path) -> None:
    (groups / "own").write_text("0::/user/engine\n")
    root = groups / "groups"
    put(root / "user", ("memory.max", str(600 * MIB)), ("memory.current", 500 * MIB), ("inactive_file", 300 * MIB))
    put(root / "user/engine", ("memory.max", "max"), ("memory.current", 400 * MIB), ("inactive_file", 0))
    assert memory.available() == 400 * MIB


def test_the_first_version_of_groups_has_other_names(groups: Path) -> None:
    # A container sees its own group at the root, and its path on the host in /proc.
    (groups / "own").write_text("5:cpu:/x\n4:memory,x:/docker/1\n0::/docker/1\n")
    names = ("memory.limit_in_bytes", str(300 * MIB)), ("memory.usage_in_bytes", 250 * MIB), ("total_inactive_file", 0)
    put(groups / "groups" / "memory", *names)
    assert memory.available() == 50 * MIB


def test_what_is_not_free_is_refused_in_one_line(groups: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_meminfo", lambda: memory.RESERVE_BYTES + 102 * MIB)
    memory.require(100 * MIB)
    with pytest.raises(OutOfMemory, match=r"104,857,601 bytes of KV are needed, the machine has 104,857,\d+ free"):
        memory.require(100 * MIB + 1)
    monkeypatch.setattr(memory, "_meminfo", lambda: 0)
    memory.require(0)
