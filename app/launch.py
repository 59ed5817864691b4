"""Finding the server, or starting one that ends with us.

`connect` uses the server that the runtime file names if it is alive and of our version; otherwise it starts
`python -P -m unabridged serve --child`, whose standard input is a pipe from us: when we end, however we end, the pipe
closes and the child stops. Imports neither the server nor the engine.
"""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from time import monotonic
from typing import BinaryIO

from unabridged import __version__
from unabridged.app import runtime
from unabridged.app.client import Client, ClientError, Health
from unabridged.app.errors import ServerBusy, ServerUnreachable
from unabridged.app.events import Stage
from unabridged.app.locations import ENVIRONMENT, Locations
from unabridged.app.settings import Settings, keys, value_of, variable
from unabridged.engine.errors import EngineUnavailable

OnStage = Callable[[Stage], None]

_START_SECONDS = 60.0
_POLL_SECONDS = 0.05
_END_SECONDS = 15.0
# The exit code of a server that finds another one in its data directory.
_BUSY = 3
_LOG_BYTES = 1 << 20
_LOG_LINES = 8


@asynccontextmanager
async def connect(
    settings: Settings, locations: Locations, *, model: str | None = None, on_stage: OnStage | None = None
) -> AsyncIterator[Client]:
    """A client of the running server, or of one that is started and stopped with this context.

    Returns as soon as HTTP works; the engine may still be loading (`wait_for_engine`, or just ask: questions wait for
    it). `model` is a model that was asked for by name: a running server with another one is refused. Raises
    ServerUnreachable (with the last lines of the log) and ClientError.
    """
    tell = on_stage or _nothing
    client = await _running(locations)
    if client is not None:
        async with client:
            await _check_model(client, model)
            yield client
        return
    tell(Stage(name="start", text="starting the server"))
    async with _own(settings, locations) as client:
        await _check_model(client, model)
        yield client


async def wait_for_engine(client: Client, on_stage: OnStage | None = None) -> Health:
    """Wait until the engine can answer. Raises EngineUnavailable, with the engine's own words, when it failed."""
    tell = on_stage or _nothing
    said = ""
    while True:
        health = await client.health()
        engine = health.engine
        if engine.state == "ready":
            return health
        if engine.state == "failed":
            raise EngineUnavailable(engine.message or "the engine cannot be started", "see `unabridged doctor`")
        text = engine.message or f"loading the model {engine.model}".rstrip()
        if text != said:
            tell(Stage(name="start", text=text))
            said = text
        await asyncio.sleep(4 * _POLL_SECONDS)


def _nothing(_: Stage) -> None:
    pass


# ------------------------------------------------------------------------------------------------------- running one


async def _running(locations: Locations) -> Client | None:
    """A client of the server that the runtime file names; None when there is none or its process is gone."""
    found = runtime.read(locations.server_file)
    if found is None or not runtime.alive(found.pid):
        return None
    client = Client(found.url, found.key, certificate=found.certificate)
    try:
        health = await client.health()
    except ClientError as error:
        await client.aclose()
        # Killed and its process id reused, or about to end: the lock will tell the one that we start.
        if error.code == "server_unreachable":
            return None
        raise
    except BaseException:
        await client.aclose()
        raise
    if health.pid != found.pid:
        await client.aclose()
        return None
    if health.version != __version__:
        await client.aclose()
        raise ClientError(
            f"the running server (process {found.pid}) is version {health.version}, this is {__version__}",
            "stop it and try again",
            code="other_version",
        )
    return client


def _locked(file: Path) -> bool:
    try:
        with runtime.ServerLock(file):
            return False
    except ServerBusy:
        return True


async def _check_model(client: Client, model: str | None) -> None:
    if model is None:
        return
    running = (await client.health()).engine.model
    if running and running != model:
        raise ClientError(
            f"the running server at {client.url} answers with {running!r}, not {model!r}",
            f"stop it, or start one with `unabridged serve --model {model}`",
            code="other_model",
        )


# ------------------------------------------------------------------------------------------------------- starting one


@asynccontextmanager
async def _own(settings: Settings, locations: Locations) -> AsyncIterator[Client]:
    """A client of a server that is started here, or of one that another program starts at the same time."""
    until = monotonic() + _START_SECONDS
    client: Client | None = None
    while client is None:
        child = await _start(settings, locations)
        try:
            client = await _answering(child, locations, until)
            if client is not None:
                async with client:
                    yield client
        finally:
            await _end(child)


async def _start(settings: Settings, locations: Locations) -> asyncio.subprocess.Process:
    locations.create()
    with _log(locations.log) as log:
        return await asyncio.create_subprocess_exec(
            sys.executable,
            # -P: never import a module from the folder that the user happens to be in.
            "-P",
            "-m",
            "unabridged",
            "serve",
            "--child",
            stdin=asyncio.subprocess.PIPE,
            stdout=log,
            stderr=log,
            env=_environment(settings, locations),
            # Ctrl+C at the terminal is for us; the child ends by its pipe.
            start_new_session=True,
        )


def _environment(settings: Settings, locations: Locations) -> dict[str, str]:
    """Ours, with the settings in force (flags among them) and the data directory spelled out."""
    # All of them, since the settings file may differ from the flags that we were given.
    values = {key: value_of(settings, key) for key in keys()}
    environ = os.environ | {
        variable(key): ",".join(value) if isinstance(value, tuple) else str(value) for key, value in values.items()
    }
    if Locations.below(locations.data) == locations:
        environ[ENVIRONMENT] = str(locations.data)
    return environ


def _log(file: Path) -> BinaryIO:
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if file.exists() and file.stat().st_size > _LOG_BYTES:
        file.replace(file.with_suffix(".log.1"))
    return file.open("ab")


async def _answering(child: asyncio.subprocess.Process, locations: Locations, until: float) -> Client | None:
    """Wait for the child's runtime file and its first reply. None: it gave way to a server that has ended since."""
    while monotonic() < until:
        found = runtime.read(locations.server_file)
        if found is not None and (found.pid == child.pid or child.returncode is not None):
            # Two programs may start a server at once: the loser's child ends and the winner's serves both.
            client = await _running(locations)
            if client is not None:
                return client
        if child.returncode is not None and not _locked(locations.server_lock):
            if child.returncode == _BUSY:
                return None
            raise _failed(f"the server ended with exit code {child.returncode} while starting", locations.log)
        await asyncio.sleep(_POLL_SECONDS)
    raise _failed(f"the server did not answer within {_START_SECONDS:.0f} seconds", locations.log)


def _failed(message: str, log: Path) -> ServerUnreachable:
    try:
        lines = log.read_text("utf-8", errors="replace").splitlines()[-_LOG_LINES:]
    except FileNotFoundError:
        lines = []
    return ServerUnreachable("\n".join([message, *(f"  {line}" for line in lines)]), f"the whole log is {log}")


async def _end(child: asyncio.subprocess.Process) -> None:
    """Close the pipe, and insist if that is not enough."""
    if child.stdin is not None:
        child.stdin.close()
    for insist in (child.terminate, child.kill):
        try:
            await asyncio.wait_for(child.wait(), _END_SECONDS)
            return
        except TimeoutError:
            with suppress(ProcessLookupError):
                insist()
    await child.wait()
