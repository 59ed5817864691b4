"""Folders that are followed: what people do in them is in the library soon, and nothing is read twice."""

import asyncio
import signal
import subprocess
import sys
import threading
from collections.abc import Generator, Iterator
from pathlib import Path
from time import monotonic, sleep

import pytest

from unabridged.app.following import follow
from unabridged.app.locations import Locations
from unabridged.app.service import Service
from unabridged.app.settings import IngestSettings, Settings
from unabridged.ingest.adding.add import AddOptions, add
from unabridged.ingest.adding.watch import Batch, Notice, Pauses
from unabridged.ingest.catalog.rows import AddItem, FileDone
from unabridged.ingest.library import Library

_SECONDS = 15.0


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder of notes."""
    folder = tmp_path / "case"
    (folder / "old").mkdir(parents=True)
    for name in ("a", "b", "c"):
        (folder / "old" / f"{name}.txt").write_text(f"Note {name} of the case.")
    return folder


@pytest.fixture
def library(tmp_path: Path, root: Path) -> Iterator[Library]:
    """A library that holds it."""
    with Library.open(tmp_path / "data" / "library.db") as opened:
        list(add(opened, [root], options=AddOptions(jobs=1)))
        yield opened


class _Following:
    """`follow` in a thread; what it said of files, in order."""

    def __init__(self, library: Library) -> None:
        self.said: list[AddItem | Batch | Notice] = []
        self._library = library
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        self.said.extend(follow(self._library, "default", self._look, self._stop, Pauses(settle=0.2, again=0.3)))

    def _look(self, batch: Batch) -> Generator[AddItem, None, None]:
        options = AddOptions(jobs=1, only=batch.only)
        return add(self._library, [batch.folder], batch.collection, options=options)

    def changes(self, count: int) -> dict[str, str]:
        """What became of files, once so many have been told of."""
        end = monotonic() + _SECONDS
        while monotonic() < end:
            done = [one for one in list(self.said) if isinstance(one, FileDone) and one.change != "unchanged"]
            if len(done) >= count:
                return {Path(one.path).name: one.change for one in done}
            sleep(0.02)
        raise AssertionError(f"said only {self.said}")

    def __enter__(self) -> "_Following":
        self._thread.start()
        sleep(0.4)
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(_SECONDS)
        assert not self._thread.is_alive()


def test_a_renamed_folder_is_moved_and_a_new_file_read(library: Library, root: Path) -> None:
    ids = {Path(row.path).name: row.id for row in library.documents()}
    with _Following(library) as following:
        (root / "old").rename(root / "new")
        (root / "d.txt").write_text("Note d of the case.")
        assert following.changes(4) == {"a.txt": "moved", "b.txt": "moved", "c.txt": "moved", "d.txt": "new"}
    rows = {Path(row.path).name: row for row in library.documents()}
    assert {name: rows[name].id for name in ids} == ids
    assert {str(Path(row.path).parent) for name, row in rows.items() if name in ids} == {str(root / "new")}
    assert library.verify() == []


@pytest.mark.thorough
def test_what_is_deleted_leaves_and_a_busy_library_is_waited_for(library: Library, root: Path) -> None:
    with _Following(library) as following:
        with library.lock():
            (root / "old" / "a.txt").unlink()
            sleep(1.0)
        assert following.changes(1) == {"a.txt": "removed"}
    assert len(library.documents()) == 2


@pytest.mark.thorough
def test_a_folder_that_is_emptied_is_said_and_keeps_its_text(library: Library, root: Path) -> None:
    with _Following(library) as following:
        for path in (root / "old").iterdir():
            path.unlink()
        (root / "old").rmdir()
        end = monotonic() + _SECONDS
        while monotonic() < end and not any(isinstance(one, Notice) for one in following.said):
            sleep(0.05)
    assert [one.text for one in following.said if isinstance(one, Notice) and "is empty now" in one.text]
    assert len(library.documents()) == 3


@pytest.mark.thorough
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_the_command(root: Path, tmp_path: Path, number: signal.Signals, code: int) -> None:
    command = [sys.executable, "-m", "unabridged", "--data-dir", str(tmp_path / "d"), "add", str(root), "--watch"]
    # A test may run in the background, where SIGINT is ignored, and what is ignored stays so in a child.
    with subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)
    ) as process:
        assert process.stderr is not None
        while "following 1 folder" not in process.stderr.readline():
            assert process.poll() is None
        sleep(0.5)
        process.send_signal(number)
        assert process.wait(_SECONDS) == code


@pytest.mark.thorough
async def test_a_server_follows_as_the_settings_say(library: Library, root: Path, tmp_path: Path) -> None:
    settings = Settings(ingest=IngestSettings(watch=True))
    service = Service(settings, Locations.below(tmp_path / "data"))
    await service.open()
    try:
        await asyncio.sleep(0.5)
        (root / "late.txt").write_text("A late note about dredging.")
        end = monotonic() + _SECONDS
        while monotonic() < end and not library.search("dredging"):
            await asyncio.sleep(0.1)
        assert library.search("dredging")
    finally:
        await service.close()
