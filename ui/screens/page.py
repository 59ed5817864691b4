"""The text of a page, with the cited passage marked and in view.

Asks the server for pages; a page that cannot be had is said in one line where the text would stand.
"""

from collections.abc import Sequence
from typing import ClassVar

from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content, Span
from textual.screen import ModalScreen
from textual.widgets import Footer, Static

from unabridged.app.client import DocumentInfo, PageInfo
from unabridged.models.errors import UnabridgedError
from unabridged.ui import format as words
from unabridged.ui.place import Place
from unabridged.ui.ports import Server
from unabridged.ui.screens.guard import Guard

_MARK = "bold $background on $warning"
_PARTS = {
    "header": "bold",
    "quoted": "$text-muted",
    "signature": "$text-muted",
    "attribution": "$text-muted",
    "hidden": "italic $text-error",
    "form": "$text-accent",
    "note": "italic $text-accent",
}
_FLAGS = {
    "empty": "empty page",
    "scanned": "scanned: an image without text",
    "garbled": "garbled text",
    "hidden": "holds hidden text, shown in italics",
    "unread": "could not be read",
    "cut": "cut at the limit of a page",
}


class PageScreen(ModalScreen[None], Guard[None]):
    """Shows `places[at]`; the others are one key away."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "dismiss", "Back", id="page.back", tooltip="Back to the conversation"),
        Binding("right,n", "turn(1)", "Next page", id="page.next", tooltip="Next page"),
        Binding("left,p", "turn(-1)", "Previous", id="page.previous", tooltip="Previous page"),
        Binding("c", "place(1)", "Next citation", id="page.citation.next", tooltip="The next citation of the answer"),
        Binding("m", "mark", "To the mark", show=False, id="page.mark", tooltip="Scroll to the marked passage"),
        Binding("y", "copy", "Copy", id="page.copy", tooltip="Copy the marked passage, or the page, with its source"),
    ]

    def __init__(self, server: Server, places: Sequence[Place], at: int = 0) -> None:
        super().__init__()
        self._server = server
        self._places = places
        self._at = at
        self._document: DocumentInfo | None = None
        self.page: PageInfo | None = None
        self._number = places[at].page

    @property
    def place(self) -> Place:
        """What led here."""
        return self._places[self._at]

    def compose(self) -> ComposeResult:
        """Where we are, the text, the keys."""
        yield Static(id="where")
        with VerticalScroll(id="sheet"):
            yield Static(id="text")
        yield Footer()

    def on_mount(self) -> None:
        """Fetch the page."""
        self.query_one("#sheet").focus()
        self._load()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offer the next citation only where there is one."""
        return action != "place" or len(self._places) > 1

    def action_turn(self, by: int) -> None:
        """Go to another page of the document."""
        last = self._document.pages if self._document else self._number
        number = self._number + by
        if 1 <= number <= last:
            self._number = number
            self._load()

    def action_place(self, by: int) -> None:
        """Go to the next citation."""
        self._at = (self._at + by) % len(self._places)
        self._number = self.place.page
        self._document = None
        self._load()

    def action_mark(self) -> None:
        """Bring the marked passage into view."""
        self._scroll_to_mark()

    def action_copy(self) -> None:
        """Copy the marked passage, or the page's text, with its source."""
        if self.page is None:
            return
        spans = self._spans()
        start, end = spans[0] if spans and self.place.quote else (0, len(self.page.text))
        source = f"{self.place.path}, {words.page_name(self.page.number, self.page.label)}"
        self.app.copy_to_clipboard(f"{self.page.text[start:end]}\n({source})")
        self.notify("Copied with its source", timeout=2)

    @work(exclusive=True, group="page", exit_on_error=False)
    async def _load(self) -> None:
        try:
            if self._document is None:
                self._document = await self._server.document(self.place.document_id)
            if self._document.pages == 0:
                self._fail(f"{self._document.path} has no text", self._document.reason)
                return
            self.page = await self._server.page(self.place.document_id, self._number)
        except UnabridgedError as error:
            self._fail(error.message, error.hint)
            return
        self._show()

    def _fail(self, message: str, hint: str) -> None:
        self.page = None
        self.query_one("#where", Static).update(self._where())
        self.query_one("#text", Static).update(Content.styled(words.error_line(message, hint), "$text-error"))

    def _spans(self) -> list[tuple[int, int]]:
        if self.page is None or self.page.number != self.place.page:
            return []
        return self.place.spans(self.page.text)

    def _show(self) -> None:
        assert self.page is not None
        spans = [Span(part.start, part.end, _PARTS[part.kind]) for part in self.page.parts if part.kind in _PARTS]
        spans += [Span(start, end, _MARK) for start, end in self._spans()]
        # Control characters are already visible ones: nothing is stripped, so the spans hold.
        text = Content(words.clean(self.page.text), spans, strip_control_codes=False)
        self.query_one("#text", Static).update(text)
        self.query_one("#where", Static).update(self._where())
        self.query_one("#sheet").scroll_home(animate=False)
        self.call_after_refresh(self._scroll_to_mark)

    def _scroll_to_mark(self) -> None:
        spans = self._spans()
        if self.page is None or not spans:
            return
        sheet, text = self.query_one("#sheet"), self.query_one("#text")
        before = Content(words.clean(self.page.text[: spans[0][0] + 1]), strip_control_codes=False)
        line = before.get_height({}, text.content_size.width) - 1
        sheet.scroll_to(y=max(0, line - sheet.content_size.height // 3), animate=False)

    def _where(self) -> Content:
        parts: list[str | tuple[str, str]] = []
        if self.place.why:
            parts.append((f"{self.place.why} ", "bold $text-accent"))
        parts.append((words.clean(self.place.path), "bold"))
        total = f" of {self._document.pages:,}" if self._document and self._document.pages else ""
        label = words.clean(self.page.label) if self.page else ""
        parts.append(f"\n{words.page_name(self._number, label)}{total}")
        parts += [(f" · {_FLAGS.get(flag, flag)}", "$text-warning") for flag in (self.page.flags if self.page else ())]
        if self.page and self.place.quote and self._number == self.place.page and not self._spans():
            parts.append((" · the cited passage is no longer on this page: the file was read again", "$text-error"))
        if self._document and words.is_problem(self._document.status):
            status = words.status(self._document.status)[1]
            parts.append((f" · document {status}: {words.clean_line(self._document.reason)}", "$text-warning"))
        return Content.assemble(*parts)
