"""What goes wrong with stored KV while real processes run: each is said, nothing is lost, no wrong KV is used.

The answer to one question over a text of some thousand tokens is known from a run that stores nothing; whatever
happened before, it has to come out again, token by token.
"""

import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

PAPERS = Path(__file__).resolve().parent.parent / "packaging" / "demo" / "papers"
QUESTION = "Which church was the coronation in?"
SEGMENT = 256

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


class Home:
    """A data directory and the command run on it, with sections so short that there are many."""

    def __init__(self, data: Path, **settings: str) -> None:
        self.data, self.kv = data, data / "kv"
        self.environment = {
            **os.environ,
            "UNABRIDGED_ENGINE_SEGMENT_TOKENS": str(SEGMENT),
            "UNABRIDGED_ENGINE_DEVICE": "cpu",
            "UNABRIDGED_ANSWER_MAX_TOKENS": "24",
            "UNABRIDGED_ANSWER_HINTS": "0",
            # As it is asked: what is filled is what such questions read.
            "UNABRIDGED_ANSWER_MODE": "whole",
            **settings,
        }

    def start(self, *arguments: str, wrapper: tuple[str, ...] = ()) -> "subprocess.Popen[str]":
        """The command in a process group of its own."""
        return subprocess.Popen(
            [*wrapper, sys.executable, "-m", "unabridged", "--data-dir", str(self.data), *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            env=self.environment,
        )

    def run(self, *arguments: str, wrapper: tuple[str, ...] = ()) -> "subprocess.CompletedProcess[str]":
        """The command to its end."""
        process = self.start(*arguments, wrapper=wrapper)
        out, err = process.communicate(timeout=600)
        return subprocess.CompletedProcess(arguments, process.returncode, out, err)

    def fill(self) -> list[dict[str, Any]]:
        """`store fill` to its good end: forecast and end."""
        done = self.run("store", "fill", "--json")
        assert done.returncode == 0, done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]

    def ask(self) -> tuple[str, dict[str, Any]]:
        """Answer and receipt."""
        done = self.run("ask", "--json", "--mode", "whole", "--no-history", QUESTION)
        assert done.returncode == 0, done.stderr
        found = json.loads(done.stdout)
        return found["answer"], found["receipt"]

    def assert_whole(self, answer: str) -> None:
        """Reading can be completed; then every file is right, nothing half-written is left and the answer is right."""
        self.fill()
        assert list(self.kv.glob("*.new")) == []
        verified = self.run("store", "verify")
        assert verified.returncode == 0, verified.stdout
        found, receipt = self.ask()
        assert found == answer
        assert receipt["cached"] >= receipt["tokens"]
        assert receipt["notes"] == []


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory, smollm2: Path) -> tuple[Home, str]:
    """A library without stored KV, and the answer."""
    root = tmp_path_factory.mktemp("faults")
    (root / "text").mkdir()
    for paper in (PAPERS / "pepys-coronation-1661.pdf", PAPERS / "survey-notes.md"):
        shutil.copy(paper, root / "text")
    (root / "data" / "models").mkdir(parents=True)
    shutil.copytree(smollm2, root / "data" / "models" / smollm2.name)
    home = Home(root / "data", UNABRIDGED_ENGINE_STORE_MIB="0")
    assert home.run("add", str(root / "text")).returncode == 0
    answer, receipt = home.ask()
    assert receipt["cached"] == 0
    return home, answer


@pytest.fixture
def home(first: tuple[Home, str], tmp_path: Path) -> Iterator[Home]:
    """A copy of the library, where KV is stored."""
    shutil.copytree(first[0].data, tmp_path / "data", symlinks=True)
    yield Home(tmp_path / "data")
    left = processes_of(tmp_path)
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert not left, "processes were left behind"


@pytest.fixture
def answer(first: tuple[Home, str]) -> str:
    return first[1]


def processes_of(data: Path, what: str = "") -> list[int]:
    """Processes whose command line or environment names the data directory, and whose command line has `what`."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with contextlib.suppress(OSError):
                line, environment = ((entry / name).read_bytes() for name in ("cmdline", "environ"))
                if bytes(data) in line + environment and what.encode() in line:
                    found.append(int(entry.name))
    return found


def until(there: Callable[[], Any], process: "subprocess.Popen[str]") -> Any:
    """Wait for something to be true; the process must not end before."""
    while not (found := there()):
        assert process.poll() is None, process.communicate()
        time.sleep(0.002)
    return found


def stored(home: Home) -> int:
    return len(list(home.kv.glob("*.kv")))


@pytest.mark.parametrize("victim", ["unabridged.engine.worker", "serve", "fill"])
def test_killed_while_reading_ahead(home: Home, answer: str, victim: str) -> None:
    filling = home.start("store", "fill", "--json")
    until(lambda: stored(home) >= 4, filling)
    time.sleep(random.Random(victim).uniform(0, 1))
    before = stored(home)
    for pid in processes_of(home.data, victim):
        os.kill(pid, signal.SIGKILL)
    out, err = filling.communicate(timeout=600)
    if victim != "fill":
        # The command itself goes on with another engine, and with another server.
        assert filling.returncode == 0, err
        assert json.loads(out.splitlines()[-1])["tokens"] > 0
    else:
        assert filling.returncode == -signal.SIGKILL
        until_gone(home)
        assert home.fill()[0]["stored"] > before * SEGMENT // 2
    home.assert_whole(answer)


def until_gone(home: Home) -> None:
    deadline = time.monotonic() + 60
    while processes_of(home.data) and time.monotonic() < deadline:
        time.sleep(0.05)


def test_killed_while_a_file_is_written(home: Home, answer: str) -> None:
    filling = home.start("store", "fill")
    until(lambda: stored(home) >= 2 and list(home.kv.glob("*.new")), filling)
    for pid in processes_of(home.data):
        os.kill(pid, signal.SIGKILL)
    filling.communicate(timeout=600)
    until_gone(home)
    home.assert_whole(answer)


def test_killed_while_restoring(home: Home, answer: str) -> None:
    home.fill()
    asking = home.start("ask", "--mode", "whole", QUESTION)

    def reads() -> list[int]:
        return [pid for pid in processes_of(home.data, "unabridged.engine.worker") if has_open(pid, ".kv")]

    os.kill(until(reads, asking)[0], signal.SIGKILL)
    _, err = asking.communicate(timeout=600)
    assert asking.returncode == 3
    assert "error: the engine process died: " in err
    home.assert_whole(answer)


def has_open(pid: int, suffix: str) -> bool:
    with contextlib.suppress(OSError):
        return any(file.readlink().suffix == suffix for file in Path(f"/proc/{pid}/fd").iterdir())
    return False


@pytest.fixture
def small_disk(home: Home) -> Iterator[Callable[[int], None]]:
    """Puts stored KV on a disk of so many MiB."""
    mounted = []

    def mount(mib: int) -> None:
        home.kv.mkdir(exist_ok=True)
        options = ["-t", "tmpfs", "-o", f"size={mib}m", "tmpfs", str(home.kv)]
        if os.geteuid() or subprocess.run(["mount", *options], capture_output=True).returncode:
            pytest.skip("mounting needs root and the right to mount")
        mounted.append(home.kv)

    yield mount
    for place in mounted:
        subprocess.run(["umount", str(place)], check=True)


def test_a_disk_that_is_too_small_is_said_before(home: Home, answer: str, small_disk: Callable[[int], None]) -> None:
    small_disk(24)
    filled = home.run("store", "fill", "--json")
    assert filled.returncode == 4, filled.stderr
    forecast, end = (json.loads(line) for line in filled.stdout.splitlines())
    assert forecast["bytes_room"] < 24 << 20 < forecast["bytes"]
    assert "its KV does not fit" in forecast["left_out"][0]["reason"]
    assert 0 < end["read"] < end["tokens"]
    assert home.run("store", "verify").returncode == 0
    found, receipt = home.ask()
    assert found == answer
    # The question stores the rest, for which what it has loaded goes.
    assert receipt["notes"] == []


def test_a_disk_that_others_fill_meanwhile(home: Home, answer: str, small_disk: Callable[[int], None]) -> None:
    small_disk(200)
    filling = home.start("store", "fill")
    until(lambda: stored(home) >= 3, filling)
    with contextlib.suppress(OSError), (home.kv / "hog").open("wb", buffering=0) as hog:
        while True:
            hog.write(bytes(1 << 20))
    _, err = filling.communicate(timeout=600)
    assert filling.returncode == 1
    assert "error: " in err
    assert "to spare" in err or "No space left on device" in err
    (home.kv / "hog").unlink()
    home.assert_whole(answer)


def test_a_store_that_may_only_be_read(home: Home, answer: str, small_disk: Callable[[int], None]) -> None:
    small_disk(200)
    home.fill()
    max(home.kv.glob("*.kv"), key=lambda path: path.stat().st_mtime_ns).unlink()
    subprocess.run(["mount", "-o", "remount,ro", str(home.kv)], check=True)
    found, receipt = home.ask()
    assert found == answer
    assert receipt["cached"] > 0
    (note,) = receipt["notes"]
    assert note.startswith("what was read is not stored: ")
    assert "Read-only file system" in note
    assert home.run("store").returncode == 0
    assert home.run("store", "verify").returncode == 0


def test_a_flipped_bit(home: Home, answer: str) -> None:
    home.fill()
    harmed = max(home.kv.glob("*.kv"), key=lambda path: path.stat().st_size)
    data = bytearray(harmed.read_bytes())
    data[len(data) // 2] ^= 4
    harmed.write_bytes(data)
    verified = home.run("store", "verify")
    assert verified.returncode == 1
    assert verified.stdout == f"damaged  {harmed.stem}: its checksum is wrong\n"
    found, receipt = home.ask()
    assert found == answer
    assert receipt["notes"] == [f"stored KV {harmed.name} is unusable (its checksum is wrong): read again"]
    home.assert_whole(answer)


def test_two_programs_fill_one_store(home: Home, answer: str, tmp_path: Path) -> None:
    other = Home(tmp_path / "other")
    shutil.copytree(home.data, other.data)
    home.kv.mkdir(exist_ok=True)
    shutil.rmtree(other.kv, ignore_errors=True)
    other.kv.symlink_to(home.kv)
    both = [one.start("store", "fill") for one in (home, other)]
    for process in both:
        _, err = process.communicate(timeout=600)
        assert process.returncode == 0, err
    home.assert_whole(answer)
    assert other.ask()[0] == answer


GROUPS = Path("/sys/fs/cgroup/memory")


@pytest.fixture
def group() -> Iterator[Callable[[int], tuple[str, ...]]]:
    """A command's first words that give it so many MiB of memory."""
    place = GROUPS / f"unabridged-test-{os.getpid()}"
    try:
        place.mkdir()
    except OSError:
        pytest.skip("no right to make a memory group (cgroup v1)")

    def limit(mib: int) -> tuple[str, ...]:
        (place / "memory.limit_in_bytes").write_text(str(mib << 20))
        return ("sh", "-c", f'echo $$ > {place}/cgroup.procs; exec "$@"', "sh")

    yield limit
    deadline = time.monotonic() + 60
    while (place / "cgroup.procs").read_text().strip() and time.monotonic() < deadline:
        time.sleep(0.1)
    place.rmdir()


def test_short_memory_is_said_instead_of_a_killed_process(
    home: Home, answer: str, group: Callable[[int], tuple[str, ...]]
) -> None:
    home.fill()
    home.environment["UNABRIDGED_ENGINE_KV_MEMORY_MIB"] = "4096"
    done = home.run("ask", "--mode", "whole", QUESTION, wrapper=group(1200))
    assert done.returncode == 1, done.stderr
    assert "bytes of KV are needed, the machine has" in done.stderr
    home.assert_whole(answer)
