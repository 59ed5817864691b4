"""Lists to choose from: stored conversations, and pages that contain words."""

from typing import ClassVar

from rich.markup import escape
from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Footer, Input, OptionList, Static

from unabridged.app.client import ConversationInfo, SearchHit
from unabridged.models.errors import UnabridgedError
from unabridged.ui import format as words
from unabridged.ui.place import Place
from unabridged.ui.ports import Server
from unabridged.ui.screens.guard import Guard

Found = tuple[list[Place], int]


class ConversationsScreen(ModalScreen[str | None], Guard[str | None]):
    """Returns the id of the conversation to reopen."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss", "Cancel", id="conversations.cancel", tooltip="Stay in this conversation"),
        Binding("delete", "forget", "Delete", id="conversations.delete", tooltip="Delete it; press twice"),
    ]

    def __init__(self, server: Server) -> None:
        super().__init__()
        self._server = server
        self._listed: list[ConversationInfo] = []
        self._doomed = ""

    def compose(self) -> ComposeResult:
        """The list, newest first."""
        with Vertical(classes="dialog tall") as box:
            box.border_title = "Conversations"
            yield OptionList(id="list")
            yield Static(id="hint")
        yield Footer()

    def on_mount(self) -> None:
        """Fetch them."""
        self._load()

    @work(exclusive=True, group="conversations", exit_on_error=False)
    async def _load(self) -> None:
        try:
            self._listed = await self._server.conversations()
        except UnabridgedError as error:
            self._say(words.error_line(error.message, error.hint))
            return
        options = self.query_one(OptionList)
        options.clear_options()
        options.add_options([_conversation(info) for info in self._listed])
        options.focus()
        options.highlighted = 0 if self._listed else None
        self._say("" if self._listed else "No conversations yet")

    @on(OptionList.OptionSelected)
    def _chosen(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        self.dismiss(self._listed[event.option_index].id)

    @work(exclusive=True, group="conversations", exit_on_error=False)
    async def action_forget(self) -> None:
        """Delete the conversation under the cursor, at the second press."""
        if (at := self.query_one(OptionList).highlighted) is None:
            return
        info = self._listed[at]
        if self._doomed != info.id:
            self._doomed = info.id
            self._say(f"Delete again removes “{info.title}” for good")
            return
        try:
            await self._server.forget(info.id)
        except UnabridgedError as error:
            self._say(words.error_line(error.message, error.hint))
            return
        self._load()

    def _say(self, line: str) -> None:
        self.query_one("#hint", Static).update(Content(words.clean_line(line)))


def _conversation(info: ConversationInfo) -> Content:
    when = info.updated[:16].replace("T", " ")
    detail = f"{when} · {info.collection} · {words.count(info.exchanges, 'question')}"
    title = words.clean_line(info.title) or "(no title)"
    return Content.assemble(title, ("\n" + words.clean_line(detail), "$text-muted"))


class SearchScreen(ModalScreen[Found | None], Guard[Found | None]):
    """Finds pages by their words. Returns the places found and which of them to open."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss", "Cancel", id="search.cancel", tooltip="Back to the conversation"),
        Binding("down", "app.focus_next", "Results", show=False, id="search.results", tooltip="Go to the results"),
    ]

    def __init__(self, server: Server, collection: str) -> None:
        super().__init__()
        self._server, self._collection = server, collection
        self._hits: list[SearchHit] = []

    def compose(self) -> ComposeResult:
        """Words, and the pages that hold them."""
        with Vertical(classes="dialog tall") as box:
            box.border_title = escape(f"Search {words.clean_line(self._collection)}")
            yield Input(placeholder="words that stand on the page", id="words")
            yield OptionList(id="list")
            yield Static(Content("Enter searches"), id="hint")
        yield Footer()

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        if event.value.strip():
            self._search(event.value.strip())

    @work(exclusive=True, group="search", exit_on_error=False)
    async def _search(self, query: str) -> None:
        hint = self.query_one("#hint", Static)
        hint.update(Content("searching…"))
        try:
            self._hits = await self._server.search(query, self._collection, 50)
        except UnabridgedError as error:
            hint.update(Content(words.error_line(error.message, error.hint)))
            return
        options = self.query_one(OptionList)
        options.clear_options()
        options.add_options([_hit(hit) for hit in self._hits])
        hint.update(Content(_found(self._hits, words.clean_line(query))))
        if self._hits:
            options.focus()
            options.highlighted = 0

    @on(OptionList.OptionSelected)
    def _chosen(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        query = tuple(self.query_one(Input).value.replace('"', " ").split())
        places = [
            Place(document_id=hit.document_id, path=hit.document, page=hit.page, words=query) for hit in self._hits
        ]
        self.dismiss((places, event.option_index))


def _found(hits: list[SearchHit], query: str) -> str:
    whole = sum(hit.all_words for hit in hits)
    found = f"{words.count(whole, 'page') if whole else 'No page'} with {query}"
    return f"{found}, {len(hits) - whole:,} with some of it" if whole < len(hits) else found


def _hit(hit: SearchHit) -> Content:
    where = f"{words.clean(words.name_of(hit.document))}, {words.page_name(hit.page, words.clean(hit.label))}"
    return Content.assemble((where, "bold"), "\n" + words.clean_line(hit.snippet))
