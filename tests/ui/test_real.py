"""The interface against the real server with the real model and a real file."""

import asyncio
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest
from textual.widgets import Static

from unabridged.app import runtime
from unabridged.app.client import Client
from unabridged.app.locations import Locations
from unabridged.ui.screens.page import PageScreen
from unabridged.ui.tui import UnabridgedApp
from unabridged.ui.widgets.chat import Chat
from unabridged.ui.widgets.prompt import Prompt
from unabridged.ui.widgets.status import StatusBar

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

SERVE = """
import sys
from pathlib import Path
from unabridged.app.locations import Locations
from unabridged.app.server import run
from unabridged.app.settings import Settings
run(Settings(), Locations.below(Path(sys.argv[1])), child=True)
"""
LEASE = "Lease of the flat in Lyon.\n\nThe monthly rent is 1,240 euros.\n\nThe deposit is 2,480 euros.\n"


@pytest.fixture
def serving(tmp_path: Path, smollm2: Path) -> Iterator[tuple[subprocess.Popen[bytes], Locations]]:
    """A server process of our own that ends with the test."""
    locations = Locations.below(tmp_path / "data")
    locations.data.mkdir(parents=True)
    locations.models.symlink_to(smollm2.parent)
    command = [sys.executable, "-c", SERVE, str(locations.data)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        yield process, locations
        process.kill()


async def test_a_real_file_is_read_asked_cited_and_the_servers_death_survived(
    serving: tuple[subprocess.Popen[bytes], Locations], tmp_path: Path, wait: Callable[..., Awaitable[None]]
) -> None:
    process, locations = serving
    while (running := runtime.read(locations.server_file)) is None:
        await asyncio.sleep(0.1)
    folder = tmp_path / "case"
    folder.mkdir()
    (folder / "lease.txt").write_text(LEASE, "utf-8")
    async with Client(running.url, running.key) as client:
        app = UnabridgedApp(client, "default", [folder])
        async with app.run_test(size=(100, 30)) as pilot:
            main = app.screen
            await wait(pilot, lambda: str(main.query_one("#counts", Static).content) == "1 document, 1 page", 60)
            main.query_one(Prompt).text = "What is the monthly rent?"
            await pilot.press("enter")
            await wait(pilot, lambda: (newest := main.query_one(Chat).newest) and newest.said, 200)
            newest = main.query_one(Chat).newest
            assert newest is not None
            await wait(pilot, lambda: newest.answer or newest.note.startswith("✗"), 300)
            assert newest.answer is not None, newest.note
            assert newest.answer.citations, newest.answer
            await pilot.press("ctrl+o", "1")
            await wait(pilot, lambda: isinstance(app.screen, PageScreen) and app.screen.page, 20)
            assert "lease.txt" in str(app.screen.query_one("#where", Static).content)
            await pilot.press("escape")
            assert [info.title for info in await client.conversations()]
            process.kill()
            await wait(pilot, lambda: main.query_one(StatusBar).state.fault, 20)
