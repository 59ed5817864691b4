"""The supervisor with real engine processes; the backend does what prompts say (tests/engine/scripted_backend.py)."""

import asyncio
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, suppress
from pathlib import Path

import pytest

from unabridged.app import supervisor as policy
from unabridged.app.engine_process import LOG_BYTES, WorkerCommand, describe_exit, tail
from unabridged.app.supervisor import Supervisor
from unabridged.engine.errors import BadRequest, ContextTooLong, EngineDied, EngineUnavailable, QueueFull
from unabridged.engine.events import Event, Finished, Generate, Queued, Token, pack_ids
from unabridged.engine.options import EngineOptions

EMIT, SLEEP, IDLE, KILL, RAISE, EXIT = range(6)
SCRIPTED = Path(__file__).resolve().parent.parent / "engine"

Make = Callable[..., Supervisor]


def command(folder: Path, model: str = "well") -> WorkerCommand:
    return WorkerCommand(
        backend="scripted_backend:ScriptedBackend",
        model=folder / model,
        options=EngineOptions(store_dir=folder / "kv"),
        log=folder / "log" / "engine.log",
        environment={"PYTHONPATH": str(SCRIPTED)},
    )


@pytest.fixture
async def make(tmp_path: Path) -> AsyncIterator[Make]:
    made: list[Supervisor] = []

    def one(model: str = "well", queue_limit: int = 8, start_timeout: float = 20.0) -> Supervisor:
        made.append(Supervisor(command(tmp_path, model), queue_limit, start_timeout))
        return made[-1]

    yield one
    for supervisor in made:
        await supervisor.close()


def generate(id: str, *script: int) -> Generate:
    return Generate(id=id, prefix=b"", segments=(), prompt=pack_ids(script))


async def read(supervisor: Supervisor, request: Generate) -> list[Event]:
    return [event async for event in supervisor.submit(request)]


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def until(true: Callable[[], bool], seconds: float = 10.0) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.01)


async def test_a_request_starts_the_engine_and_streams_to_its_end(make: Make) -> None:
    supervisor = make()
    events = await read(supervisor, generate("a", EMIT, 3))
    assert [event.text for event in events if isinstance(event, Token)] == ["0 ", "1 ", "2 "]
    assert isinstance(events[-1], Finished)
    assert supervisor.state == "ready"
    assert supervisor.ready == await supervisor.start()


async def test_requests_wait_in_line_and_too_many_are_refused(make: Make) -> None:
    supervisor = make(queue_limit=1)
    await supervisor.start()
    first, second, third = [
        asyncio.create_task(read(supervisor, generate(id, *script)))
        for id, script in [("a", (IDLE, 100)), ("b", (EMIT, 1)), ("c", (EMIT, 1))]
    ]
    with pytest.raises(QueueFull, match="2 requests"):
        await third
    assert Queued(id="b", ahead=1) in await second
    assert first.done()


async def test_an_id_is_used_once_at_a_time(make: Make) -> None:
    supervisor = make()
    async with aclosing(supervisor.submit(generate("a", EMIT, 1, IDLE, 60_000))) as stream:
        await anext(stream)
        with pytest.raises(BadRequest, match="'a' is already in use"):
            await read(supervisor, generate("a", EMIT, 1))
    await read(supervisor, generate("b", EMIT, 1))
    assert len(await read(supervisor, generate("a", EMIT, 1))) == 2


async def test_an_error_of_the_engine_is_raised_as_its_own_class(make: Make) -> None:
    supervisor = make()
    with pytest.raises(ContextTooLong, match="a context of 9 tokens") as caught:
        await read(supervisor, generate("a", RAISE, 0))
    assert caught.value.hint == "choose fewer documents"


async def test_closing_the_stream_stops_the_engine_within_a_step(make: Make) -> None:
    supervisor = make()
    async with aclosing(supervisor.submit(generate("a", EMIT, 1, IDLE, 60_000))) as stream:
        await anext(stream)
    begin = time.monotonic()
    await read(supervisor, generate("b", EMIT, 1))
    assert time.monotonic() - begin < 1


async def test_a_cancelled_reader_stops_its_request_running_or_queued(make: Make) -> None:
    supervisor = make()
    await supervisor.start()
    readers = [asyncio.create_task(read(supervisor, generate(id, IDLE, 60_000))) for id in "ab"]
    await asyncio.sleep(0.05)
    for reader in readers:
        reader.cancel()
    assert await read(supervisor, generate("c", EMIT, 1))
    assert all(reader.cancelled() for reader in readers)


async def test_cancel_lets_the_stream_end_with_its_report(make: Make) -> None:
    supervisor = make()
    events: list[Event] = []
    async for event in supervisor.submit(generate("a", EMIT, 2, IDLE, 60_000)):
        events.append(event)
        supervisor.cancel("a")
    assert isinstance(events[-1], Finished)
    assert (events[-1].reason, events[-1].usage.completion) == ("cancelled", 2)


async def test_a_killed_engine_fails_all_its_requests_at_once_and_the_next_works(make: Make) -> None:
    supervisor = make()
    pid = (await supervisor.start()).pid
    readers = [asyncio.create_task(read(supervisor, generate(id, IDLE, 60_000))) for id in "ab"]
    await asyncio.sleep(0.05)
    begin = time.monotonic()
    os.kill(pid, signal.SIGKILL)
    for reader in readers:
        with pytest.raises(EngineDied, match=r"killed \(signal 9\), perhaps by the system for lack of memory"):
            await reader
    assert time.monotonic() - begin < 1
    assert len(await read(supervisor, generate("c", EMIT, 1))) == 2
    assert supervisor.ready is not None
    assert supervisor.ready.pid != pid


@pytest.mark.slow
@pytest.mark.timeout(900)
async def test_a_hundred_kills_at_random_moments_leave_a_working_engine(make: Make) -> None:
    supervisor = make()
    moments = random.Random(2)
    pids = set()
    for number in range(100):
        reader = asyncio.create_task(read(supervisor, generate(f"a{number}", EMIT, 50, IDLE, 50)))
        await asyncio.sleep(moments.uniform(0, 0.1))
        pid = (await supervisor.start()).pid
        pids.add(pid)
        os.kill(pid, signal.SIGKILL)
        with suppress(EngineDied):
            await reader
        await until(lambda pid=pid: supervisor.ready is None or supervisor.ready.pid != pid)  # type: ignore[misc]
        assert len(await read(supervisor, generate(f"b{number}", EMIT, 1))) == 2
    assert not [pid for pid in pids if supervisor.ready and pid != supervisor.ready.pid and alive(pid)]


async def test_an_idle_engine_that_dies_is_started_again_unasked(make: Make) -> None:
    supervisor = make()
    pid = (await supervisor.start()).pid
    os.kill(pid, signal.SIGKILL)
    await until(lambda: supervisor.ready is not None and supervisor.ready.pid != pid)


async def test_a_dying_engine_s_last_words_are_passed_on(make: Make) -> None:
    with pytest.raises(EngineDied, match="exit status 7") as caught:
        await read(make(), generate("a", EXIT, 7))
    assert "the last words" in caught.value.hint


async def test_an_engine_that_keeps_dying_is_given_up_for_a_while(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policy, "BACKOFF", (0.0, 0.0))
    monkeypatch.setattr(policy, "PAUSE", 0.5)
    supervisor = make()
    for id in "ab":
        with pytest.raises(EngineDied):
            await read(supervisor, generate(id, KILL, signal.SIGSEGV))
    with pytest.raises(EngineUnavailable, match=r"failed 2 times in a row; .*signal 11") as caught:
        await read(supervisor, generate("c", EMIT, 1))
    assert "tried again in" in caught.value.hint
    await asyncio.sleep(0.5)
    assert len(await read(supervisor, generate("c", EMIT, 1))) == 2


@pytest.mark.parametrize(
    ("model", "message", "hint"),
    [
        ("fails", "the model folder is empty", "models add smollm2-135m"),
        ("dies", "exit status 9", "cannot map the weights"),
        ("hangs", "not ready after 0.5 s", ""),
        ("futuristic", "version 1 of the protocol", ""),
    ],
)
async def test_an_engine_that_cannot_start_says_why(
    make: Make, model: str, message: str, hint: str, caplog: pytest.LogCaptureFixture
) -> None:
    supervisor = make(model, start_timeout=0.5 if model == "hangs" else 20.0)
    with pytest.raises(EngineUnavailable, match=message) as caught:
        await supervisor.start()
    assert hint in caught.value.hint
    assert supervisor.state == "failed"
    with pytest.raises(EngineUnavailable, match=message):
        await read(supervisor, generate("a", EMIT, 1))
    assert [one.getMessage() for one in caplog.records].count(f"the engine cannot start: {caught.value}") == 1


async def test_close_ends_streams_and_the_process(make: Make, tmp_path: Path) -> None:
    supervisor = make()
    pid = (await supervisor.start()).pid
    reader = asyncio.create_task(read(supervisor, generate("a", IDLE, 60_000)))
    await asyncio.sleep(0.05)
    await supervisor.close()
    with pytest.raises(EngineUnavailable, match="shut down"):
        await reader
    assert not alive(pid)
    assert tail(tmp_path / "log" / "engine.log", 1) == "backend closed"
    with pytest.raises(EngineUnavailable, match="shut down"):
        await read(supervisor, generate("b", EMIT, 1))


async def test_close_kills_what_does_not_end_in_time(make: Make) -> None:
    supervisor = make()
    pid = (await supervisor.start()).pid
    reader = asyncio.create_task(read(supervisor, generate("a", SLEEP, 60_000)))
    await asyncio.sleep(0.05)
    await supervisor.close(timeout=0.2)
    assert not alive(pid)
    with pytest.raises(EngineUnavailable):
        await reader


async def test_close_during_a_start_leaves_nothing(make: Make) -> None:
    supervisor = make("hangs")
    waiting = asyncio.create_task(supervisor.start())
    await asyncio.sleep(0.3)
    await supervisor.close()
    with pytest.raises(EngineUnavailable, match="shut down"):
        await waiting


async def test_a_caller_that_gives_up_waiting_does_not_stop_the_start_for_others(make: Make) -> None:
    supervisor = make()
    impatient, patient = (asyncio.create_task(supervisor.start()) for _ in range(2))
    await asyncio.sleep(0)
    impatient.cancel()
    assert (await patient).engine == "scripted"


SERVER = """
import asyncio, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from test_supervisor import IDLE, command, generate
from unabridged.app.supervisor import Supervisor

async def main():
    supervisor = Supervisor(command(Path(sys.argv[2])))
    print((await supervisor.start()).pid, flush=True)
    async for event in supervisor.submit(generate("a", IDLE, 600_000)):
        pass

asyncio.run(main())
"""


async def test_a_server_killed_by_force_leaves_no_engine_behind(tmp_path: Path) -> None:
    words = [sys.executable, "-c", SERVER, str(Path(__file__).parent), str(tmp_path)]
    server = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    pid = int(server.stdout.readline())
    await asyncio.sleep(0.1)
    assert alive(pid)
    server.kill()
    server.communicate()
    await until(lambda: not alive(pid))


async def test_the_log_stays_within_bounds_while_the_engine_runs(make: Make, tmp_path: Path) -> None:
    supervisor = make()
    await supervisor.start()
    log = tmp_path / "log" / "engine.log"
    with log.open("ab") as file:
        file.write(b"x" * (LOG_BYTES + 1))
    await read(supervisor, generate("a", EMIT, 1))
    await read(supervisor, generate("b", EMIT, 1))
    assert log.stat().st_size < 1000
    assert log.with_name("engine.log.1").stat().st_size == LOG_BYTES
    assert "closed b after 1" in log.read_text()


def test_exit_statuses_are_told_in_words() -> None:
    assert describe_exit(-11) == "ended by signal 11 (Segmentation fault)"
    assert describe_exit(3) == "ended with exit status 3"


async def test_a_log_that_cannot_be_written_is_an_error_with_its_path(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("a file where the folder should be")
    supervisor = Supervisor(command(tmp_path))
    with pytest.raises(EngineUnavailable, match=str(tmp_path / "log")):
        await supervisor.start()
    await supervisor.close()


async def test_no_module_of_the_users_folder_is_taken_for_a_library(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "msgspec.py").write_text("raise SystemExit('the wrong msgspec')")
    monkeypatch.chdir(tmp_path)
    assert await make().start()
