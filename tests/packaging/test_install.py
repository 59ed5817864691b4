"""The installer: install, upgrade, roll back, uninstall, and again."""

import shutil
import subprocess
from pathlib import Path

import pytest
from tests.packaging import made
from tests.packaging.conftest import Keys, Machine

from unabridged.app.installer.comparing import differences
from unabridged.app.installer.main import main
from unabridged.app.installer.manifest import INSTALLED, read

pytestmark = pytest.mark.packaging


def version(machine: Machine) -> Path:
    return machine.prefix / (machine.prefix / "current").readlink()


def test_what_is_installed_runs_and_is_what_the_list_says(machine: Machine, bundle: Path, keys: Keys) -> None:
    code, out, err = machine.run(bundle, "--signers", str(keys.allowed))
    assert (code, err) == (0, "")
    assert "signed by release@example" in out
    assert machine.answer() == "unabridged 1.0"
    folder = version(machine)
    assert list(differences(folder, read(folder / "bundle" / INSTALLED))) == []
    # Of a wheel's scripts nothing stays: their first lines would name another folder.
    assert sorted(path.name for path in (folder / "bin").iterdir() if "python" not in path.name) == ["unabridged"]
    assert (folder / "share/man/man1/other.1").is_file()
    unit = (machine.folder / "base/share/systemd/user/unabridged.service").read_text()
    assert f"ExecStart={machine.command} serve" in unit
    for link in ("share/man/man1/unabridged.1", "share/bash-completion/completions/unabridged"):
        assert (machine.folder / "base" / link).is_file()


def test_the_unit_names_a_command_below_a_folder_with_a_space(tmp_path: Path, bundle: Path) -> None:
    machine = Machine(tmp_path / "Jo Doe 100%")
    assert machine.run(bundle, "--unsigned")[0] == 0
    assert machine.answer() == "unabridged 1.0"
    unit = (machine.folder / "base/share/systemd/user/unabridged.service").read_text()
    assert f'ExecStart="{tmp_path}/Jo Doe 100%%/base/bin/unabridged" serve' in unit


def test_running_it_leaves_no_trace_among_the_installed_files(machine: Machine, bundle: Path) -> None:
    machine.run(bundle, "--unsigned")
    machine.answer()
    folder = version(machine)
    assert list(folder.rglob("*.pyc")) == []
    assert list((machine.folder / ".cache/unabridged/bytecode").rglob("*.pyc"))


def test_each_user_gets_his_copy_of_tritons_cache_with_his_paths(machine: Machine, tmp_path: Path) -> None:
    """The launcher alone: no package is needed for that."""
    version = tmp_path / "versions" / "1"
    entry = version / "triton" / "KEY"
    entry.mkdir(parents=True)
    (entry / "__grp__k.json").write_text('{"child_paths": {"k": "@CACHE@/KEY/k"}}')
    (version / "triton.id").write_text("abc\n")
    (version / "bin").mkdir()
    (version / "bin/unabridged").write_bytes((made.ROOT / "packaging/share/launcher.sh").read_bytes())
    (version / "bin/python").write_text('#!/bin/sh\necho "$TRITON_CACHE_DIR"\n')
    for file in ("unabridged", "python"):
        (version / "bin" / file).chmod(0o755)
    home = tmp_path / "a home & more"
    home.mkdir()
    for _ in range(2):
        done = subprocess.run(
            [version / "bin/unabridged"],
            env={"HOME": str(home), "PATH": "/usr/bin:/bin"},
            capture_output=True,
            text=True,
        )
        assert (done.returncode, done.stderr) == (0, "")
        cache = Path(done.stdout.strip())
        assert cache == home / ".cache/unabridged/triton/abc"
        assert (cache / "KEY/__grp__k.json").read_text() == f'{{"child_paths": {{"k": "{cache}/KEY/k"}}}}'
    assert [path.name for path in cache.parent.iterdir()] == ["abc"]


def test_a_second_run_changes_nothing(machine: Machine, bundle: Path) -> None:
    machine.run(bundle, "--unsigned")
    before = {path: path.lstat().st_mtime_ns for path in version(machine).rglob("*")}
    code, out, _ = machine.run(bundle, "--unsigned")
    assert (code, "is installed already" in out) == (0, True)
    assert {path: path.lstat().st_mtime_ns for path in version(machine).rglob("*")} == before


def test_a_damaged_installation_is_made_anew_by_the_same_bundle(machine: Machine, bundle: Path) -> None:
    machine.run(bundle, "--unsigned")
    (version(machine) / "models/small/model.gguf").write_bytes(b"weighty")
    assert machine.run(bundle, "--unsigned")[0] == 0
    assert (version(machine) / "models/small/model.gguf").read_bytes() == b"weights"
    assert machine.leftovers() == []


def test_upgrade_roll_back_upgrade_and_uninstall(machine: Machine, bundle: Path, pip: Path, tmp_path: Path) -> None:
    newer = made.bundle(tmp_path / "two", pip, "2.0")
    newest = made.bundle(tmp_path / "three", pip, "3.0")
    for one in (bundle, newer):
        assert machine.run(one, "--unsigned")[0] == 0
    assert machine.answer() == "unabridged 2.0"
    # A model that stays the same takes no second place.
    assert (version(machine) / "models/small/model.gguf").stat().st_nlink == 2
    installed = machine.prefix / "current"
    assert machine.run(installed, "rollback")[0] == 0
    assert machine.answer() == "unabridged 1.0"
    code, _, err = machine.run(installed, "rollback")
    assert (code, "no earlier version" in err) == (21, True)
    assert machine.run(newer, "--unsigned")[0] == 0
    assert machine.answer() == "unabridged 2.0"
    assert machine.run(newest, "--unsigned")[0] == 0
    code, out, _ = machine.run(installed, "status")
    listed = [(line[0], line.split(", Python")[0].split()[-1]) for line in out.splitlines()]
    assert (code, listed) == (0, [(" ", "2.0"), ("*", "3.0")])
    data = machine.folder / ".local/share/unabridged/library.db"
    data.parent.mkdir(parents=True)
    data.write_bytes(b"mine")
    assert machine.run(installed, "uninstall")[0] == 0
    assert not machine.prefix.exists()
    assert [path for path in (machine.folder / "base").rglob("*") if not path.is_dir()] == []
    assert data.read_bytes() == b"mine"
    code, _, err = machine.run(newest, "uninstall")
    assert (code, "nothing is installed" in err) == (21, True)


def test_a_damaged_model_of_the_version_in_use_is_not_carried_over(
    machine: Machine, bundle: Path, pip: Path, tmp_path: Path
) -> None:
    newer = made.bundle(tmp_path / "two", pip, "2.0")
    machine.run(bundle, "--unsigned")
    (version(machine) / "models/small/model.gguf").write_bytes(b"weighty")
    assert machine.run(newer, "--unsigned")[::2] == (0, "")
    assert (version(machine) / "models/small/model.gguf").read_bytes() == b"weights"


@pytest.mark.parametrize("mode", [0o700, 0o777, 0o600])
def test_modes_do_not_follow_how_the_bundle_was_unpacked(
    mode: int, machine: Machine, bundle: Path, tmp_path: Path
) -> None:
    copy = Path(shutil.copytree(bundle, tmp_path / "copy"))
    for file in copy.rglob("*"):
        file.chmod(0o700 if file.is_dir() else mode)
    assert machine.run(copy, "--unsigned")[::2] == (0, "")
    folder = version(machine)
    found = {file.relative_to(folder).as_posix(): file.stat().st_mode & 0o777 for file in folder.rglob("*")}
    files = {path: bits for path, bits in found.items() if (folder / path).is_file() and "python" not in path}
    assert {path for path, bits in files.items() if bits == 0o755} == {"bin/unabridged", "install.sh"}
    assert set(files.values()) == {0o755, 0o644}


@pytest.mark.parametrize(
    ("path", "content", "named"),
    [
        ("pyvenv.cfg", b"include-system-site-packages = true\n", "lets the system's packages in"),
        ("pyvenv.cfg", None, "cannot be read"),
        ("bin/python3", b"#!/bin/sh\n", "is a file that the bundle does not have"),
    ],
)
def test_a_changed_environment_is_a_difference(
    path: str, content: bytes | None, named: str, machine: Machine, bundle: Path
) -> None:
    machine.run(bundle, "--unsigned")
    folder = version(machine)
    (folder / path).unlink()
    if content is not None:
        (folder / path).write_bytes(content)
    found = list(differences(folder, read(folder / "bundle" / INSTALLED)))
    assert [(one.path, named in one.reason) for one in found] == [(path, True)]


def test_uninstalling_leaves_files_of_others_and_says_so(machine: Machine, bundle: Path) -> None:
    machine.run(bundle, "--unsigned")
    (machine.prefix / ".notes").mkdir()
    (machine.prefix / "thesis.txt").write_text("mine")
    code, _, err = machine.run(machine.prefix / "current", "uninstall")
    assert (code, "holds files that are not ours and stays" in err) == (0, True)
    assert sorted(path.name for path in machine.prefix.iterdir()) == [".notes", "thesis.txt"]


def test_without_a_home_folder_the_way_out_is_named(
    bundle: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Path, "home", lambda: Path("~nobody-of-that-name").expanduser())
    assert main(bundle, ["status"]) == 17
    assert "--prefix and --links" in capsys.readouterr().err


def test_options_with_an_equals_sign_and_help_need_no_more(machine: Machine, bundle: Path, keys: Keys) -> None:
    assert machine.run(bundle, f"--signers={keys.allowed}", "--check")[::2] == (0, "")
    code, out, _ = machine.run(bundle, "install", "--help")
    assert (code, "Exit codes" in out) == (0, True)


def test_a_python_that_was_named_and_does_not_run_is_not_replaced(bundle: Path) -> None:
    command = ["sh", str(bundle / "install.sh"), "--unsigned", "--check", "--python", "/nowhere/python"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, "/nowhere/python" in done.stderr) == (12, True)


def test_folders_and_links_that_are_not_ours_are_left_alone(machine: Machine, bundle: Path) -> None:
    machine.prefix.mkdir()
    (machine.prefix / "thesis.txt").write_text("mine")
    for words in (("--unsigned",), ("--unsigned", "--check")):
        code, _, err = machine.run(bundle, *words)
        assert (code, "holds other files" in err) == (21, True)
    (machine.prefix / "thesis.txt").unlink()
    machine.command.parent.mkdir(parents=True)
    machine.command.write_text("mine")
    code, _, err = machine.run(bundle, "--unsigned")
    assert (code, f"{machine.command} is not ours" in err) == (0, True)
    assert machine.run(machine.prefix / "current", "uninstall")[0] == 0
    assert machine.command.read_text() == "mine"


def test_checking_changes_nothing(machine: Machine, bundle: Path) -> None:
    code, out, _ = machine.run(bundle, "--unsigned", "--check")
    assert (code, "nothing was changed" in out) == (0, True)
    assert not machine.prefix.exists()


def test_a_python_of_another_version_is_refused(bundle: Path, tmp_path: Path) -> None:
    other = tmp_path / "python"
    other.write_text("#!/bin/sh\necho 3.9\n")
    other.chmod(0o755)
    words = ["--unsigned", "--python", str(other)]
    done = subprocess.run(["sh", bundle / "install.sh", *words], capture_output=True, text=True, check=False)
    assert done.returncode == 12
    assert f"{other} is Python 3.9, this bundle is for {made.PYTHON}" in done.stderr
