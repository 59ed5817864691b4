"""The parts of a bundle: lists of hashes, what wheels give, archives that are the same twice, the bill, the manual."""

import hashlib
import json
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from tests.packaging import made

from unabridged.app.bundle import archive, deb, licences, manual, sbom, tree, warm, wheels
from unabridged.app.bundle.errors import BundleFailed
from unabridged.app.bundle.wheelfile import WheelFile
from unabridged.app.installer.comparing import differences
from unabridged.app.installer.manifest import FACTS, Carried, Malformed, read, read_facts, sha256_of, written

SHA = "0" * 64


@pytest.fixture
def parts(tmp_path: Path) -> list[WheelFile]:
    """Three wheels, one of them ours."""
    made.wheel(tmp_path, "unabridged", "1.0", {"unabridged/__init__.py": b""}, ("one>=1", 'two; extra == "x"'))
    made.wheel(tmp_path, "one", "1.2+cpu", {"one.py": b"1"}, ("Two_Three",))
    made.wheel(tmp_path, "two_three", "3", {"two.py": b"2"})
    return [WheelFile(file, sha256_of(file)) for file in sorted(tmp_path.glob("*.whl"))]


# -------------------------------------------------------------------------------------------------------------- lists


def test_a_list_is_read_as_it_was_written_and_as_sha256sum_reads_it(tmp_path: Path) -> None:
    (tmp_path / "with space.txt").write_bytes(b"a")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/b").write_bytes(b"b")
    listed = archive.listed(tmp_path)
    (tmp_path / "LIST").write_text(written(listed))
    assert read(tmp_path / "LIST") == listed
    subprocess.run(["sha256sum", "--check", "--strict", "--quiet", "LIST"], cwd=tmp_path, check=True)


@pytest.mark.parametrize(
    "line",
    [
        f"{SHA}  ../out",
        f"{SHA}  /etc/passwd",
        f"{SHA}  a/../../b",
        f"{SHA}  a//b",
        f"{SHA} *a",
        f"{SHA[:-1]}  a",
        f"{SHA}  a\\nb",
        f"{SHA}  ./a",
        f"{SHA}  a\n{SHA}  a",
        "",
    ],
)
def test_a_list_that_leads_elsewhere_or_is_none_is_refused(line: str, tmp_path: Path) -> None:
    (tmp_path / "LIST").write_text(line + "\n")
    with pytest.raises(Malformed):
        read(tmp_path / "LIST")


def test_every_difference_is_named(tmp_path: Path) -> None:
    for name in ("same", "changed", "linked", "lib/python3.11/site-packages/x-1.dist-info/RECORD"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(name.encode())
    listed = {name: sha256_of(tmp_path / name) for name in ("same", "changed", "linked")} | {"gone": SHA}
    (tmp_path / "changed").write_bytes(b"Changed")
    (tmp_path / "linked").unlink()
    (tmp_path / "linked").symlink_to("same")
    (tmp_path / "pyvenv.cfg").write_text("include-system-site-packages = false\n")
    (tmp_path / "lib/python3.11/site-packages/evil.pth").write_text("import os")
    (tmp_path / "lib/python3.11/site-packages/__pycache__").mkdir()
    (tmp_path / "lib/python3.11/site-packages/__pycache__/x.cpython-311.pyc").write_bytes(b"")
    found = {one.path.rpartition("/")[2]: one.reason for one in differences(tmp_path, listed)}
    assert found.keys() == {"changed", "linked", "gone", "evil.pth", "x.cpython-311.pyc"}
    assert (found["linked"], found["gone"]) == ("is a link, not a file", "is missing")
    assert found["changed"].startswith("has sha256 ")


# ------------------------------------------------------------------------------------------------------------- wheels


def test_what_a_wheel_gives_is_what_its_members_say(tmp_path: Path) -> None:
    files = {"a.py": b"1", "a-1.data/purelib/b.py": b"2", "a-1.data/data/share/c": b"3", "a-1.data/scripts/d": b"4"}
    wheel = WheelFile(made.wheel(tmp_path, "a", "1", files), "")
    paths = {path for path, _, _ in wheel.installed("3.12")}
    packages = "lib/python3.12/site-packages"
    assert {f"{packages}/a.py", f"{packages}/b.py", "share/c", f"{packages}/a-1.dist-info/METADATA"} <= paths
    assert not [path for path in paths if path.endswith(("/d", "RECORD"))]


@pytest.mark.parametrize("member", ["../evil.py", "a-1.data/new/x", "a-1.data/data/../../x"])
def test_a_wheel_that_puts_files_elsewhere_is_refused(member: str, tmp_path: Path) -> None:
    wheel = WheelFile(made.wheel(tmp_path, "a", "1", {member: b""}), "")
    with pytest.raises(BundleFailed, match=r"a-1-py3"):
        list(wheel.installed("3.11"))


@pytest.mark.parametrize(
    ("tags", "oldest"),
    [
        ("manylinux2014_x86_64.manylinux_2_17_x86_64.manylinux_2_28_x86_64", (2, 17)),
        ("manylinux_2_28_x86_64", (2, 28)),
        ("any", (0, 0)),
    ],
)
def test_the_oldest_c_library_of_a_wheel_is_that_of_its_most_modest_tag(tags: str, oldest: tuple[int, int]) -> None:
    assert WheelFile(Path(f"a-1-cp311-cp311-{tags}.whl"), "").glibc == oldest


def test_the_installers_lock_pins_exactly_the_wheels_that_are_there() -> None:
    text = wheels.lock({"two_three-3-py3-none-any.whl": "b" * 64, "one-1.2+cpu-py3-none-any.whl": "a" * 64})
    assert text == f"one==1.2+cpu --hash=sha256:{'a' * 64}\ntwo-three==3 --hash=sha256:{'b' * 64}\n"


# ------------------------------------------------------------------------------------------------- bill and licences


def test_the_bill_of_materials_is_cyclonedx_and_names_every_part(parts: list[WheelFile], tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "model.gguf").write_bytes(b"weights")
    models = [(Carried("small", "f00", 7, "Apache-2.0"), folder)]
    text = sbom.bill(parts, models, 1_700_000_000)
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    bill = json.loads(text)
    assert [part["name"] for part in bill["components"]] == ["one", "two-three", "small"]
    assert bill["metadata"]["component"]["name"] == "unabridged"
    needs = {entry["ref"]: entry["dependsOn"] for entry in bill["dependencies"]}
    assert needs["pkg:pypi/unabridged@1.0"] == ["pkg:pypi/one@1.2%2Bcpu"]
    assert needs["pkg:pypi/one@1.2%2Bcpu"] == ["pkg:pypi/two-three@3"]
    assert bill["components"][0]["hashes"][0]["content"] == parts[0].sha256
    (model,) = bill["components"][2:]
    summed = subprocess.run(["sha256sum", "model.gguf"], cwd=folder, capture_output=True, check=True).stdout
    assert model["hashes"] == [{"alg": "SHA-256", "content": hashlib.sha256(summed).hexdigest()}]
    assert sbom.bill(parts, models, 1_700_000_000) == text


def test_licences_are_collected_and_what_has_none_is_said(parts: list[WheelFile], tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "LICENSE.md").write_text("mine")
    apache = made.ROOT / "LICENSE"
    models = [(Carried("open", "1", 1, "Apache-2.0"), tmp_path / "empty"), (Carried("own", "2", 1, ""), folder)]
    (tmp_path / "empty").mkdir()
    licences.collect(parts, models, apache, tmp_path / "out")
    index = (tmp_path / "out/INDEX.txt").read_text()
    assert "one 1.2+cpu: MIT; 1 text\n" in index
    assert "model open 1: Apache-2.0; 1 text (the text is supplied here" in index
    assert "model own 2: NOT STATED; 1 text\n" in index
    assert (tmp_path / "out/one/licenses/LICENSE").read_text() == "do as you please\n"
    assert (tmp_path / "out/model-open/LICENSE").read_bytes() == apache.read_bytes()


# ----------------------------------------------------------------------------------------------------------- archives


def test_an_archive_is_the_same_whatever_the_files_times_and_modes_are(tmp_path: Path) -> None:
    for number, name in enumerate(("one", "two")):
        folder = tmp_path / name / "bundle"
        folder.mkdir(parents=True)
        for file in ("b", "a") if number else ("a", "b"):
            (folder / file).write_bytes(file.encode())
        (folder / "run").write_bytes(b"#!")
        (folder / "run").chmod(0o755 - number * 0o011)
        archive.pack(folder, tmp_path / f"{name}.tar", 1_700_000_000)
    assert (tmp_path / "one.tar").read_bytes() == (tmp_path / "two.tar").read_bytes()
    with tarfile.open(tmp_path / "one.tar") as opened:
        entries = {entry.name: entry for entry in opened}
    assert list(entries) == ["bundle", "bundle/a", "bundle/b", "bundle/run"]
    assert (entries["bundle/run"].mode, entries["bundle/a"].mode) == (0o755, 0o644)
    assert {entry.mtime for entry in entries.values()} == {1_700_000_000}


def test_a_debian_package_is_what_dpkg_reads(tmp_path: Path) -> None:
    bundle = made.bundle(tmp_path, made.wheel(tmp_path, "pip", "1", {"pip/__init__.py": b""}))
    facts = read_facts(bundle / FACTS)
    (bundle / "files/share/licences/unabridged/licenses").mkdir(parents=True)
    shutil.copy(made.ROOT / "LICENSE", bundle / "files/share/licences/unabridged/licenses/LICENSE")
    files = [tmp_path / deb.name(facts), tmp_path / "again.deb"]
    for file in files:
        deb.write(bundle, facts, file)
    assert files[0].read_bytes() == files[1].read_bytes()
    if shutil.which("dpkg-deb") is None:
        pytest.skip("needs dpkg-deb to read it")
    told = subprocess.run(
        ["dpkg-deb", "--field", files[0], "Version", "Depends"], capture_output=True, text=True, check=True
    )
    assert f"Version: {facts.id.replace('-', '+')}" in told.stdout
    assert f"python{facts.python}" in told.stdout
    subprocess.run(["dpkg-deb", "--extract", files[0], tmp_path / "root"], check=True)
    home = tmp_path / "root/usr/lib/unabridged"
    extra = [one.path for one in differences(home, read(home / "bundle/installed.sha256"))]
    assert extra == ["share/licences/unabridged/licenses/LICENSE"]
    assert (tmp_path / "root/usr/bin/unabridged").resolve() == home / "bin/unabridged"
    assert (home / "bin/unabridged").stat().st_mode & 0o111 == 0o111


# --------------------------------------------------------------------------------------------- manual and completions


def test_the_manual_page_names_every_command_and_man_reads_it() -> None:
    page = manual.page(0)
    for command in ("add", "ask", "bundle", "models quantize", "doctor"):
        assert f".SS unabridged {command}" in page.replace("\\-", "-")
    assert page.startswith('.TH UNABRIDGED 1 "1970-01-01"')
    if shutil.which("groff") is not None:
        done = subprocess.run(
            ["groff", "-man", "-Tutf8", "-ww"], input=page, capture_output=True, text=True, check=True
        )
        assert done.stderr == ""


@pytest.mark.parametrize("shell", manual.SHELLS)
def test_completions_ask_the_command(shell: str) -> None:
    assert "_UNABRIDGED_COMPLETE" in manual.completion(shell)


# ---------------------------------------------------------------------------------------------------------- installer


def test_the_installer_needs_a_bare_python_alone(tmp_path: Path) -> None:
    tree.installer(made.ROOT, tmp_path)
    code = (
        "import sys; sys.path.insert(0, sys.argv.pop(1)); from pathlib import Path;"
        "from unabridged.app.installer.main import main; sys.exit(main(Path('/nothing'), sys.argv[1:]))"
    )
    words = [sys.executable, "-I", "-S", "-B", "-c", code, str(tmp_path / "setup"), "status", "--prefix", str(tmp_path)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.startswith("install.sh: error: nothing is installed in")) == (21, True)


# ------------------------------------------------------------------------------------------------------ Triton's cache


def test_paths_in_a_carried_cache_are_left_to_the_launcher(tmp_path: Path) -> None:
    key = "A" * 52
    entry = tmp_path / "there" / key
    entry.mkdir(parents=True)
    (entry / "k.cubin").write_bytes(b"code")
    (entry / "__grp__k.json").write_text(json.dumps({"child_paths": {"k.cubin": f"/home/x/.triton/{key}/k.cubin"}}))
    (tmp_path / "there" / "lock").write_bytes(b"")
    assert warm.carry(tmp_path / "there", tmp_path / "here") == 1
    assert json.loads((tmp_path / "here" / key / "__grp__k.json").read_text()) == {
        "child_paths": {"k.cubin": f"@CACHE@/{key}/k.cubin"}
    }
    with pytest.raises(BundleFailed, match="no folder of Triton's cache"):
        warm.carry(tmp_path, tmp_path / "other")
