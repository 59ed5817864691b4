"""The engine process: requests in, steps of a backend, events out.

    python -m unabridged.engine.worker --fd N --backend auto|torch|cuda|llama-cpp --model DIR --options JSON --queue N

N is an inherited socket (`engine.wire`). The first event is Ready, or Failed without an id and exit status 3. Between
two steps the worker looks for new requests, cancellations and its own end, so each takes effect within one prefill
chunk or decode step. Exit status: 0 asked to end or the server is gone, 3 cannot start, 4 the socket carried garbage, 5
the GPU failed and nothing can be computed on it by this process any more.

Knows messages, the queue and the Backend protocol; never a model, a tensor or a document.
"""

import argparse
import logging
import signal
import socket
import sys
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path

import msgspec

from unabridged.engine.alone import be_alone
from unabridged.engine.backend import Backend
from unabridged.engine.errors import Cancelled, EngineUnavailable, InternalError
from unabridged.engine.events import Cancel, Event, Finished, Generate, Queued, Request, Token, Usage
from unabridged.engine.failures import device_lost, failure
from unabridged.engine.link import Link, Stop
from unabridged.engine.options import EngineOptions
from unabridged.engine.scheduler import Scheduler, Work
from unabridged.models.errors import UnabridgedError

log = logging.getLogger("unabridged.engine")

# "module:Class" is taken as it is: the tests bring a backend of their own.
BACKENDS = {
    "auto": "unabridged.engine.choice:load",
    "torch": "unabridged.engine.generate:TorchBackend",
    "cuda": "unabridged.engine.choice:load_gpu",
    "llama-cpp": "unabridged.engine.llamacpp:LlamaCppBackend",
}
CANNOT_START = 3
DEVICE_LOST = 5


@dataclass
class Running:
    """A request under way: its remaining steps and what it has produced."""

    steps: Iterator[Event | None]
    began: float = field(default_factory=time.monotonic)
    first_token: float | None = None
    completion: int = 0
    finished: bool = False

    def saw(self, event: Event) -> None:
        """Note what matters to the report of a request that is cancelled."""
        if isinstance(event, Token):
            self.first_token = self.first_token or time.monotonic()
            self.completion += len(event.ids)
        self.finished = isinstance(event, Finished)

    def stop(self) -> Finished | None:
        """End the request where it is; the backend's own report where it has one."""
        if not isinstance(self.steps, Generator):
            return None
        try:
            event = self.steps.throw(Cancelled("the request was cancelled"))
        except (Cancelled, StopIteration):
            return None
        return event if isinstance(event, Finished) else None

    def cancelled(self, work: Work) -> Finished:
        """The end of a request that was stopped here and has no report."""
        now = time.monotonic()
        decoding = self.first_token or now
        return Finished(
            id=work.id,
            reason="cancelled",
            usage=Usage(prompt=context_length(work), cached=0, completion=self.completion),
            prefill_seconds=decoding - self.began,
            decode_seconds=now - decoding,
        )


class Worker:
    """Runs requests, as many at a time as the backend has slots, until it is told to stop."""

    def __init__(self, link: Link, backend: Backend, waiting: int) -> None:
        self._link = link
        self._backend = backend
        self._scheduler = Scheduler(waiting, backend.slots)
        self._running: dict[str, Running] = {}
        self._told: dict[str, int] = {}

    def serve(self) -> Stop:
        """Look for messages, do a step, and again."""
        while (stop := self._receive()) is None:
            self._step()
            self._tell_waiting()
        for running in self._running.values():
            _close(running.steps)
        return stop

    def _receive(self) -> Stop | None:
        """Take in all that has come; with nothing to compute, wait for it."""
        while (message := self._link.receive(wait=not self._scheduler)) is not None:
            if isinstance(message, Stop):
                return message
            self._accept(message)
            self._tell_waiting()
        return None

    def _accept(self, request: Request) -> None:
        if isinstance(request, Cancel):
            self._cancel(request.id)
        elif isinstance(request, Work):
            try:
                self._scheduler.add(request)
            except UnabridgedError as error:
                self._link.send(failure(request.id, error))

    def _cancel(self, id: str) -> None:
        """An id that is not there has ended already: its last event crossed the cancel on the way."""
        if work := self._scheduler.find(id):
            running = self._running.get(id) or Running(iter(()))
            try:
                end: Event = running.stop() or running.cancelled(work)
            except Exception as error:
                self._failed(id, error)
            else:
                self._forget(id)
                self._link.send(end)

    def _step(self) -> None:
        """One step of the request whose turn it is."""
        work = self._scheduler.next()
        if work is None:
            return
        try:
            event = self._advance(work)
        except Exception as error:
            self._failed(work.id, error)
        else:
            if event is not None:
                self._link.send(event)
            if self._running[work.id].finished:
                self._forget(work.id)

    def _failed(self, id: str, error: Exception) -> None:
        """A request ends with an error; with it the process, if it has lost the GPU."""
        self._link.send(failure(id, error))
        if device_lost(error):
            sys.exit(DEVICE_LOST)
        self._forget(id)

    def _advance(self, work: Work) -> Event | None:
        running = self._running.get(work.id)
        if running is None:
            running = self._running[work.id] = Running(self._backend.run(work))
        try:
            event = next(running.steps)
        except StopIteration:
            raise InternalError(f"the engine ended request {work.id!r} without a result") from None
        if event is not None:
            running.saw(event)
        return event

    def _forget(self, id: str) -> Running | None:
        self._scheduler.remove(id)
        if running := self._running.pop(id, None):
            _close(running.steps)
        return running

    def _tell_waiting(self) -> None:
        """Send each waiting request its place in the queue when that has changed."""
        ahead = {id: number for id, number in self._scheduler.ahead() if number}
        for id, number in ahead.items():
            if self._told.get(id) != number:
                self._link.send(Queued(id=id, ahead=number))
        self._told = ahead


def context_length(work: Work) -> int:
    """Tokens of a request's prefix, segments and prompt."""
    runs = [work.prefix, *(segment.ids for segment in work.segments)]
    if isinstance(work, Generate):
        runs.append(work.prompt)
    return sum(len(run) for run in runs) // 4


def load_backend(name: str, model: Path, options: str) -> Backend:
    """Construct the backend. Raises EngineUnavailable for one that is unknown or not installed."""
    module, _, kind = BACKENDS.get(name, name).partition(":")
    try:
        make: Callable[[Path, EngineOptions], Backend] = getattr(import_module(module), kind)
    except (ImportError, AttributeError, ValueError) as error:
        raise EngineUnavailable(f"the engine {name!r} cannot be loaded: {error}", "reinstall Unabridged") from error
    return make(model, msgspec.json.decode(options, type=EngineOptions, dec_hook=lambda kind, value: kind(value)))


def main(argv: Sequence[str] | None = None) -> int:
    """Run a worker until it is told to stop; returns the exit status."""
    arguments = _arguments(argv)
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", level=logging.INFO, stream=sys.stderr)
    # Ctrl-C in a terminal reaches every process of it; the server decides what it means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    link = Link(socket.socket(fileno=arguments.fd))
    try:
        backend = load_backend(arguments.backend, arguments.model, arguments.options)
        ready = backend.ready()
    except Exception as error:
        link.send(failure(None, error))
        link.close()
        return CANNOT_START
    log.info("ready: %s on %s, model %s, %d tokens", ready.engine, ready.device, ready.model, ready.max_context)
    for note in ready.notes:
        log.warning("%s", note)
    link.loaded()
    link.send(ready)
    try:
        return Worker(link, backend, arguments.queue).serve().status
    finally:
        backend.close()
        link.close()


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="unabridged.engine.worker")
    parser.add_argument("--fd", type=int, required=True)
    parser.add_argument("--backend", required=True)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--options", default="{}")
    parser.add_argument("--queue", type=int, default=32)
    return parser.parse_args(argv)


def _close(steps: Iterator[Event | None]) -> None:
    """Closing a generator cancels the request; a plain iterator has nothing to close."""
    if isinstance(steps, Generator):
        steps.close()


if __name__ == "__main__":
    be_alone()
    sys.exit(main())
