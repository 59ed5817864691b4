"""Reading ahead of questions: what is said, how it gives way to a question, how it outlives an engine."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from unabridged.app import launch
from unabridged.app.commands.common import App
from unabridged.app.commands.reading_ahead import read_ahead
from unabridged.app.events import Forecast, LeftOut, Problem, ReadAhead, ReadAheadEvent, Stage
from unabridged.app.reading_ahead import Ahead, Reach
from unabridged.app.settings import Settings
from unabridged.engine.errors import EngineDied
from unabridged.engine.events import Event, Finished, Outlook, Prefill, Progress, Queued, Segment, Usage

SECTIONS = 6
LENGTH = 100
PREFIX = 20


@dataclass
class Disk:
    """Stands for an engine with its store: reads a section a step and remembers it."""

    device: str = "cpu"
    fits: int = SECTIONS
    dies: list[int] = field(default_factory=list)  # after so many sections of an attempt
    stored: int = 0
    attempts: int = 0
    cancelled: set[str] = field(default_factory=set)
    step: Callable[[], None] = lambda: None

    @property
    def ready(self) -> Any:
        return SimpleNamespace(device=self.device)

    def cancel(self, id: str) -> None:
        self.cancelled.add(id)

    async def submit(self, request: Prefill) -> AsyncGenerator[Event, None]:
        self.attempts += 1
        dies = self.dies.pop(0) if self.dies else None
        total, left = SECTIONS * LENGTH + PREFIX, (self.fits - self.stored) * LENGTH
        yield Queued(id=request.id, ahead=1)
        yield Outlook(
            id=request.id,
            total=total,
            stored=self.stored * LENGTH,
            fits=self.fits * LENGTH + PREFIX,
            missing=left,
            size=total * 10,
            stored_size=self.stored * LENGTH * 10,
            room=self.fits * LENGTH * 10,
            goes=7,
        )
        done = 0
        while done < left and request.id not in self.cancelled:
            if dies == done // LENGTH:
                raise EngineDied("the engine process died: killed", "")
            yield Progress(id=request.id, phase="read", done=done, total=left)
            await asyncio.sleep(0.01)
            done += LENGTH
            self.stored += 1
            self.step()
        reason = "cancelled" if request.id in self.cancelled else "stop"
        yield Progress(id=request.id, phase="read", done=done, total=left)
        yield Finished(id=request.id, reason=reason, usage=Usage(prompt=total, cached=0, completion=0))  # type: ignore[arg-type]


def section(number: int) -> Any:
    document = SimpleNamespace(id=number // 2, path=f"/d{number // 2}")
    return _Section(document, (number, 1, 0), (1,))


@dataclass(frozen=True)
class _Section:
    document: Any
    key: tuple[int, int, int]
    pages: tuple[int, ...]

    def __len__(self) -> int:
        return LENGTH


async def find() -> Reach:
    unread = LeftOut(document="/scan.pdf", pages="all", reason="scanned")
    return Reach("case", tuple(section(number) for number in range(SECTIONS)), (unread,), "composable")


def request(id: str, reach: Reach) -> Prefill:
    return Prefill(id=id, prefix=b"", segments=tuple(Segment(b"") for _ in reach.sections), shelf=reach.collection)


async def read(ahead: Ahead) -> list[ReadAheadEvent]:
    async with aclosing(ahead.read(find, request)) as events:
        return [event async for event in events]


def ahead_of(disk: Disk) -> Ahead:
    return Ahead(disk)  # type: ignore[arg-type]


def texts(events: Sequence[ReadAheadEvent]) -> list[str]:
    return [event.text for event in events if isinstance(event, Stage)]


async def test_it_is_said_what_will_be_done_how_far_it_is_and_what_was_done() -> None:
    events = await read(ahead_of(Disk(stored=2)))
    forecast = next(event for event in events if isinstance(event, Forecast))
    assert (forecast.documents, forecast.tokens, forecast.stored, forecast.missing) == (3, 620, 200, 400)
    assert (forecast.bytes, forecast.bytes_stored, forecast.bytes_dropped) == (6200, 2000, 7)
    assert [one.document for one in forecast.left_out] == ["/scan.pdf"]
    stages = [event for event in events if isinstance(event, Stage) and event.name == "read"]
    assert [stage.done for stage in stages] == [0, 100, 200, 300, 400]
    assert stages[0].seconds_left is None
    left = [stage.seconds_left for stage in stages[1:]]
    assert all(seconds is not None for seconds in left)
    assert left[-1] == 0
    end = events[-1]
    assert isinstance(end, ReadAhead)
    assert (end.read, end.stored, end.tokens) == (400, 200, 620)


async def test_what_does_not_fit_is_named_before() -> None:
    events = await read(ahead_of(Disk(fits=3)))
    forecast = next(event for event in events if isinstance(event, Forecast))
    assert [one.document for one in forecast.left_out] == ["/d1", "/d2", "/scan.pdf"]
    assert "of 6,200 bytes the store has room for 3,000" in forecast.left_out[0].reason
    assert isinstance(events[-1], ReadAhead)
    assert events[-1].left_out == forecast.left_out


@pytest.mark.parametrize(("device", "attempts"), [("cpu", 2), ("cuda:0 card", 1)])
async def test_on_a_cpu_it_gives_way_to_a_question_and_goes_on(device: str, attempts: int) -> None:
    disk = Disk(device=device)
    ahead = ahead_of(disk)
    reading = asyncio.create_task(read(ahead))
    while disk.stored < 2:
        await asyncio.sleep(0.001)
    with ahead.question():
        at = disk.stored
        await asyncio.sleep(0.1)
        assert disk.stored <= at + 1 or device != "cpu"
    events = await reading
    assert disk.stored == SECTIONS
    assert disk.attempts == attempts
    assert len([event for event in events if isinstance(event, Forecast)]) == 1
    assert ("waiting while a question is answered" in texts(events)) == (device == "cpu")


async def test_it_outlives_engines_that_die_while_they_get_somewhere() -> None:
    disk = Disk(dies=[2, 2])
    events = await read(ahead_of(disk))
    assert (disk.stored, disk.attempts) == (SECTIONS, 3)
    assert texts(events).count("the engine died and is started again: reading goes on") == 2
    with pytest.raises(EngineDied):
        await read(ahead_of(Disk(dies=[0])))


async def test_collections_are_read_one_after_the_other() -> None:
    disk = Disk()
    ahead = ahead_of(disk)
    first, second = await asyncio.gather(read(ahead), read(ahead))
    assert "another collection is being read" in texts(second)
    assert "another collection is being read" not in texts(first)
    assert isinstance(second[-1], ReadAhead)
    assert second[-1].read == 0


WAITS, BEGINS, READS = Stage(name="queue"), Stage(name="read", total=9), Stage(name="read", done=7, total=9)


@pytest.mark.parametrize(
    ("code", "told", "servers"),
    [
        ("server_stopping", [BEGINS], 2),
        ("server_unreachable", [BEGINS, READS], 2),
        ("server_unreachable", [BEGINS], 1),
        ("server_unreachable", [WAITS], 2),
        ("server_unreachable", [WAITS, BEGINS], 1),
        ("internal", [BEGINS, READS], 1),
    ],
)
def test_the_command_goes_on_with_another_server_where_that_can_help(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str, told: list[ReadAheadEvent], servers: int
) -> None:
    """A server of another command ends with that command, perhaps before it was this one's turn."""
    scripts: list[list[ReadAheadEvent]] = [
        [*told, Problem(code=code, message="it ends")],
        [ReadAhead(collection="c", tokens=9, read=9, stored=0, seconds=1.0)],
    ]
    seen: list[str] = []

    class Scripted:
        async def read_ahead(self, collection: str, documents: Sequence[str]) -> AsyncGenerator[ReadAheadEvent, None]:
            for event in scripts[len(seen) - 1]:
                yield event

    @asynccontextmanager
    async def connect(*_: object, **__: object) -> AsyncIterator[Scripted]:
        seen.append(code)
        yield Scripted()

    monkeypatch.setattr(launch, "connect", connect)
    exit_code = read_ahead(App(tmp_path), Settings(), "c", (), quiet=True, as_json=False)
    assert (len(seen), exit_code == 0) == (servers, servers == 2)
