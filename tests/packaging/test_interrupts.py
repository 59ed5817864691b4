"""An interrupt at every stage, and a full disk: nothing is half installed, and the message names the cause."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.packaging import made
from tests.packaging.conftest import Machine

pytestmark = pytest.mark.packaging
STAGES = (
    "making the environment",
    "installing packages",
    "copying models and files",
    "comparing what was installed",
    "trying it",
    "putting it into use",
)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
@pytest.mark.parametrize("stage", STAGES)
def test_an_interrupt_leaves_the_version_in_use(
    stage: str, number: int, machine: Machine, bundle: Path, pip: Path, tmp_path: Path
) -> None:
    assert machine.run(bundle, "--unsigned")[0] == 0
    newer = made.bundle(tmp_path / "newer", pip, "2.0")
    process = machine.start(newer, "--unsigned")
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith(stage):
            break
    process.send_signal(number)
    _, err = process.communicate(timeout=60)
    if process.returncode == 0:
        # It was over before the signal came, which only the last stages can be.
        assert stage in STAGES[-2:]
        return
    assert machine.answer() in ("unabridged 1.0", "unabridged 2.0")
    if number != signal.SIGKILL:
        assert process.returncode == 128 + number
        assert "the version that was in use still is" in err
        assert machine.leftovers() == []
    code, _, err = machine.run(newer, "--unsigned")
    assert (code, err) == (0, "")
    assert (machine.answer(), machine.leftovers()) == ("unabridged 2.0", [])


def test_killed_at_any_moment_the_command_answers(machine: Machine, bundle: Path, pip: Path, tmp_path: Path) -> None:
    assert machine.run(bundle, "--unsigned")[0] == 0
    newer = made.bundle(tmp_path / "newer", pip, "2.0")
    began = time.monotonic()
    assert machine.run(newer, "--unsigned")[0] == 0
    whole = time.monotonic() - began
    assert machine.run(machine.prefix / "current", "rollback")[0] == 0
    for part in range(1, 6):
        (newest,) = machine.prefix.glob("versions/2.0-*")
        newest.rename(tmp_path / f"gone-{part}")
        process = machine.start(newer, "--unsigned")
        time.sleep(whole * part / 6)
        process.kill()
        process.communicate()
        assert machine.answer() in ("unabridged 1.0", "unabridged 2.0")
        assert machine.run(newer, "--unsigned")[0] == 0
        assert machine.run(machine.prefix / "current", "rollback")[0] == 0


_FULL = """
mount -t tmpfs -o size={size}k none {folder} || exit 97
sh {bundle}/install.sh --unsigned {force} --prefix {folder}/prefix --links {folder}/base --python {python}
code=$?
find {folder}/prefix -mindepth 1 | head
exit $code
"""


@pytest.mark.parametrize(
    ("size", "force", "said"),
    [(1_000, "", "needed"), (3_000, "--force", "no space left"), (30_000, "--force", "no space left")],
)
def test_a_full_disk_is_named(size: int, force: str, said: str, pip: Path, tmp_path: Path) -> None:
    """Before anything is written, while pip writes, and while a model is copied: nothing of it is left."""
    bundle = made.bundle(tmp_path / "made", pip, models={"large": bytes(40 << 20)})
    full = tmp_path / "full"
    full.mkdir()
    script = _FULL.format(size=size, folder=full, bundle=bundle, force=force, python=sys.executable)
    command = ["unshare", "-r", "-m", "sh", "-c", script]
    home = {"HOME": str(full), "PATH": os.environ["PATH"]}
    done = subprocess.run(command, capture_output=True, text=True, env=home, check=False)
    if done.returncode == 97 or "unshare failed" in done.stderr:
        pytest.skip("needs a user namespace")
    assert (done.returncode, said in done.stderr) == (15, True), done.stdout + done.stderr
    assert [line for line in done.stdout.splitlines() if "/versions/" in line] == []
