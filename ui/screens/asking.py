"""Asking and the conversation: one answer at a time, in the worker "ask".

Stopping cancels the worker, which closes the stream, which stops the engine. What came stays on the screen.
"""

import asyncio
from collections.abc import Mapping
from contextlib import aclosing
from datetime import date
from pathlib import Path
from typing import Any, Literal

from textual import on, work

from unabridged.app.events import Answer, AskEvent, Delta, Problem, Question, Stage
from unabridged.models.errors import UnabridgedError
from unabridged.ui import format as words
from unabridged.ui.export import answer_text, conversation_markdown
from unabridged.ui.messages import Asked, CollectionChosen, Narrowed
from unabridged.ui.ports import Server
from unabridged.ui.screens.choose import ConversationsScreen
from unabridged.ui.screens.desk import Desk
from unabridged.ui.screens.dialogs import PathDialog
from unabridged.ui.screens.guard import defect
from unabridged.ui.tree import patterns
from unabridged.ui.widgets.chat import Chat
from unabridged.ui.widgets.documents import Documents
from unabridged.ui.widgets.exchange import Exchange
from unabridged.ui.widgets.filter_line import FilterLine
from unabridged.ui.widgets.prompt import Prompt
from unabridged.ui.widgets.status import StatusBar

Mode = Literal["auto", "whole", "focused"]
MODES: tuple[Mode, ...] = ("auto", "whole", "focused")
# Terminals cut or refuse a longer OSC 52 sequence (xterm and tmux: about 74,000 characters of base64).
_CLIPBOARD_BYTES = 50_000


class Asking(Desk):
    """The part of the main screen that asks and keeps the conversation."""

    def __init__(self, server: Server, collection: str, narrowed: Mapping[str, Any] | None = None) -> None:
        super().__init__(server, collection)
        self._narrowed = dict(narrowed or {})
        self._mode = 0
        self._conversation: str | None = None
        self._current: Exchange | None = None

    @property
    def mode(self) -> Mode:
        """How the next question is answered."""
        return MODES[self._mode]

    @property
    def busy(self) -> bool:
        """Whether an answer is running."""
        return self._current is not None

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
        except Exception as error:  # the conversation outlives our own mistakes
            await exchange.failed(Problem(code="defect", message=defect(error)))
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
        marked = patterns(self.query_one(Documents).selected)
        fields = {name: value for name, value in self._narrowed.items() if value}
        # What is marked in the tree goes before a path in the filter line: one of them is enough to match.
        fields["documents"] = marked or fields.get("documents", ())
        return Question(
            text=text, collection=self._collection, mode=self.mode, conversation=self._conversation, **fields
        )

    @on(Narrowed)
    def _narrow(self, event: Narrowed) -> None:
        self._narrowed = event.fields
        self.query_one(StatusBar).state.narrowed = event.text

    def action_narrow(self) -> None:
        """Go to the filter line."""
        self.query_one(FilterLine).open()

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
        state = self.query_one(StatusBar).state
        state.mode = self.mode
        if self.mode == "whole" and state.health and state.health.status == "ok" and not state.health.engine.whole:
            self.notify("This engine reads no more than the model's window: what does not fit is listed as left out.")

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

    @on(CollectionChosen)
    async def _collection_chosen(self, event: CollectionChosen) -> None:
        self._switch(event.name)
        await self.action_new()
