"""The main screen: documents at the left, the conversation at the right, where we stand at the bottom.

Decides, with its parts `Asking` and `Reading`, what the widgets' messages mean. What takes time runs in workers:
"ask" (one answer), "add" (reading files), "documents" (the list), "health" (the poll). An error is one line where it
belongs, and nothing ends the program.
"""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.widgets import Footer

from unabridged.models.errors import UnabridgedError
from unabridged.ui import format as words
from unabridged.ui.messages import CitationOpened, DocumentOpened, LinkOpened, ScopeChanged
from unabridged.ui.place import Place
from unabridged.ui.ports import Server
from unabridged.ui.screens.asking import Asking
from unabridged.ui.screens.choose import SearchScreen
from unabridged.ui.screens.page import PageScreen
from unabridged.ui.screens.reading import Reading
from unabridged.ui.widgets.chat import Chat
from unabridged.ui.widgets.documents import Documents
from unabridged.ui.widgets.filter_line import FilterLine
from unabridged.ui.widgets.prompt import Prompt
from unabridged.ui.widgets.status import StatusBar

POLL_SECONDS = 2.0


class MainScreen(Asking, Reading):
    """One collection, one conversation."""

    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (100, "-wide")]  # noqa: RUF012
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "stop", "Stop", id="answer.stop", tooltip="Stop the answer; otherwise go to the question"),
        Binding("ctrl+n", "new", "New", id="conversation.new", tooltip="Begin a new conversation"),
        Binding("ctrl+t", "mode", "Mode", id="question.mode", tooltip="Switch between auto, whole and focused"),
        Binding(
            "ctrl+l", "narrow", "Filter", id="question.filter", tooltip="Ask only of some: sender, date, tag, thread"
        ),
        Binding("f2", "add", "Add", id="documents.add", tooltip="Add files or folders"),
        Binding("f3", "search", "Search", id="documents.search", tooltip="Search the text of all pages"),
        Binding("f4", "conversations", "History", id="conversation.open", tooltip="Reopen a conversation"),
        Binding("f5", "refresh", "Refresh", show=False, id="documents.refresh", tooltip="Read what changed in files"),
        Binding(
            "f6",
            "copy",
            "Copy",
            priority=True,
            show=False,
            id="answer.copy",
            tooltip="Copy the newest answer",
        ),
        Binding(
            "f7",
            "export",
            "Export",
            priority=True,
            show=False,
            id="conversation.export",
            tooltip="Save the conversation as Markdown",
        ),
        Binding("f8", "stop_adding", "Stop reading", show=False, id="documents.stop", tooltip="Stop reading files"),
        Binding("f9", "report", "Report", show=False, id="documents.report", tooltip="What came of reading files"),
        Binding(
            "ctrl+o",
            "sources",
            "Sources",
            show=False,
            id="answer.sources",
            tooltip="Go to the sources of the newest answer",
        ),
        Binding(
            "ctrl+b", "documents", "Documents", show=False, id="documents.show", tooltip="Show or hide the documents"
        ),
    ]

    def __init__(
        self, server: Server, collection: str, paths: Sequence[Path] = (), narrowed: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(server, collection, narrowed)
        self._paths = paths

    def compose(self) -> ComposeResult:
        """The panes."""
        with Horizontal(id="panes"):
            yield Documents(self._collection, id="documents")
            with Vertical(id="talk"):
                yield Chat(id="chat")
                yield FilterLine(self._narrowed, id="narrow")
                yield Prompt(id="prompt")
        yield StatusBar(id="status")
        yield Footer(show_command_palette=True)

    def on_mount(self) -> None:
        """Fetch what there is, read what was named at the start."""
        self.query_one(Prompt).focus()
        self.query_one(FilterLine).take()
        self._watch()
        self._fetch()
        if self._paths:
            self._add(list(self._paths))

    @on(ScopeChanged)
    def _scope_changed(self, event: ScopeChanged) -> None:
        total = words.count(event.total, "document")
        asking = f"asking {len(event.selected):,} of {total}" if event.selected else f"all {total}"
        self.query_one(StatusBar).state.scope = asking if event.total else ""

    @on(DocumentOpened)
    def _document_opened(self, event: DocumentOpened) -> None:
        self._open([Place(document_id=event.document.id, path=event.document.path)])

    @on(CitationOpened)
    def _citation_opened(self, event: CitationOpened) -> None:
        among = list(event.among) or [event.citation]
        self._open([Place.of(citation) for citation in among], among.index(event.citation))

    @on(LinkOpened)
    def _link_opened(self, event: LinkOpened) -> None:
        self.notify(words.clean_line(event.href), title="Link (not followed)", markup=False)

    def _open(self, places: list[Place], at: int = 0) -> None:
        self.app.push_screen(PageScreen(self._server, places, at))

    def action_search(self) -> None:
        """Search the text of all pages."""
        self.app.push_screen(SearchScreen(self._server, self._collection), self._found)

    def _found(self, found: tuple[list[Place], int] | None) -> None:
        if found is not None:
            self._open(*found)

    def action_documents(self) -> None:
        """Show or hide the documents."""
        pane = self.query_one(Documents)
        pane.display = not pane.display
        self.query_one(Prompt).focus()

    def action_sources(self) -> None:
        """Go to the sources of the newest answer."""
        if not self.query_one(Chat).focus_sources():
            self.notify("No answer with sources yet.", severity="warning", timeout=3)

    @work(exclusive=True, group="health", exit_on_error=False)
    async def _watch(self) -> None:
        # One question at a time: a server that hangs is not asked again before it failed.
        while True:
            await self._poll()
            await asyncio.sleep(POLL_SECONDS)

    async def _poll(self) -> None:
        state = self.query_one(StatusBar).state
        try:
            state.health = await self._server.health()
        except UnabridgedError as error:
            state.fault = words.error_line(error.message, error.hint)
            return
        if state.fault:
            state.fault = ""
            self._fetch()
