"""Following folders: what changes is said once it rests, whatever happens to the folder, and nothing else is."""

import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep

import pytest

from unabridged.ingest.adding.ignores import Rules
from unabridged.ingest.adding.mounts import kind_of
from unabridged.ingest.adding.notifier import Notifier, WatchesUsedUp
from unabridged.ingest.adding.watch import Batch, Folder, Notice, Pauses, Watch

_SECONDS = 10.0
_QUICK = Pauses(settle=0.1, every=0.2, sweep=60.0, again=0.1)


class Follower:
    """A watch that runs in a thread, and what it said."""

    def __init__(self, watch: Watch, stop: threading.Event) -> None:
        self.said: list[Batch | Notice] = []
        self._stop = stop
        self._thread = threading.Thread(target=lambda: self.said.extend(watch.batches()))
        self._watch = watch

    def wait_for(self, wanted: Callable[[Batch | Notice], bool]) -> Batch | Notice:
        """The first thing said that is wanted."""
        end = monotonic() + _SECONDS
        while monotonic() < end:
            found = next((one for one in list(self.said) if wanted(one)), None)
            if found is not None:
                return found
            sleep(0.02)
        raise AssertionError(f"said only {self.said}")

    def __enter__(self) -> "Follower":
        self._thread.start()
        sleep(0.3)
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(_SECONDS)


@contextmanager
def _following(root: Path, rules: Rules | None = None, pauses: Pauses = _QUICK) -> Iterator[Follower]:
    stop = threading.Event()
    folders = [Folder("default", str(root), rules or Rules())]
    with Follower(Watch(lambda: folders, stop, own=root / "own", pauses=pauses), stop) as follower:
        yield follower


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder."""
    folder = tmp_path / "case"
    (folder / "sub").mkdir(parents=True)
    (folder / "own").mkdir()
    (folder / "a.txt").write_text("one")
    return folder


def _names(path: Path) -> Callable[[Batch | Notice], bool]:
    return lambda one: isinstance(one, Batch) and one.only is not None and str(path) in one.only


def test_files_that_come_change_move_and_go_are_said(root: Path) -> None:
    with _following(root) as follower:
        (root / "sub" / "new.txt").write_text("two")
        follower.wait_for(_names(root / "sub" / "new.txt"))
        (root / "a.txt").rename(root / "sub" / "b.txt")
        found = follower.wait_for(_names(root / "a.txt"))
        assert isinstance(found, Batch)
        assert found.only is not None
        assert str(root / "sub" / "b.txt") in found.only
        (root / "sub" / "new.txt").unlink()
        follower.said.clear()
        follower.wait_for(_names(root / "sub" / "new.txt"))


@pytest.mark.thorough
def test_a_folder_that_is_moved_in_is_said_whole(root: Path, tmp_path: Path) -> None:
    shutil.copytree(root, tmp_path / "other" / "deep")
    with _following(root) as follower:
        (tmp_path / "other").rename(root / "moved")
        follower.wait_for(_names(root / "moved"))
        (root / "moved" / "deep" / "late.txt").write_text("late")
        follower.wait_for(_names(root / "moved" / "deep" / "late.txt"))


@pytest.mark.thorough
def test_what_is_hidden_or_our_own_is_not_said_and_what_is_written_waits(root: Path) -> None:
    with _following(root, pauses=Pauses(settle=0.6, every=60.0, sweep=60.0)) as follower:
        (root / ".git").mkdir()
        (root / ".git" / "x").write_text("x")
        (root / "own" / "library.db").write_text("x")
        began = monotonic()
        for _ in range(10):
            (root / "slow.txt").open("a").close()
            (root / "slow.txt").write_text(f"{monotonic()}")
            sleep(0.1)
        assert follower.said == []
        found = follower.wait_for(lambda one: isinstance(one, Batch))
        assert monotonic() - began > 1.0
        assert isinstance(found, Batch)
        assert found.only == frozenset({str(root / "slow.txt")})


def test_a_changed_ignore_file_has_all_looked_at(root: Path) -> None:
    with _following(root) as follower:
        (root / ".unabridgedignore").write_text("*.log\n")
        follower.wait_for(lambda one: isinstance(one, Batch) and one.only is None)


@pytest.mark.thorough
def test_a_folder_that_goes_is_followed_again_when_it_is_back(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unabridged.ingest.adding.watch._FOLDERS_SECONDS", 0.1)
    with _following(root) as follower:
        root.rename(root.with_name("away"))
        follower.wait_for(lambda one: isinstance(one, Notice) and "is gone" in one.text)
        follower.said.clear()
        root.with_name("away").rename(root)
        follower.wait_for(lambda one: isinstance(one, Batch) and one.only is None)
        (root / "again.txt").write_text("again")
        follower.wait_for(_names(root / "again.txt"))


def test_where_nothing_is_told_all_is_looked_at_now_and_then(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unabridged.ingest.adding.watch.untold", lambda path: "nfs4")
    with _following(root) as follower:
        follower.wait_for(lambda one: isinstance(one, Notice) and "nfs4" in one.text)
        follower.wait_for(lambda one: isinstance(one, Batch) and one.only is None)


def test_watches_that_are_used_up_are_said_and_done_without(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Notifier, folders: object) -> None:
        raise WatchesUsedUp("no more")

    monkeypatch.setattr(Notifier, "follow", refuse)
    with _following(root) as follower:
        follower.wait_for(lambda one: isinstance(one, Notice) and "no more" in one.text)
        follower.wait_for(lambda one: isinstance(one, Batch) and one.only is None)


def test_a_batch_that_could_not_be_dealt_with_is_said_again(root: Path) -> None:
    stop = threading.Event()
    folders = [Folder("default", str(root), Rules())]
    watch = Watch(lambda: folders, stop, own=root / "own", pauses=_QUICK)
    watch.again(Batch("default", str(root), frozenset({str(root / "a.txt")})))
    with Follower(watch, stop) as follower:
        follower.wait_for(_names(root / "a.txt"))


@pytest.mark.parametrize(
    ("folder", "kind"),
    [
        ("/home/me/case", ""),
        ("/mnt/share/case", "cifs"),
        ("/mnt/share", "cifs"),
        ("/mnt/shared", ""),
        ("/mnt", "cifs"),
        ("/media/my disk/x", "fuse.sshfs"),
    ],
)
def test_mounts_that_tell_nothing_are_known(folder: str, kind: str) -> None:
    lines = [
        "22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw",
        "30 22 0:40 / /mnt/share rw,relatime shared:9 - cifs //server/share rw",
        "31 22 0:41 / /media/my\\040disk rw - fuse.sshfs host:/ rw",
        "a line of another kind",
    ]
    assert kind_of(folder, lines) == kind
