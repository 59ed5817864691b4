"""What `rm` says of stored keys and values, and that its commands delete them."""

import os
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from unabridged.app import cli
from unabridged.engine.kv.folder import Folder
from unabridged.engine.kv.format import Header, aligned, file_bytes, write
from unabridged.engine.kv.shelves import Shelf

Run = Callable[..., str]
BYTES = "12.0 KiB"  # of a file


@pytest.fixture
def run(tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs a command that succeeds over a data directory of the test's own, and gives standard error. Two collections
    have the same two documents."""
    monkeypatch.setenv("UNABRIDGED_DATA_DIR", str(tmp_path / "data"))

    def go(*arguments: str) -> str:
        capfd.readouterr()
        code = cli.run(list(arguments))
        error = capfd.readouterr().err
        assert code == 0, error
        return error

    for name in ("one.txt", "two.txt"):
        (tmp_path / name).write_text(f"The text of {name}.\n")
        for collection in ("lease", "my box"):
            go("add", str(tmp_path / name), "-c", collection)
    return go


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path / "data" / "kv", 1 << 30)


def store(folder: Folder, *keys: str) -> None:
    for key in keys:
        header, image = Header(key=key, form="f", tokens=10, size=5000), aligned(file_bytes(5000))
        image[4096:9096] = os.urandom(5000)
        with folder.writing(key, len(image)) as file:
            write(file, header, image)


def shelve(folder: Folder, name: str, *keys: str) -> None:
    folder.shelve(Shelf(name=name, model="m", fingerprint="1", keys=keys, tokens=(10,) * len(keys)))


def left(folder: Folder) -> list[str]:
    return sorted(one.key for one in folder.stored())


def follow(run: Run, said: str) -> None:
    """Do what the line says."""
    for command in said.strip().partition("needed): ")[2].split(" && "):
        program, *arguments = shlex.split(command)
        assert program == "unabridged"
        run(*arguments)


def test_where_nothing_is_stored_rm_says_nothing(run: Run, folder: Folder) -> None:
    assert run("rm", "one.txt", "-c", "lease") == ""
    shelve(folder, "lease", "gone")
    assert run("rm", "two.txt", "-c", "lease") == ""


def test_what_was_filled_is_deleted_and_another_collections_stays(run: Run, folder: Folder) -> None:
    store(folder, "one", "two", "other")
    shelve(folder, "lease", "one", "two")
    shelve(folder, "my box", "other")
    said = run("rm", "one.txt", "-c", "lease")
    assert said.startswith("24.0 KiB of stored keys and values may hold what was removed")
    assert said.endswith(" unabridged store evict -c lease\n")
    follow(run, said)
    assert left(folder) == ["other"]


def test_what_was_read_for_questions_is_deleted(run: Run, folder: Folder) -> None:
    store(folder, "one", "other")
    shelve(folder, "my box", "other")
    said = run("rm", "--all", "--yes", "-c", "lease")
    assert said.startswith(BYTES)
    assert said.endswith(" unabridged store evict --others\n")
    follow(run, said)
    assert left(folder) == ["other"]


def test_of_a_pinned_collection_the_pin_goes_first(run: Run, folder: Folder) -> None:
    store(folder, "one", "loose")
    shelve(folder, "my box", "one")
    run("store", "pin", "-c", "my box")
    said = run("rm", "--all", "--yes", "-c", "my box")
    names = ["store unpin -c 'my box'", "store evict -c 'my box'", "store evict --others"]
    assert said.endswith(": " + " && ".join(f"unabridged {name}" for name in names) + "\n")
    follow(run, said)
    assert left(folder) == []
    assert folder.shelves.all() == []


def test_text_of_two_collections_goes_with_the_last_of_them(run: Run, folder: Folder) -> None:
    store(folder, "one")
    shelve(folder, "lease", "one")
    shelve(folder, "my box", "one")
    follow(run, run("rm", "one.txt", "-c", "lease"))
    assert left(folder) == ["one"]
    follow(run, run("rm", "one.txt", "-c", "my box"))
    assert left(folder) == []


def test_a_store_that_cannot_be_looked_at_is_named(run: Run, tmp_path: Path) -> None:
    (tmp_path / "data" / "kv").mkdir(parents=True, exist_ok=True)
    (tmp_path / "data" / "kv" / "lock").mkdir()
    assert "kv cannot be used: Is a directory" in run("rm", "one.txt", "-c", "lease")
