"""The lock file: one holder at a time over all processes, named in the refusal, freed by death."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from unabridged.ingest.errors import LibraryBusy
from unabridged.ingest.lock import Lock

_HOLD = "import sys, pathlib; from unabridged.ingest.lock import Lock; Lock(pathlib.Path(sys.argv[1])).acquire();"


def test_the_second_taker_is_told_who_holds_it(tmp_path: Path) -> None:
    with Lock(tmp_path / "x.lock"), pytest.raises(LibraryBusy, match=f"process {os.getpid()}"):
        Lock(tmp_path / "x.lock").acquire()


def test_it_can_be_taken_again_after_release(tmp_path: Path) -> None:
    with Lock(tmp_path / "x.lock") as lock:
        assert lock.holder() == os.getpid()
    assert lock.holder() is None
    lock.acquire()
    lock.release()


def test_a_killed_holder_frees_it(tmp_path: Path) -> None:
    path = tmp_path / "x.lock"
    command = [sys.executable, "-c", _HOLD + "print('held', flush=True); sys.stdin.read()", str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(LibraryBusy, match=str(holder.pid)):
            Lock(path).acquire()
        holder.kill()
    Lock(path).acquire(wait_seconds=5)
