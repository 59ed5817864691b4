"""The main screen: documents at the left, the conversation at the right, where we stand at the bottom.

Decides what the widgets' messages mean. What takes time runs in workers: "ask" (one answer), "add" (reading files),
"documents" (the list), "health" (the poll). An error is one line where it belongs, and nothing ends the program.
"""

import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from datetime import date
from pathlib import Path
from time import monotonic
from typing import ClassVar, Literal

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.screen import Screen
from textual.widgets import Footer

from unabridged.app.events import Added, AddEvent, Answer, AskEvent, Delta, FileRead, Problem, Question, Stage
from unabridged.models.errors import UnabridgedError
from unabridged.ui import format as words
from unabridged.ui.export import answer_text, conversation_markdown
from unabridged.ui.messages import (
    Asked,
    CitationOpened,
    CollectionChosen,
    DocumentOpened,
    DocumentRemoved,
    LinkOpened,
    ScopeChanged,
)
from unabridged.ui.place import Place
from unabridged.ui.ports import Server
from unabridged.ui.screens.choose import ConversationsScreen, SearchScreen
from unabridged.ui.screens.dialogs import Confirm, PathDialog, Report
from unabridged.ui.screens.page import PageScreen
from unabridged.ui.widgets.chat import Chat
from unabridged.ui.widgets.documents import Documents
from unabridged.ui.widgets.exchange import Exchange
from unabridged.ui.widgets.prompt import Prompt
from unabridged.ui.widgets.status import StatusBar

Mode = Literal["auto", "whole", "focused"]
MODES: tuple[Mode, ...] = ("auto", "whole", "focused")
POLL_SECONDS = 2.0
_REFRESH_SECONDS = 2.0
# Terminals cut or refuse a longer OSC 52 sequence (xterm and tmux: about 74,000 characters of base64).
_CLIPBOARD_BYTES = 50_000


class MainScreen(Screen[None]):
    """One collection, one conversation."""

    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (100, "-wide")]  # noqa: RUF012
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "stop", "Stop", id="answer.stop", tooltip="Stop the answer; otherwise go to the question"),
        Binding("ctrl+n", "new", "New", id="conversation.new", tooltip="Begin a new conversation"),
        Binding("ctrl+t", "mode", "Mode", id="question.mode", tooltip="Switch between auto, whole and focused"),
        Binding("f2", "add", "Add", id="documents.add", tooltip="Add files or folders"),
        Binding("f3", "search", "Search", id="documents.search", tooltip="Search the text of all pages"),
        Binding("f4", "conversations", "History", id="conversation.open", tooltip="Reopen a conversation"),
        Binding("f5", "refresh", "Refresh", show=False, id="documents.refresh", tooltip="Fetch the documents again"),
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

    def __init__(self, server: Server, collection: str, paths: Sequence[Path] = ()) -> None:
        super().__init__()
        self._server = server
        self._collection = collection
        self._paths = paths
        self._mode = 0
        self._conversation: str | None = None
        self._current: Exchange | None = None
        self._report: list[FileRead] = []
        self._adding = False
        self._refreshed = 0.0

    def compose(self) -> ComposeResult:
        """The panes."""
        with Horizontal(id="panes"):
            yield Documents(self._collection, id="documents")
            with Vertical(id="talk"):
                yield Chat(id="chat")
                yield Prompt(id="prompt")
        yield StatusBar(id="status")
        yield Footer(show_command_palette=True)

    def on_mount(self) -> None:
        """Fetch what there is, read what was named at the start."""
        self.query_one(Prompt).focus()
        self._poll()
        self.set_interval(POLL_SECONDS, self._poll)
        self._fetch()
        if self._paths:
            self._add(list(self._paths))

    @property
    def mode(self) -> Mode:
        """How the next question is answered."""
        return MODES[self._mode]

    @property
    def busy(self) -> bool:
        """Whether an answer is running."""
        return self._current is not None

    # ------------------------------------------------------------------------------------------------- asking

    @on(Asked)
    def _asked(self, event: Asked) -> None:
        if self.busy:
            self.notify("An answer is running: Esc stops it.", severity="warning", timeout=3)
            return
        self.query_one(Prompt).sent(event.text)
        self._ask(event.text)

    @work(exclusive=True, group="ask", exit_on_error=False)
    async def _ask(self, text: str) -> None:
        exchange = await self.query_one(Chat).begin(text)
        self._current = exchange
        try:
            await self._follow(exchange, self._question(text))
        except asyncio.CancelledError:
            if exchange.is_attached:
                await exchange.stopped()
            raise
        finally:
            self._current = None
            self._progress(None)

    async def _follow(self, exchange: Exchange, question: Question) -> None:
        ended = False
        async with aclosing(self._server.ask(question)) as events:
            async for event in events:
                await self._heard(exchange, event)
                ended = isinstance(event, Answer | Problem)
        if not ended:
            await exchange.failed(Problem(code="cut_off", message="the server ended without a result"))

    async def _heard(self, exchange: Exchange, event: AskEvent) -> None:
        match event:
            case Stage():
                self._progress(event)
                exchange.stage(event)
            case Delta(text=text):
                self._progress(Stage(name="question", text="answering, Esc stops"))
                await exchange.feed(text)
            case Answer(conversation=conversation, receipt=receipt):
                self._conversation = conversation or self._conversation
                self.query_one(StatusBar).state.context = receipt.context
                await exchange.finish(event)
            case Problem():
                await exchange.failed(event)

    def _question(self, text: str) -> Question:
        return Question(
            text=text,
            collection=self._collection,
            documents=tuple(document.path for document in self.query_one(Documents).selected),
            mode=self.mode,
            conversation=self._conversation,
        )

    def _progress(self, stage: Stage | None) -> None:
        if self.is_attached:
            self.query_one(StatusBar).progress.stage = stage

    def action_stop(self) -> None:
        """Stop the answer; with none running, go to the question."""
        if self.busy:
            self.workers.cancel_group(self, "ask")
        self.query_one(Prompt).focus()

    def action_mode(self) -> None:
        """The next way of answering."""
        self._mode = (self._mode + 1) % len(MODES)
        self.query_one(StatusBar).state.mode = self.mode

    # ------------------------------------------------------------------------------------------ conversations

    async def action_new(self) -> None:
        """Begin a new conversation; the old one stays in the history."""
        self.workers.cancel_group(self, "ask")
        self._conversation = None
        await self.query_one(Chat).clear()
        self.query_one(StatusBar).state.context = 0
        self.query_one(Prompt).focus()

    def action_conversations(self) -> None:
        """Choose a conversation to go on with."""
        self.app.push_screen(ConversationsScreen(self._server), self._reopen)

    def _reopen(self, conversation: str | None) -> None:
        if conversation is not None:
            self.workers.cancel_group(self, "ask")
            self._load(conversation)

    @work(exclusive=True, group="ask", exit_on_error=False)
    async def _load(self, identity: str) -> None:
        try:
            conversation = await self._server.conversation(identity)
        except UnabridgedError as error:
            self._failed(error)
            return
        await self.query_one(Chat).load(conversation.exchanges)
        self._conversation = identity
        self.query_one(Prompt).remember([exchange.question for exchange in conversation.exchanges])
        answers = [exchange.answer for exchange in conversation.exchanges if exchange.answer]
        self.query_one(StatusBar).state.context = answers[-1].receipt.context if answers else 0
        self._switch(conversation.info.collection)

    def action_copy(self) -> None:
        """Copy the newest complete answer with its sources."""
        answers = [exchange.answer for exchange in self.query_one(Chat).exchanges if exchange.answer]
        if not answers:
            self.notify("There is no complete answer to copy.", severity="warning", timeout=3)
            return
        text = answer_text(answers[-1])
        self.app.copy_to_clipboard(text)
        if len(text.encode()) > _CLIPBOARD_BYTES:
            self.notify("Copied, but terminals may cut so long a text: F7 saves it to a file.", severity="warning")
        else:
            self.notify("Copied the answer with its sources.", timeout=2)

    def action_export(self) -> None:
        """Ask where to save the conversation."""
        if not self.query_one(Chat).exchanges:
            self.notify("There is nothing to save yet.", severity="warning", timeout=3)
            return
        name = f"{Path.cwd()}/conversation-{date.today().isoformat()}.md"
        dialog = PathDialog("Save the conversation", name, "Enter saves it as Markdown", must_exist=False)
        self.app.push_screen(dialog, self._export)

    def _export(self, path: Path | None) -> None:
        if path is not None:
            self._save(path)

    @work(group="export", exit_on_error=False)
    async def _save(self, path: Path) -> None:
        exchanges = self.query_one(Chat).exchanges
        text = conversation_markdown((exchange.question, exchange.answer, exchange.said) for exchange in exchanges)
        try:
            await asyncio.to_thread(path.write_text, text, "utf-8")
        except OSError as error:
            self._error(f"cannot write {path}: {error.strerror or error}", "choose another place")
        else:
            self.notify(words.clean(f"Saved {path}"), markup=False, timeout=4)

    # ---------------------------------------------------------------------------------------------- documents

    def action_refresh(self) -> None:
        """Fetch the documents again."""
        self._fetch()

    @work(exclusive=True, group="documents", exit_on_error=False)
    async def _fetch(self) -> None:
        pane = self.query_one(Documents)
        self._refreshed = monotonic()
        try:
            collections = await self._server.collections()
            pane.show_collections(collections)
            known = any(collection.name == self._collection for collection in collections)
            pane.show(await self._server.documents(self._collection) if known else [])
        except UnabridgedError as error:
            self._failed(error)

    @on(CollectionChosen)
    async def _collection_chosen(self, event: CollectionChosen) -> None:
        self._switch(event.name)
        await self.action_new()

    def _switch(self, collection: str) -> None:
        self._collection = self.query_one(Documents).collection = collection
        self._fetch()

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

    def action_documents(self) -> None:
        """Show or hide the documents."""
        pane = self.query_one(Documents)
        pane.display = not pane.display
        self.query_one(Prompt).focus()

    def action_sources(self) -> None:
        """Go to the sources of the newest answer."""
        if not self.query_one(Chat).focus_sources():
            self.notify("No answer with sources yet.", severity="warning", timeout=3)

    # ---------------------------------------------------------------------------------------------- reading

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

    def action_stop_adding(self) -> None:
        """Stop reading files; what was read stays."""
        self.workers.cancel_group(self, "add")

    @work(exclusive=True, group="add", exit_on_error=False)
    async def _add(self, paths: list[Path]) -> None:
        self._adding, self._report = True, []
        self._reading("reading files")
        try:
            names = [str(path.expanduser().absolute()) for path in paths]
            async with aclosing(self._server.add(names, self._collection)) as events:
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
                bad = any(word != "read" and number for word, number in event.statuses.items())
                self._reading(words.added(event) + (" · F9 lists them" if bad else ""), failed=bad)
            case Problem():
                self._reading(f"✗ {words.problem(event)}", failed=True)

    def _reading(self, line: str, failed: bool = False) -> None:
        if self.is_attached:
            self.query_one(Documents).reading(line, failed)

    def action_report(self) -> None:
        """What came of reading files, problems first."""
        files = sorted(self._report, key=lambda item: not words.is_problem(item.status))
        lines = [_report_line(item) for item in files] or [Content("No files were read since the start.")]
        self.app.push_screen(Report("What was read", lines))

    # ------------------------------------------------------------------------------------------------- server

    @work(exclusive=True, group="health", exit_on_error=False)
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

    def _failed(self, error: UnabridgedError) -> None:
        self._error(error.message, error.hint)

    def _error(self, message: str, hint: str) -> None:
        self.notify(words.error_line(message, hint), severity="error", markup=False, timeout=8)


def _report_line(item: FileRead) -> Content:
    glyph, word = words.status(item.status)
    detail = f": {words.clean_line(item.reason)}" if item.reason else f", {words.count(item.pages, 'page')}"
    style = "$text-warning" if words.is_problem(item.status) else "$text-muted"
    return Content.assemble((f"{glyph} ", style), words.clean(item.path), (f" · {item.change} · {word}{detail}", style))
