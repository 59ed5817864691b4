"""Reading files into the collection, and taking documents out of it.

One reading runs at a time, in the worker "add"; its progress stands under the documents. Quitting or F8 closes
the stream; the server keeps what was read.
"""

import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from pathlib import Path
from time import monotonic

from textual import on, work
from textual.content import Content

from unabridged.app.client import DocumentInfo
from unabridged.app.events import Added, AddEvent, FileRead, Problem, Stage
from unabridged.models.errors import UnabridgedError
from unabridged.ui import format as words
from unabridged.ui.messages import DocumentRemoved, PasswordWanted
from unabridged.ui.ports import Server
from unabridged.ui.screens.desk import Desk
from unabridged.ui.screens.dialogs import Confirm, PasswordDialog, PathDialog, Report
from unabridged.ui.widgets.documents import Documents

_REFRESH_SECONDS = 2.0


class Reading(Desk):
    """The part of the main screen that adds and removes files."""

    def __init__(self, server: Server, collection: str) -> None:
        super().__init__(server, collection)
        self._report: list[FileRead] = []
        self._adding = False

    def action_add(self) -> None:
        """Ask what to add."""
        if self._adding:
            self.notify("Files are being read: F8 stops that.", severity="warning", timeout=3)
            return
        hint = f"A file or a folder, read into “{self._collection}”. Tab completes."
        dialog = PathDialog("Add files", f"{Path.cwd()}/", hint, must_exist=True)
        self.app.push_screen(dialog, self._chosen_to_add)

    def _chosen_to_add(self, path: Path | None) -> None:
        if path is not None:
            self._add([path])

    def action_refresh(self) -> None:
        """Look again at the files and folders of the collection."""
        if not self._adding:
            self._add([])

    @on(PasswordWanted)
    def _password_wanted(self, event: PasswordWanted) -> None:
        file = Path(self._file(event.document).path)

        def typed(password: str | None) -> None:
            if password:
                self._add([file], password)

        self.app.push_screen(PasswordDialog(words.name_of(event.document.path)), typed)

    def _file(self, document: DocumentInfo) -> DocumentInfo:
        """The file that holds a message or an attachment."""
        known = {other.path: other for other in self.query_one(Documents).documents}
        while document.parent is not None and document.parent in known:
            document = known[document.parent]
        return document

    def action_stop_adding(self) -> None:
        """Stop reading files; what was read stays."""
        self.workers.cancel_group(self, "add")

    @work(exclusive=True, group="add", exit_on_error=False)
    async def _add(self, paths: Sequence[Path], password: str | None = None) -> None:
        self._adding, self._report = True, []
        self._reading("reading files")
        try:
            names = [str(path.expanduser().absolute()) for path in paths]
            async with aclosing(self._server.add(names, self._collection, password=password)) as events:
                async for event in events:
                    self._added(event)
        except asyncio.CancelledError:
            self._reading("stopped: what was read stays")
            raise
        finally:
            self._adding = False
            if self.is_attached:
                self._fetch()

    def _added(self, event: AddEvent) -> None:
        match event:
            case Stage():
                self._reading(f"{words.stage(event)} · F8 stops")
            case FileRead():
                self._report.append(event)
                if monotonic() - self._refreshed > _REFRESH_SECONDS:
                    self._fetch()
            case Added():
                bad = bool(event.inside) or any(word != "read" and number for word, number in event.statuses.items())
                self._reading(words.added(event) + (" · F9 lists them" if bad else ""), failed=bad)
            case Problem():
                self._reading(f"✗ {words.problem(event)}", failed=True)

    def _reading(self, line: str, failed: bool = False) -> None:
        if self.is_attached:
            self.query_one(Documents).reading(line, failed)

    def action_report(self) -> None:
        """What came of reading files, problems first."""
        files = sorted(self._report, key=lambda item: not (words.is_problem(item.status) or item.inside))
        lines = [_report_line(item) for item in files] or [Content("No files were read since the start.")]
        self.app.push_screen(Report("What was read", lines))

    @on(DocumentRemoved)
    def _document_removed(self, event: DocumentRemoved) -> None:
        name = words.name_of(event.document.path)
        question = f"Take {name} out of {self._collection}? The file itself stays where it is."

        def decided(yes: bool | None) -> None:
            if yes:
                self._remove(event.document.id)

        self.app.push_screen(Confirm(question), decided)

    @work(group="remove", exit_on_error=False)
    async def _remove(self, document_id: int) -> None:
        try:
            await self._server.remove(document_id, self._collection)
        except UnabridgedError as error:
            self._failed(error)
        self._fetch()


def _report_line(item: FileRead) -> Content:
    glyph, word = words.status(item.status)
    detail = f": {words.clean_line(item.reason)}" if item.reason else f", {words.count(item.pages, 'page')}"
    if item.inside:
        detail += f"; of {item.documents - 1:,} in it {words.unread(item.inside)}"
    style = "$text-warning" if words.is_problem(item.status) or item.inside else "$text-muted"
    return Content.assemble((f"{glyph} ", style), words.clean(item.path), (f" · {item.change} · {word}{detail}", style))
