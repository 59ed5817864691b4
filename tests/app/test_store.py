"""`unabridged store`, without an engine: what is listed, kept, checked and deleted, and the exit codes."""

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from unabridged.app import cli
from unabridged.app.output import duration, size
from unabridged.engine.kv.folder import Folder
from unabridged.engine.kv.format import Header, aligned, file_bytes, write
from unabridged.engine.kv.shelves import Shelf

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    """Two collections that share a file, one of them read by two models, and a file of nobody's."""
    made = Folder(tmp_path / "data" / "kv", 1 << 30)
    for key in ("a", "b", "both", "old", "loose"):
        header, image = Header(key=key, form="f", tokens=10, size=5000), aligned(file_bytes(5000))
        image[4096:9096] = os.urandom(5000)
        with made.writing(key, len(image)) as file:
            write(file, header, image)
    made.shelve(Shelf(name="lease", model="small", fingerprint="1", keys=("a", "both", "missing"), tokens=(10, 10, 10)))
    made.shelve(Shelf(name="lease", model="large", fingerprint="2", keys=("old",), tokens=(10,)))
    made.shelve(Shelf(name="box", model="small", fingerprint="1", keys=("b", "both"), tokens=(10, 10)))
    return made


def left(folder: Folder) -> list[str]:
    return sorted(one.key for one in folder.stored())


def test_what_is_stored_is_listed_by_collection_and_model(run: Run, folder: Folder) -> None:
    run("store", "pin", "-c", "box")
    code, out, error = run("store")
    assert code == 0
    assert [line.split() for line in out.splitlines()] == [
        ["20", "20", "24.0", "KiB", "pinned", "small", "box"],
        ["10", "10", "12.0", "KiB", "-", "large", "lease"],
        ["20", "30", "24.0", "KiB", "-", "small", "lease"],
        ["-", "-", "12.0", "KiB", "-", "-", "(read", "for", "questions,", "or", "of", "an", "older", "state)"],
    ]
    assert error.startswith("60.0 KiB of 16.0 GiB used, 24.0 KiB of it pinned; the disk has ")
    *rows, others, room = (json.loads(line) for line in run("store", "--json")[1].splitlines())
    assert rows[2] == {
        "collection": "lease",
        "model": "small",
        "stored": 20,
        "tokens": 30,
        "bytes": 24576,
        "pinned": False,
    }
    assert others == {"others": 1, "bytes": 12288}
    assert (room["used"], room["pinned"]) == (5 * 12288, 2 * 12288)


def test_nothing_stored_is_no_failure(run: Run) -> None:
    assert run("store")[:2] == (0, "")
    assert run("store", "verify")[0] == 0
    assert run("store", "evict", "--all")[0] == 0


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("-c", "lease"), ["b", "both", "loose"]),
        (("-c", "lease", "--model", "large"), ["a", "b", "both", "loose"]),
        (("--others",), ["a", "b", "both", "old"]),
        (("--all",), []),
    ],
)
def test_evicting(run: Run, folder: Folder, arguments: tuple[str, ...], expected: list[str]) -> None:
    code, out, _ = run("store", "evict", "--json", *arguments)
    assert code == 0
    assert json.loads(out) == {"bytes": (5 - len(expected)) * 12288}
    assert left(folder) == expected


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("evict", "-c", "leese"), "nothing of leese is stored (what is: unabridged store)"),
        (("evict", "-c", "lease", "--model", "big"), "nothing of lease, as big reads it, is stored"),
        (("pin", "-c", "leese"), "no collection named 'leese' (there is: default)"),
        (("fill", "--pin", "-c", "leese"), "no collection named 'leese' (there is: default)"),
        (("unpin", "-c", "leese"), "leese was not pinned"),
    ],
)
def test_a_name_that_nothing_has_is_one_line(run: Run, folder: Folder, arguments: tuple[str, ...], said: str) -> None:
    code, out, error = run("store", *arguments)
    assert (code, out, error.count("\n")) == (cli.FAILED, "", 1)
    assert said in error
    assert len(left(folder)) == 5
    assert folder.shelves.pinned() == set()


@pytest.fixture
def read_only(folder: Folder) -> Iterator[Folder]:
    """The folder, with a damaged file, as it is on a disk that is mounted to be read."""
    folder.file("loose").write_bytes(b"")
    path = str(folder.path)
    commands = [["mount", "--bind", path, path], ["mount", "-o", "remount,ro,bind", path]]
    if os.geteuid() or any(subprocess.run(command, capture_output=True).returncode for command in commands):
        pytest.skip("mounting needs root and the right to mount")
    yield folder
    subprocess.run(["umount", path], check=True)


def test_a_store_that_may_only_be_read_is_listed_and_checked(run: Run, read_only: Folder) -> None:
    code, out, error = run("store")
    assert (code, len(out.splitlines())) == (0, 4)
    assert error.endswith("kv may only be read: nothing is stored there, and nothing deleted\n")
    assert run("store", "verify")[:2] == (cli.FAILED, "damaged  loose: it ends early\n")
    writing = (("pin", "-c", "lease"), ("evict", "--all"), ("evict", "-c", "box"), ("verify", "--remove", "--json"))
    for arguments in writing:
        code, out, error = run("store", *arguments)
        assert (code, out) == (cli.FAILED, "")
        assert error == (
            f"unabridged: error: the KV store {read_only.path} cannot be written: Read-only file system (allow this "
            "user to write there)\n"
        )
    assert len(left(read_only)) == 5


def test_a_pinned_collection_is_evicted_by_no_command(run: Run, folder: Folder) -> None:
    run("store", "pin", "-c", "lease")
    assert run("store", "evict", "-c", "lease")[0] == cli.FAILED
    run("store", "evict", "-c", "box")
    assert left(folder) == ["a", "both", "loose", "old"]
    run("store", "evict", "--all")
    assert left(folder) == ["a", "both", "old"]
    assert [shelf.name for shelf in folder.shelves.all()] == ["lease", "lease"]
    assert run("store", "unpin", "-c", "lease")[0] == 0
    assert run("store", "unpin", "-c", "lease")[0] == cli.FAILED
    run("store", "evict", "-c", "lease")
    assert left(folder) == []


@pytest.mark.parametrize("arguments", [(), ("--all", "--others"), ("--all", "-c", "x"), ("--all", "--model", "m")])
def test_what_to_evict_must_be_said(run: Run, folder: Folder, arguments: tuple[str, ...]) -> None:
    assert run("store", "evict", *arguments)[0] == cli.USAGE
    assert len(left(folder)) == 5


def test_damage_is_found_and_removed(run: Run, folder: Folder) -> None:
    assert run("store", "verify") == (0, "", "5 files, all whole\n")
    data = bytearray(folder.file("a").read_bytes())
    data[8000] ^= 1
    folder.file("a").write_bytes(data)
    folder.file("b").write_bytes(b"")
    code, out, error = run("store", "verify")
    assert code == cli.FAILED
    assert sorted(out.splitlines()) == ["damaged  a: its checksum is wrong", "damaged  b: it ends early"]
    assert error == "5 files, 2 damaged: unabridged store verify --remove\n"
    code, out, _ = run("store", "verify", "--remove", "--json")
    assert code == 0
    assert {json.loads(line)["key"]: json.loads(line)["removed"] for line in out.splitlines()} == {"a": True, "b": True}
    assert left(folder) == ["both", "loose", "old"]


def test_a_pin_may_come_before_what_it_keeps_and_is_listed(run: Run) -> None:
    code, _, error = run("store", "pin")
    assert (code, error) == (
        0,
        "default is pinned: nothing of it is stored yet; read it with: unabridged store fill -c default\n",
    )
    assert run("store")[1].split() == ["0", "0", "0", "B", "pinned", "-", "default"]


def test_what_is_no_file_of_the_store_is_left_alone(run: Run, folder: Folder) -> None:
    before = run("store")[:2]
    for name in ("x.kv", "x.new", "x.shelf", "x.pin"):
        (folder.path / name).mkdir()
    shelf = Shelf(name="harmed", model="m", fingerprint="3", keys=("a", "b"), tokens=(10, 10))
    harmed = msgspec.json.encode(shelf).replace(b"[10,10]", b"[10]")
    (folder.path / "harmed.shelf").write_bytes(harmed)
    assert run("store")[:2] == before
    assert run("store", "verify", "--remove") == (0, "", "5 files, all whole\n")
    assert run("store", "evict", "--all")[0] == 0
    assert left(folder) == []
    assert (folder.path / "x.kv").is_dir()


def test_filling_needs_a_model(run: Run) -> None:
    code, _, error = run("store", "fill", "--quiet")
    assert code == cli.NO_ENGINE
    assert "no model smollm2-135m in" in error


def test_sizes_and_durations_for_people() -> None:
    assert [size(n) for n in (0, 1023, 1536, 5 << 20, 1 << 34)] == ["0 B", "1023 B", "1.5 KiB", "5.0 MiB", "16.0 GiB"]
    assert [duration(n) for n in (0.2, 89, 600, 7260)] == ["0 s", "89 s", "10 min", "2 h 1 min"]
