"""The whole way: a CPU bundle, twice the same bytes; installed without a network by a bare Python; the demo there."""

import hashlib
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.packaging import inside
from tests.packaging.conftest import Keys
from tests.packaging.made import ROOT

pytestmark = [pytest.mark.packaging, pytest.mark.timeout(3600)]
# The interpreter that the environment of the tests was made from: no package of it reaches what is installed.
BARE = Path(sys.base_prefix) / "bin" / f"python{sys.version_info[0]}.{sys.version_info[1]}"
LOOPBACK = (
    "import fcntl, socket, struct; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM);"
    " fcntl.ioctl(s, 0x8914, struct.pack('16sh22x', b'lo', 0x41))"
)
# Calls that make, change or delete what has a name.
_CHANGES = re.compile(
    r"\b(?:open(?:at)?\((?:AT_FDCWD, )?(?P<opened>\"(?:[^\"\\]|\\.)*\"), [^)]*(?:O_WRONLY|O_RDWR|O_CREAT)"
    r"|(?:mkdir|unlink|rmdir|rename|symlink|link|truncate|chmod)(?:at2?)?\((?:AT_FDCWD, )?"
    r"(?P<changed>\"(?:[^\"\\]|\\.)*\"))"
    r".*= (?!-1)"
)
_CONNECT = re.compile(
    r"\b(?:connect|sendto)\(.*(?:sin_addr=inet_addr\(\"(?P<four>[^\"]+)\"\)|inet_pton\(AF_INET6, \"(?P<six>[^\"]+)\")"
)


@dataclass(frozen=True)
class Installed:
    """An installation in an empty home folder."""

    home: Path
    command: Path
    said: str

    def environment(self) -> dict[str, str]:
        runtime = self.home / "run"
        runtime.mkdir(mode=0o700, exist_ok=True)
        return {"HOME": str(self.home), "PATH": "/usr/bin:/bin", "XDG_RUNTIME_DIR": str(runtime), "LANG": "C.UTF-8"}


@pytest.fixture(scope="session")
def archives(tmp_path_factory: pytest.TempPathFactory, keys: Keys) -> list[Path]:
    """The same bundle, built twice."""
    made = []
    # The sources of this checkout, wherever the environment's own were installed from.
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    for name in ("one", "two"):
        out = tmp_path_factory.mktemp(name)
        words = [
            sys.executable,
            "-m",
            "unabridged",
            "--data-dir",
            str(ROOT / ".cache"),
            "bundle",
            "--source",
            str(ROOT),
        ]
        subprocess.run([*words, "--sign", str(keys.private), "--out", str(out)], cwd=ROOT, env=environment, check=True)
        made.append(out)
    return made


@pytest.fixture(scope="session")
def installed(archives: list[Path], keys: Keys, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """The first of them, installed in a namespace without any route."""
    (archive,) = archives[0].glob("*.tar")
    home, unpacked = tmp_path_factory.mktemp("home"), tmp_path_factory.mktemp("unpacked")
    (home / "allowed_signers").write_bytes(keys.allowed.read_bytes())
    subprocess.run(["tar", "-xf", archive, "-C", unpacked], check=True)
    (bundle,) = unpacked.iterdir()
    words = ["sh", str(bundle / "install.sh"), "--signers", str(keys.allowed), "--python", str(BARE)]
    done = alone(words, Installed(home, home, "").environment())
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
    return Installed(home, home / ".local/bin/unabridged", done.stdout)


def alone(words: list[str], environment: dict[str, str]) -> "subprocess.CompletedProcess[str]":
    """Run in a network namespace that has loopback and no route."""
    command = ["unshare", "--map-root-user", "--net", "sh", "-c", f'"{BARE}" -c "$0" && exec "$@"', LOOPBACK, *words]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def test_two_builds_are_the_same_bytes(archives: list[Path]) -> None:
    files = [sorted(path.name for path in folder.iterdir()) for folder in archives]
    assert files[0] == files[1]
    assert [name.rpartition(".")[2] for name in files[0]] == ["tar", "sig"]
    for name in files[0]:
        sums = [hashlib.sha256((folder / name).read_bytes()).hexdigest() for folder in archives]
        assert sums[0] == sums[1], name


def test_the_demo_runs_where_there_is_no_network(installed: Installed) -> None:
    """The transcript of this is in docs/airgap.md."""
    words = [sys.executable, inside.__file__, str(installed.command), str(installed.home)]
    done = alone(words, installed.environment())
    print(done.stdout)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr
    assert "none of them beyond this machine" in done.stdout


def test_a_question_writes_only_where_it_may_and_reaches_nobody(installed: Installed, tmp_path: Path) -> None:
    if shutil.which("strace") is None:
        pytest.skip("needs strace")
    environment = installed.environment()
    papers = installed.command.resolve().parents[1] / "share/demo/papers/reading-room-rules.txt"
    subprocess.run([installed.command, "add", papers], env=environment, check=True)
    trace = tmp_path / "trace"
    strace = ["strace", "-f", "-qq", "-s", "400", "-o", str(trace), "-e", "trace=%network,%file"]
    subprocess.run(
        [*strace, installed.command, "ask", "How much does a scan of a map cost?"], env=environment, check=True
    )
    lines = trace.read_text("utf-8", errors="replace").splitlines()
    reached = {found["four"] or found["six"] for line in lines if (found := _CONNECT.search(line))}
    assert reached <= {"127.0.0.1", "::1"}
    assert reached
    home = str(installed.home)
    allowed = [f"{home}/{folder}/unabridged" for folder in (".local/share", ".local/state", ".cache", ".config", "run")]
    changed = {(found["opened"] or found["changed"]).strip('"') for line in lines if (found := _CHANGES.search(line))}
    outside = [path for path in changed if not path.startswith((*allowed, "/dev/"))]
    assert sorted(path for path in outside if not any(one.startswith(f"{path}/") for one in allowed)) == []
    assert any(path.startswith(allowed[0]) for path in changed)


def test_a_changed_file_is_named_by_verify_and_mended_by_the_installer(installed: Installed) -> None:
    version = installed.command.resolve().parents[1]
    (victim,) = version.glob("lib/python3*/site-packages/unabridged/app/quotes.py")
    content = victim.read_bytes()
    victim.write_bytes(content.replace(b"def ", b"def  ", 1))
    (version / "lib/evil.pth").write_text("import os")
    try:
        done = subprocess.run(
            [installed.command, "verify"], env=installed.environment(), capture_output=True, text=True, check=False
        )
    finally:
        victim.write_bytes(content)
        (version / "lib/evil.pth").unlink()
    assert done.returncode == 1
    assert "unabridged/app/quotes.py: has sha256" in done.stderr
    assert "lib/evil.pth: is a file that the bundle does not have" in done.stderr
    assert "2 differences" in done.stderr


def test_a_package_that_is_no_python_any_more_is_named_by_verify(installed: Installed) -> None:
    version = installed.command.resolve().parents[1]
    (victim,) = version.glob("lib/python3*/site-packages/click/core.py")
    content = victim.read_bytes()
    victim.write_bytes(b"def (\n" + content)
    try:
        for words, said in (("verify", "click/core.py: has sha256"), ("doctor", "install.sh verify` names")):
            done = subprocess.run(
                [installed.command, words], env=installed.environment(), capture_output=True, text=True, check=False
            )
            assert (done.returncode, said in done.stderr) == (1, True), done.stderr
            assert "Traceback" not in done.stderr
    finally:
        victim.write_bytes(content)


def test_a_missing_manifest_is_named_and_hides_nothing(installed: Installed) -> None:
    version = installed.command.resolve().parents[1]
    manifest = (version / "bundle/MANIFEST").rename(version.parent / "MANIFEST")
    (model,) = version.glob("models/*/manifest.json")
    content = model.read_bytes()
    model.write_bytes(content + b"# x\n")
    (version / "lib/evil.pth").write_text("import os")
    try:
        done = subprocess.run(
            [installed.command, "verify"], env=installed.environment(), capture_output=True, text=True, check=False
        )
    finally:
        manifest.rename(version / "bundle/MANIFEST")
        model.write_bytes(content)
        (version / "lib/evil.pth").unlink()
    assert done.returncode == 1
    for said in ("bundle/MANIFEST: is missing", "manifest.json: has sha256", "lib/evil.pth: ", "3 differences"):
        assert said in done.stderr, done.stderr


def test_completions_and_the_manual_work_as_installed(installed: Installed) -> None:
    environment = {**os.environ, **installed.environment()}
    environment |= {"_UNABRIDGED_COMPLETE": "bash_complete", "COMP_WORDS": "unabridged mod", "COMP_CWORD": "1"}
    done = subprocess.run([installed.command], env=environment, capture_output=True, text=True, check=True)
    assert "models" in done.stdout
