"""`install.sh verify`, and the files' part of `unabridged verify`: every difference is named, and needs no package."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.packaging.conftest import Keys, Machine

from unabridged.app import verifying
from unabridged.app.commands.common import App
from unabridged.app.commands.verify import verify as command
from unabridged.app.installer import verify
from unabridged.app.installer.comparing import Difference
from unabridged.app.installer.manifest import INSTALLED, MANIFEST, sha256_of, written
from unabridged.app.installer.prefix import OURS

MODEL = "models/small/model.gguf"


@pytest.fixture
def version(tmp_path: Path) -> Path:
    """What an installation consists of, without packages: two files and its papers."""
    folder = tmp_path / "prefix/versions/1.0-abc"
    (folder / "models/small").mkdir(parents=True)
    (folder / "bundle").mkdir()
    (tmp_path / "prefix" / OURS).touch()
    for path in ("one", MODEL):
        (folder / path).write_text(path)
    (folder / "pyvenv.cfg").write_text("include-system-site-packages = false\n")
    (folder / "bundle/bundle.json").write_text(
        '{"id": "1.0-abc", "version": "1.0", "python": "3.11", "flavour": "cpu", "platform": "linux-x86_64",'
        ' "glibc": "2.17", "installed": 1, "driver": "", "launcher": "", "commit": "", "epoch": 0, "models": []}'
    )
    (folder / "bundle" / INSTALLED).write_text(written({path: sha256_of(folder / path) for path in ("one", MODEL)}))
    papers = {name: sha256_of(folder / "bundle" / name) for name in ("bundle.json", INSTALLED)}
    (folder / "bundle" / MANIFEST).write_text(written(papers))
    assert list(verify.compared(folder)) == []
    return folder


def no_manifest(folder: Path) -> str:
    (folder / "bundle" / MANIFEST).unlink()
    return "bundle/MANIFEST: is missing"


def manifest_with_a_note(folder: Path) -> str:
    with (folder / "bundle" / MANIFEST).open("a") as file:
        file.write("# x\n")
    return "bundle/MANIFEST: has a line that is none of a list of hashes: '# x'"


def list_with_a_note(folder: Path) -> str:
    with (folder / "bundle" / INSTALLED).open("ab") as file:
        file.write("# \N{BULLET}\n".encode())
    return "bundle/installed.sha256: has a line"


def facts_damaged(folder: Path) -> str:
    (folder / "bundle/bundle.json").write_text("{")
    return "bundle/bundle.json: cannot be read"


@pytest.mark.parametrize("damage", [no_manifest, manifest_with_a_note, list_with_a_note, facts_damaged])
def test_a_damaged_paper_hides_no_other_difference(damage: Callable[[Path], str], version: Path) -> None:
    said = damage(version)
    (version / "one").write_text("changed")
    (version / "extra").touch()
    found = [f"{one.path}: {one.reason}" for one in verify.compared(version)]
    assert [line for line in found if line.startswith(said)]
    assert [line for line in found if line.startswith("one: has sha256")]
    assert "extra: is a file that the bundle does not have" in found


def test_without_its_list_that_is_said_instead_of_naming_every_file_as_added(version: Path) -> None:
    (version / "bundle" / INSTALLED).unlink()
    found = list(verify.compared(version))
    assert {one.path for one in found} == {"bundle/installed.sha256"}
    assert "none could be compared" in found[-1].reason


def test_an_installation_is_known_by_its_layout_and_an_environment_is_none(version: Path, tmp_path: Path) -> None:
    shutil.rmtree(version / "bundle")
    assert verify.is_version(version)
    (tmp_path / "venv/bin").mkdir(parents=True)
    (tmp_path / "venv/bin/unabridged").touch()
    assert not verify.is_version(tmp_path / "venv")


def test_the_command_names_files_models_and_signature_in_one_run(
    version: Path, tmp_path: Path, keys: Keys, monkeypatch: pytest.MonkeyPatch
) -> None:
    manifest_with_a_note(version)
    (version / "one").write_text("changed")
    app = App(tmp_path / "data")
    broken = app.locations.models / "mine"
    broken.mkdir(parents=True)
    (broken / "manifest.json").write_text("{}  # x")
    monkeypatch.setattr(verifying, "installation", lambda: version)
    done = CliRunner().invoke(command, ["--signers", str(keys.allowed)], obj=app, standalone_mode=False)
    assert done.return_value == 1
    for said in ("one: has sha256", "bundle/MANIFEST: has a line", f"{broken}: ", "signature: ", "3 differences"):
        assert said in done.stderr, done.stderr


def test_a_damaged_model_does_not_hide_the_next(tmp_path: Path) -> None:
    registry = App(tmp_path).registry
    for name in ("a", "b"):
        (registry.directory / name).mkdir(parents=True)
        (registry.directory / name / "manifest.json").write_text("no")
    found: list[Difference] = list(verifying.models(registry))
    assert [Path(one.path).name for one in found] == ["a", "b"]


def test_a_command_that_cannot_start_names_the_way_to_the_damaged_files(tmp_path: Path) -> None:
    (tmp_path / "install.sh").touch()
    code = (
        "import sys; sys.prefix = sys.argv[1]; sys.modules['click'] = None;from unabridged.__main__ import main; main()"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=False)
    assert (done.returncode, len(done.stderr.splitlines())) == (1, 1), done.stderr
    assert f"sh {tmp_path}/install.sh verify" in done.stderr


@pytest.mark.packaging
def test_the_installer_verifies_with_the_standard_library_alone(machine: Machine, bundle: Path, keys: Keys) -> None:
    signers = ("--signers", str(keys.allowed))
    assert machine.run(bundle, *signers)[0] == 0
    current = machine.prefix / "current"
    code, out, err = machine.run(current, "verify", *signers)
    assert (code, err, "signed by release@example" in out) == (0, "", True)
    (package,) = current.glob("lib/python3*/site-packages")
    (package / "other.py").write_text("def (")
    (package / "unabridged/__init__.py").write_text("def (")
    (current / MODEL).unlink()
    # Of the installation, and of a fresh archive.
    for place in (current, bundle):
        code, _, err = machine.run(place, "verify", *signers)
        assert (code, "3 differences" in err, "other.py: has sha256" in err) == (11, True, True), err
    lines = [json.loads(line) for line in machine.run(current, "verify", "--json")[1].splitlines()]
    assert (len(lines), lines[-1]["differences"], lines[-1]["signed_by"]) == (4, 3, "")
    (current / "bundle" / MANIFEST).unlink()
    code, _, err = machine.run(current, "verify", *signers)
    assert (code, "MANIFEST: is missing" in err, "signature: " in err, "4 differences" in err) == (11, True, True, True)
    (current / "bundle/bundle.json").unlink()
    assert "bundle.json: is missing" in machine.run(current, "verify")[2]
    # The same bundle mends it, papers too.
    assert machine.run(bundle, *signers)[0] == 0
    assert machine.run(current, "verify", *signers)[0] == 0


@pytest.mark.packaging
def test_a_signature_of_somebody_else_is_said_where_all_files_are_right(
    machine: Machine, bundle: Path, keys: Keys
) -> None:
    assert machine.run(bundle, "--unsigned")[0] == 0
    code, _, err = machine.run(machine.prefix / "current", "verify", "--signers", str(keys.other))
    assert (code, "does not list" in err) == (10, True)
    code, out, err = machine.run(machine.prefix / "current", "verify")
    assert (code, err, "no signature was checked" in out) == (0, "", True)


@pytest.mark.packaging
def test_the_command_falls_back_to_the_installer_where_a_package_is_damaged(machine: Machine, bundle: Path) -> None:
    """The small bundle has no such command, which is the same to the launcher."""
    assert machine.run(bundle, "--unsigned")[0] == 0
    environment = {"HOME": str(machine.folder), "PATH": "/usr/bin:/bin"}
    words = [str(machine.command), "verify"]
    done = subprocess.run(words, capture_output=True, text=True, env=environment, check=False)
    assert (done.returncode, "compared by install.sh" in done.stderr) == (0, True), done.stderr
    (machine.prefix / "current" / MODEL).write_bytes(b"other")
    done = subprocess.run(words, capture_output=True, text=True, env=environment, check=False)
    assert (done.returncode, f"{MODEL}: has sha256" in done.stderr) == (1, True), done.stderr
