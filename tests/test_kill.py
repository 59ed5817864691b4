"""`kill -9` at random moments: the library stays whole and the next command works.

UNABRIDGED_KILL_ROUNDS sets the number of rounds (default 9: three of each kind).
"""

import contextlib
import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

ROUNDS = int(os.environ.get("UNABRIDGED_KILL_ROUNDS", "9"))
PAPERS = Path(__file__).resolve().parent.parent / "packaging" / "demo" / "papers"
QUESTION = "In which lane did the Great Fire of London begin?"

pytestmark = [pytest.mark.slow, pytest.mark.timeout(60 * ROUNDS + 120)]


class Home:
    """A data directory with a folder of papers, and the command run on it."""

    def __init__(self, data: Path, papers: Path) -> None:
        self.data = data
        self.papers = papers

    def start(self, *arguments: str) -> "subprocess.Popen[str]":
        """The command in a process group of its own."""
        return subprocess.Popen(
            [sys.executable, "-m", "unabridged", "--data-dir", str(self.data), *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def run(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        """The command to its end."""
        process = self.start(*arguments)
        out, err = process.communicate(timeout=300)
        return subprocess.CompletedProcess(arguments, process.returncode, out, err)

    def assert_whole(self) -> None:
        """The database is sound, a second `add` completes it, a question is answered with a citation."""
        with sqlite3.connect(self.data / "library.db") as database:
            assert database.execute("pragma integrity_check").fetchone() == ("ok",)
        added = self.run("add", str(self.papers))
        assert added.returncode == 0, added.stderr
        listed = [json.loads(line) for line in self.run("ls", "--json").stdout.splitlines()]
        files = [row for row in listed if row["parent"] is None]
        assert sorted(Path(row["path"]).name for row in files) == sorted(path.name for path in self.papers.iterdir())
        assert {row["status"] for row in listed} == {"read"}

    def assert_answers(self) -> None:
        """The main job still works."""
        asked = self.run("ask", "--json", QUESTION)
        assert asked.returncode == 0, asked.stderr
        assert json.loads(asked.stdout)["citations"]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, smollm2: Path) -> Iterator[Home]:
    root = tmp_path_factory.mktemp("kill")
    shutil.copytree(PAPERS, root / "papers")
    (root / "data" / "models").mkdir(parents=True)
    shutil.copytree(smollm2, root / "data" / "models" / smollm2.name)
    yield Home(root / "data", root / "papers")
    leftovers = processes_of(root / "data")
    for pid in leftovers:
        os.kill(pid, signal.SIGKILL)
    assert not leftovers, "a killed command left processes behind"


def processes_of(data: Path) -> list[int]:
    """Processes whose command line names the data directory."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                if str(data) in (entry / "cmdline").read_bytes().decode(errors="replace"):
                    found.append(int(entry.name))
            except OSError:
                continue  # it ended between the listing and the look
    return found


def children_of(pid: int) -> list[int]:
    """All processes below `pid`."""
    try:
        direct = [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []
    return direct + [grandchild for child in direct for grandchild in children_of(child)]


def kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):  # it was quicker
        os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("round_", range((ROUNDS + 2) // 3))
def test_adding_killed(home: Home, round_: int) -> None:
    moment = random.Random(round_)
    process = home.start("add", "--force", str(home.papers))
    time.sleep(moment.uniform(0.05, 2.5))
    below = children_of(process.pid)
    kill(moment.choice(below) if below and moment.random() < 0.5 else process.pid)
    process.communicate(timeout=300)
    home.run("add", "--force", str(home.papers))
    home.assert_whole()


@pytest.mark.parametrize("round_", range((ROUNDS + 1) // 3))
def test_server_killed_while_asked(home: Home, round_: int) -> None:
    home.assert_whole()
    moment = random.Random(1000 + round_)
    server = home.start("serve", "--port", "0")
    deadline = time.monotonic() + 60
    while not list(home.data.rglob("server.json")) and time.monotonic() < deadline:
        time.sleep(0.05)
    asked = home.start("ask", QUESTION)
    time.sleep(moment.uniform(0.2, 5.0))
    kill(server.pid)
    _, err = asked.communicate(timeout=300)
    server.communicate(timeout=120)
    assert asked.returncode in (0, 1, 3)
    assert asked.returncode == 0 or "error:" in err
    home.assert_whole()
    home.assert_answers()


@pytest.mark.parametrize("round_", range(ROUNDS // 3))
def test_engine_killed_while_asked(home: Home, round_: int) -> None:
    home.assert_whole()
    moment = random.Random(2000 + round_)
    server = home.start("serve", "--port", "0")
    asked = None
    try:
        deadline = time.monotonic() + 60
        while not list(home.data.rglob("server.json")) and time.monotonic() < deadline:
            time.sleep(0.05)
        asked = home.start("ask", QUESTION)
        time.sleep(moment.uniform(0.2, 5.0))
        for pid in children_of(server.pid):
            kill(pid)
        _, err = asked.communicate(timeout=300)
        assert asked.returncode in (0, 1, 3)
        assert asked.returncode == 0 or "error:" in err
        assert server.poll() is None, "the server died with its engine"
        home.assert_answers()
    finally:
        server.terminate()
        server.communicate(timeout=120)
    assert not processes_of(home.data)
