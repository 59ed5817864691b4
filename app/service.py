"""What the routes share: the library, the conversations, the assistant once it can be made, and the engine's state.

The server outlives what it depends on: without a model, or with an engine that fails, documents are still listed,
searched and added, and the next question tries again. Asyncio, one event loop; blocking work goes to threads. Knows no
HTTP.
"""

import asyncio
import logging
import os
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

import msgspec

from unabridged import __version__
from unabridged.app.schema import AddFiles, EngineHealth, EngineState, Health
from unabridged.engine.errors import EngineUnavailable
from unabridged.models.errors import ModelError, UnabridgedError

if TYPE_CHECKING:
    from unabridged.app.adding import Abort, Steps
    from unabridged.app.assistant import Assistant
    from unabridged.app.conversations import Conversations
    from unabridged.app.locations import Locations
    from unabridged.app.openai_models import Limits
    from unabridged.app.settings import Settings
    from unabridged.ingest.catalog.rows import AddItem
    from unabridged.ingest.library import Library
    from unabridged.models.tokenizer import Tokenizer

T = TypeVar("T")

_log = logging.getLogger(__name__)


class NoModel(EngineUnavailable):
    """The model of the settings is not installed or damaged."""

    code = "no_model"


class Service:
    """One running server's parts. `open` before use, `close` at the end."""

    def __init__(self, settings: "Settings", locations: "Locations") -> None:
        self.settings = settings
        self.locations = locations
        self.stopping = asyncio.Event()
        self.requests = 0
        self._library: Library | None = None
        self._assistant: Assistant | None = None
        self._assembling = asyncio.Lock()
        self._tasks: list[asyncio.Task[None]] = []
        self._was_ready = False
        self._problem: UnabridgedError | None = None

    async def open(self) -> None:
        """Open the library and begin loading the model in the background; once. Raises LibraryDamaged."""
        from unabridged.ingest.library import Library

        if self._library is not None:
            return
        self._library = await asyncio.to_thread(Library.open, self.locations.library)
        self._tasks.append(asyncio.create_task(self._load(), name="load the model"))
        if self.settings.ingest.watch:
            from unabridged.app.watching import Watching

            self._tasks.append(asyncio.create_task(Watching(self).run(), name="follow folders"))

    async def close(self) -> None:
        """End running requests, the engine and the library's connections."""
        self.stopping.set()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        if self._assistant is not None:
            await self._assistant.close()
            self._assistant = None
        if self._library is not None:
            self._library.close()
            self._library = None

    @property
    def library(self) -> "Library":
        """The open library; any thread may use it."""
        assert self._library is not None, "the service is not open"
        return self._library

    @property
    def conversations(self) -> "Conversations":
        """The stored conversations; any thread may use them."""
        from unabridged.app.conversations import Conversations

        return Conversations(self.locations.conversations)

    @property
    def tokenizer(self) -> "Tokenizer | None":
        """The model's, once the assistant is made."""
        return None if self._assistant is None else self._assistant.tokenizer

    async def assistant(self) -> "Assistant":
        """The assistant, made at the first call that finds a model; its engine starts then. Raises NoModel."""
        from unabridged.app.assembly import assemble

        async with self._assembling:
            if self._assistant is not None:
                return self._assistant
            try:
                assistant = await asyncio.to_thread(assemble, self.settings, self.locations, self.library)
            except ModelError as error:
                self._problem = NoModel(error.message, error.hint)
                raise self._problem from error
            self._assistant = assistant
            self._tasks.append(asyncio.create_task(self._start(assistant), name="start the engine"))
            return assistant

    async def limits(self) -> "Limits":
        """Tokens of a request and of the model's training; 0 where no model is installed."""
        from unabridged.app.openai_models import Limits

        try:
            assistant = await self.assistant()
        except NoModel:
            return Limits(context=0, window=0)
        ready = assistant.supervisor.ready
        window = assistant.model.window
        return Limits(context=ready.max_context if ready else window, window=window)

    async def steps_of_adding(self, wanted: AddFiles) -> "tuple[Steps, Abort]":
        """The work of adding files and what ends it, for `adding`. Tokens are counted where a model is installed."""
        from unabridged.app.adding import options_of
        from unabridged.ingest.adding.add import add, readers

        options = msgspec.structs.replace(
            options_of(self.settings.ingest),
            passwords=wanted.all_passwords,
            force=wanted.force,
            include=wanted.include,
            exclude=wanted.exclude,
            hidden=wanted.hidden,
            gitignore=wanted.gitignore,
        )
        try:
            tokenizer = (await self.assistant()).tokenizer
        except NoModel:
            tokenizer = None
        workers = readers(options)

        def steps() -> "Generator[AddItem, None, None]":
            if wanted.composition is not None:
                self.library.compose(wanted.collection, wanted.composition)
            return add(self.library, wanted.paths, wanted.collection, tokenizer, options, workers)

        return steps, workers.abort

    async def in_thread(self, work: Callable[..., T], *arguments: object, **named: object) -> T:
        """Blocking work of the library or the conversations."""
        return await asyncio.to_thread(work, *arguments, **named)

    @contextmanager
    def counted(self) -> Iterator[None]:
        """Count a request that runs or waits, for `health`."""
        self.requests += 1
        try:
            yield
        finally:
            self.requests -= 1

    def health(self) -> Health:
        """The state now; never waits."""
        engine = self._engine()
        status = {"ready": "ok", "failed": "failed"}.get(engine.state, "starting")
        return Health(
            status=status,  # type: ignore[arg-type]
            version=__version__,
            pid=os.getpid(),
            engine=engine,
            requests=self.requests,
        )

    def metrics(self) -> str:
        """The state and what was done so far, for /metrics; never waits."""
        from unabridged.app.metrics import Totals, exposition

        supervisor = None if self._assistant is None else self._assistant.supervisor
        totals = Totals() if supervisor is None else supervisor.totals
        return exposition(self.health(), supervisor.ready if supervisor else None, totals)

    def _engine(self) -> EngineHealth:
        name = self.settings.model.name
        if self._assistant is None:
            if self._problem is not None:
                return EngineHealth(state="failed", message=str(self._problem), model=name)
            return EngineHealth(state="starting", model=name)
        supervisor = self._assistant.supervisor
        ready = supervisor.ready
        if ready is None:
            return EngineHealth(state=self._state(supervisor.state), message=_text(supervisor.problem), model=name)
        self._was_ready = True
        return EngineHealth(
            state="ready",
            message="; ".join(ready.notes),
            model=ready.model,
            engine=ready.engine,
            device=ready.device,
            window=ready.window,
            max_context=ready.max_context,
            whole=ready.whole,
            place=ready.place,
            gpu_bytes=sum(size for _, size in ready.memory),
            host_bytes=ready.host_bytes,
            load_seconds=ready.load_seconds,
            pid=ready.pid,
        )

    def _state(self, state: str) -> EngineState:
        if state == "failed":
            return "failed"
        if state == "starting":
            return "restarting" if self._was_ready else "starting"
        return "stopped"

    async def _load(self) -> None:
        """Load the model before it is asked for. A failure shows in `health` and is raised by the next question."""
        try:
            await self.assistant()
        except NoModel as error:
            _log.info("no model: %s", error)
        except Exception as error:
            _log.exception("loading the model failed")
            self._problem = EngineUnavailable(f"loading the model failed: {type(error).__name__}: {error}")

    async def _start(self, assistant: "Assistant") -> None:
        try:
            await assistant.start()
            self._was_ready = True
        except UnabridgedError as error:
            _log.info("the engine did not start: %s", error)


def _text(error: UnabridgedError | None) -> str:
    return "" if error is None else str(error)
