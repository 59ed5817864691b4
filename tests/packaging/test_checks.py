"""What the installer finds of a machine."""

import os
import shutil
import sysconfig
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.packaging.made import PYTHON

from unabridged.app.installer import checks
from unabridged.app.installer.codes import DISK, GPU, PERMISSION, SYSTEM
from unabridged.app.installer.codes import PYTHON as WRONG_PYTHON
from unabridged.app.installer.manifest import Facts


def facts(**changes: Any) -> Facts:
    usual: dict[str, Any] = {
        "id": "x",
        "version": "1",
        "python": PYTHON,
        "flavour": "cpu",
        "platform": "linux-x86_64",
        "glibc": "2.17",
        "installed": 1000,
        "driver": "",
        "launcher": "",
        "commit": "",
        "epoch": 0,
        "models": (),
    }
    return Facts(**(usual | changes))


def missing(prefix: Path, **changes: Any) -> dict[str, checks.Found]:
    return {one.what: one for one in checks.look(facts(**changes), prefix) if not one.good and one.code}


def test_a_machine_that_has_all_is_good(tmp_path: Path) -> None:
    assert missing(tmp_path / "new" / "prefix") == {}


@pytest.mark.parametrize(
    ("changes", "what", "code", "said"),
    [
        ({"python": "3.9"}, "python", WRONG_PYTHON, "Python 3.9"),
        ({"platform": "linux-aarch64"}, "system", SYSTEM, "linux-aarch64"),
        ({"glibc": "2.99"}, "C library", SYSTEM, "glibc 2.99"),
        ({"installed": 1 << 60}, "disk", DISK, "free some space"),
    ],
)
def test_what_is_missing_is_named_with_the_way_out(
    changes: dict[str, Any], what: str, code: int, said: str, tmp_path: Path
) -> None:
    (found,) = missing(tmp_path, **changes).values()
    assert (found.what, found.code) == (what, code)
    assert said in found.remedy


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert missing(tmp_path)["folder"].code == PERMISSION


class Card(NamedTuple):
    driver: str
    compiler: bool
    headers: bool


@pytest.mark.parametrize(
    ("card", "changes", "wanted"),
    [
        (Card("", False, False), {}, set()),
        (Card("580.95.05", True, True), {}, set()),
        (Card("535.10", True, True), {}, {"GPU"}),
        (Card("580.95.05", False, False), {}, {"compiler", "headers"}),
        (Card("580.95.05", False, False), {"launcher": "2.17"}, set()),
        (Card("580.95.05", False, True), {"launcher": "2.99"}, {"compiler"}),
    ],
)
def test_a_card_needs_its_driver_and_a_compiler_unless_the_launcher_is_carried(
    card: Card, changes: dict[str, Any], wanted: set[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checks, "_driver", lambda: card.driver)
    monkeypatch.setattr(shutil, "which", lambda name: "/usr/bin/gcc" if card.compiler and name == "gcc" else None)
    monkeypatch.delenv("CC", raising=False)
    (tmp_path / "Python.h").touch()
    include = str(tmp_path if card.headers else tmp_path / "none")
    monkeypatch.setattr(sysconfig, "get_paths", lambda: {"include": include})
    found = missing(tmp_path, flavour="cuda", driver="580.65.06", **changes)
    assert found.keys() == wanted
    assert {one.code for one in found.values()} <= {GPU}
