"""The runtime file and the lock."""

import os
import stat
from pathlib import Path

import pytest

from unabridged.app import runtime
from unabridged.app.errors import ServerBusy

RUNNING = runtime.Running(url="http://127.0.0.1:8642", pid=os.getpid(), key="k", version="1")


def test_the_file_can_be_read_by_its_owner_only(tmp_path: Path) -> None:
    file = tmp_path / "run" / "server.json"
    runtime.write(file, RUNNING)
    runtime.write(file, RUNNING)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert runtime.read(file) == RUNNING
    assert list(file.parent.iterdir()) == [file]


@pytest.mark.parametrize("content", [b"", b"{", b'{"url": "x"}', b"\xff"])
def test_a_file_that_is_cut_short_counts_as_none(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "server.json"
    assert runtime.read(file) is None
    file.write_bytes(content)
    assert runtime.read(file) is None


def test_only_its_own_process_removes_the_file(tmp_path: Path) -> None:
    file = tmp_path / "server.json"
    runtime.write(file, RUNNING)
    runtime.remove(file, RUNNING.pid + 1)
    assert file.exists()
    runtime.remove(file, RUNNING.pid)
    assert not file.exists()
    runtime.remove(file, RUNNING.pid)


def test_the_second_to_take_the_lock_learns_who_holds_it(tmp_path: Path) -> None:
    file = tmp_path / "data" / "server.lock"
    with runtime.ServerLock(file) as lock:
        lock.note("4711 http://127.0.0.1:8642")
        with (
            pytest.raises(ServerBusy, match=r"process 4711, listening at http://127\.0\.0\.1:8642"),
            runtime.ServerLock(file),
        ):
            pass
    with runtime.ServerLock(file):
        pass


def test_a_process_is_alive_or_not() -> None:
    assert runtime.alive(os.getpid())
    assert runtime.alive(1)
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    assert not runtime.alive(child)
