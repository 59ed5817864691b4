"""One life of an engine process, seen from the server: started, spoken to, read from, ended.

Knows nothing of restarts or of who waits for which answer (`app.supervisor` does). The process is joined to us by an
inherited socket and ends when that socket does, so not even a killed server leaves it behind.
"""

import asyncio
import contextlib
import os
import signal
import socket
import sys
from asyncio.subprocess import Process
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from unabridged.engine.errors import EngineUnavailable
from unabridged.engine.events import PROTOCOL, Event, Failed, Ready, Request, Shutdown, decode_event, encode
from unabridged.engine.options import THREAD_ENVIRONMENT
from unabridged.engine.wire import WireError, frame, read_frame_async

LOG_BYTES = 1024 * 1024
QUOTED_LINES = 5


@dataclass(frozen=True, kw_only=True)
class WorkerCommand:
    """How an engine process is started."""

    backend: str  # a name of engine.worker.BACKENDS; "module:Class" for tests
    model: Path  # folder of the installed model
    options: msgspec.Struct | Mapping[str, object] = field(default_factory=dict)  # engine.options.EngineOptions
    log: Path  # what the process writes to stderr; kept to two files of LOG_BYTES
    environment: Mapping[str, str] = field(default_factory=dict)  # added to ours

    def argv(self, fd: int, queue_limit: int) -> list[str]:
        """The command line, with the number of the socket's descriptor."""
        named = {
            "--fd": str(fd),
            "--backend": self.backend,
            "--model": str(self.model),
            "--options": msgspec.json.encode(self.options, enc_hook=str).decode(),
            "--queue": str(queue_limit),
        }
        words = [word for pair in named.items() for word in pair]
        # -P: never import a module from the folder that the user happens to be in.
        return [sys.executable, "-P", "-m", "unabridged.engine.worker", *words]


class EngineProcess:
    """A running engine process. Make one with `start`; `receive` until None, then `end`."""

    def __init__(self, process: Process, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, log: Path) -> None:
        self._process = process
        self._reader = reader
        self._writer = writer
        self._log = log
        self._stopped = ""  # why we ended it ourselves

    @classmethod
    async def start(cls, command: WorkerCommand, queue_limit: int) -> "EngineProcess":
        """Start the process; it is not ready yet. Raises EngineUnavailable when the system refuses."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        with theirs:
            reader, writer = await asyncio.open_unix_connection(sock=ours)
            try:
                return cls(await _spawn(command, theirs, queue_limit), reader, writer, command.log)
            except BaseException as error:
                writer.close()
                if not isinstance(error, OSError):
                    raise
                raise EngineUnavailable(
                    f"the engine process cannot be started: {error.strerror} ({error.filename or command.log})",
                    "check free memory and the permissions of the data directory",
                ) from error

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    def send(self, request: Request) -> None:
        """Hand over a request without waiting. To a dead process it is lost: `receive` tells."""
        if not self._writer.is_closing():
            self._writer.write(frame(encode(request)))

    async def receive(self) -> Event | None:
        """The next message; None when the process has ended or sends what is not a message."""
        try:
            body = await read_frame_async(self._reader)
            return None if body is None else decode_event(body)
        except (WireError, msgspec.DecodeError) as error:
            self._stopped = self._stopped or f"it sent what is not a message: {error}"
            return None

    async def ready(self, timeout: float) -> Ready:
        """Wait for the model to be loaded. Raises EngineUnavailable; the process is gone then."""
        first: Event | None = None
        try:
            first = await asyncio.wait_for(self.receive(), timeout)
        except TimeoutError:
            self._stopped = f"it was not ready after {timeout:g} s"
        except asyncio.CancelledError:
            await self.end(patience=0.0)
            raise
        if isinstance(first, Ready) and first.protocol == PROTOCOL:
            return first
        if first and not isinstance(first, Failed):
            self._stopped = f"it does not speak version {PROTOCOL} of the protocol"
        await self.end()
        raise self._not_ready(first)

    async def shut_down(self, timeout: float) -> None:
        """Ask it to end and wait; kill it when it has not by then."""
        self.send(Shutdown())
        await self.end(timeout)

    async def end(self, patience: float = 2.0) -> None:
        """Wait for the process to end by itself, so that its exit status tells why; then kill it."""
        try:
            await asyncio.wait_for(self._process.wait(), 0.0 if self._stopped else patience)
        except TimeoutError:
            self._stopped = self._stopped or f"it did not end within {patience:g} s"
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()
        self._writer.close()
        with contextlib.suppress(ConnectionError):
            await self._writer.wait_closed()

    def why(self) -> str:
        """How the process ended, in words: "killed (signal 9), perhaps by the system for lack of memory"."""
        if self._stopped:
            return f"stopped, because {self._stopped}"
        return describe_exit(self._process.returncode)

    def log_quoted(self) -> str:
        """The end of the log as a sentence for people; empty when it has nothing to say."""
        lines = tail(self._log, QUOTED_LINES)
        return f"its log {self._log} ends:\n{lines}" if lines else ""

    def trim_log(self) -> None:
        """Keep the log within bounds; the process appends, so it may be emptied under its feet."""
        with contextlib.suppress(FileNotFoundError):
            if self._log.stat().st_size > LOG_BYTES:
                kept = self._log.read_bytes()[-LOG_BYTES:]
                self._log.with_name(self._log.name + ".1").write_bytes(kept)
                os.truncate(self._log, 0)

    def _not_ready(self, first: Event | None) -> EngineUnavailable:
        if isinstance(first, Failed):
            return EngineUnavailable(first.message, first.hint)
        return EngineUnavailable(f"the engine did not start: {self.why()}", self.log_quoted())


def describe_exit(status: int | None) -> str:
    """A process's end in words; negative statuses are signals, as in subprocess."""
    if status is None:
        return "it still runs"
    if status == -signal.SIGKILL:
        return "killed (signal 9), perhaps by the system for lack of memory"
    if status < 0:
        return f"ended by signal {-status} ({signal.strsignal(-status)})"
    return f"ended with exit status {status}"


def tail(log: Path, lines: int) -> str:
    """The last lines of a log that may be long, missing or not UTF-8, without those that report that all is well."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - 8192))
            text = file.read().decode("utf-8", "replace")
    except FileNotFoundError:
        return ""
    return "\n".join([line for line in text.splitlines() if line.strip() and " INFO " not in line][-lines:])


async def _spawn(command: WorkerCommand, theirs: socket.socket, queue_limit: int) -> Process:
    command.log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if command.log.exists():
        command.log.replace(command.log.with_name(command.log.name + ".1"))
    with command.log.open("ab") as log:
        return await asyncio.create_subprocess_exec(
            *command.argv(theirs.fileno(), queue_limit),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            pass_fds=(theirs.fileno(),),
            env={**THREAD_ENVIRONMENT, **os.environ, **command.environment},
        )
