"""The server's part in following folders: what changes in those of any collection is read while the server runs.

As the settings say (`ingest.watch`). What comes of it goes to the log; the library is what everybody sees. Then the
model reads the collection, where `ingest.read_ahead` wants it. Asyncio; the watch itself is a thread.
"""

import logging
import threading
from contextlib import aclosing
from typing import TYPE_CHECKING

import msgspec

from unabridged.app.adding import in_thread, options_of
from unabridged.app.following import follow
from unabridged.app.service import NoModel
from unabridged.ingest.adding.watch import Batch, Notice, Pauses
from unabridged.ingest.catalog.rows import FileDone
from unabridged.models.errors import UnabridgedError

if TYPE_CHECKING:
    from collections.abc import Generator

    from unabridged.app.service import Service
    from unabridged.ingest.catalog.rows import AddItem
    from unabridged.ingest.worker import Workers

_log = logging.getLogger(__name__)


class Watching:
    """Follows the folders of all collections of a server, as long as `run` runs."""

    def __init__(self, service: "Service") -> None:
        self._service = service
        self._settings = service.settings.ingest
        self._stop = threading.Event()
        self._workers: Workers | None = None
        self._changed = False

    async def run(self) -> None:
        """Until it is cancelled. What goes wrong is logged and ends it."""
        pauses = Pauses(every=self._settings.watch_seconds)
        try:
            async with aclosing(
                in_thread(lambda: follow(self._service.library, None, self._look, self._stop, pauses), self._abort)
            ) as steps:
                async for step in steps:
                    await self._told(step)
        except UnabridgedError as error:
            _log.error("folders are not followed any more: %s", error)
        except Exception:
            _log.exception("following folders failed")

    def _look(self, batch: Batch) -> "Generator[AddItem, None, None]":
        from unabridged.ingest.adding.add import add, readers

        options = msgspec.structs.replace(options_of(self._settings), only=batch.only)
        self._workers = readers(options)
        if self._stop.is_set():
            self._workers.abort()
        service = self._service
        return add(service.library, [batch.folder], batch.collection, service.tokenizer, options, self._workers)

    def _abort(self) -> None:
        """From the event loop: ends the wait for changes, and what is being read."""
        self._stop.set()
        if self._workers is not None:
            self._workers.abort()

    async def _told(self, step: "AddItem | Batch | Notice") -> None:
        if isinstance(step, Notice):
            _log.warning("%s", step.text)
        elif isinstance(step, FileDone) and step.change != "unchanged":
            _log.info("%s %s: %s %s", step.change, step.path, step.status, step.reason)
            self._changed = True
        elif isinstance(step, Batch) and self._changed:
            self._changed = False
            if self._settings.read_ahead:
                await self._read_ahead(step.collection)

    async def _read_ahead(self, collection: str) -> None:
        try:
            assistant = await self._service.assistant()
            async with aclosing(assistant.read_ahead(collection)) as events:
                async for _ in events:
                    pass
        except NoModel:
            return
        except UnabridgedError as error:
            _log.warning("reading %s ahead: %s", collection, error)
