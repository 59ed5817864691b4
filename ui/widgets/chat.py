"""The conversation: exchanges under each other, the newest in view while it grows."""

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.geometry import Size
from textual.widgets import Static

from unabridged.app.client import Exchange as StoredExchange
from unabridged.ui.widgets.exchange import Exchange, Sources, citation_keys

WELCOME = """Ask a question about the documents on the left.

F2 adds files or folders.  Space on a document restricts the next question to it.
[n] in an answer opens the page it rests on: click it, or press its number in the answer.
F1 lists all keys.  Ctrl+P finds every command by name."""


class Chat(VerticalScroll):
    """Holds the exchanges of one conversation. Digits open citations of the newest answer."""

    BINDINGS: ClassVar[list[BindingType]] = citation_keys("chat", "the newest answer")

    def compose(self) -> ComposeResult:
        """A word of welcome until something is asked."""
        yield Static(Content(WELCOME), id="welcome")

    def on_mount(self) -> None:
        """A title like that of the documents."""
        self.border_title = "Conversation"

    @property
    def exchanges(self) -> list[Exchange]:
        """Oldest first."""
        return list(self.query_children(Exchange))

    @property
    def newest(self) -> Exchange | None:
        """The last exchange."""
        return exchanges[-1] if (exchanges := self.exchanges) else None

    async def begin(self, question: str) -> Exchange:
        """Append an exchange that waits for its answer, and keep the end in view."""
        self.query_one("#welcome").display = False
        exchange = Exchange(question)
        await self.mount(exchange)
        if self.is_anchored:
            self.anchor()
        return exchange

    def watch_virtual_size(self, size: Size) -> None:
        """Follow the end from where the conversation outgrows the pane: before that it reads from the top."""
        if size.height > self.size.height and not self.is_anchored:
            self.anchor()

    async def clear(self) -> None:
        """A new conversation."""
        await self.query_children(Exchange).remove()
        self.anchor(False)
        self.query_one("#welcome").display = True

    async def load(self, exchanges: Sequence[StoredExchange]) -> None:
        """Show a stored conversation."""
        await self.clear()
        for stored in exchanges:
            exchange = await self.begin(stored.question)
            if stored.answer is not None:
                await exchange.finish(stored.answer)
            else:
                await exchange.stopped()

    def action_cite(self, number: int) -> None:
        """Open a citation of the newest answer."""
        if self.newest is not None:
            self.newest.action_cite(number)

    def focus_sources(self) -> bool:
        """Put the focus on the sources of the newest answer that has any; False when there is none."""
        for exchange in reversed(self.exchanges):
            if exchange.citations:
                exchange.query_one(Sources).focus()
                return True
        return False
