"""The documents pane: collection, filter, tree, counts, and how far the reading of files is.

Posts `CollectionChosen` and `ScopeChanged`; what the tree posts goes on to the screen. Knows nothing of the server.
"""

from collections.abc import Sequence

from textual import on
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Input, Select, Static

from unabridged.app.client import CollectionInfo, DocumentInfo
from unabridged.ui import format as words
from unabridged.ui.messages import CollectionChosen, ScopeChanged
from unabridged.ui.tree import build, matching
from unabridged.ui.widgets.document_tree import DocumentTree, Marked, ProblemsToggled


class Documents(Vertical):
    """The documents of one collection."""

    def __init__(self, collection: str, id: str | None = None) -> None:
        super().__init__(id=id)
        self.collection = collection
        self.documents: Sequence[DocumentInfo] = ()
        self._only_problems = False

    def compose(self) -> ComposeResult:
        """Collection, filter, tree, progress, counts."""
        yield Select(
            [(Content(self.collection), self.collection)], value=self.collection, allow_blank=False, compact=True
        )
        yield Input(placeholder="Filter by name or status", compact=True, id="filter")
        yield DocumentTree(id="tree")
        yield Static(id="reading")
        yield Static(id="counts")

    def on_mount(self) -> None:
        """Nothing is being read yet."""
        self.query_one("#reading").display = False
        self.border_title = "Documents"

    def show_collections(self, collections: Sequence[CollectionInfo]) -> None:
        """Offer these collections, the current one among them even before it exists."""
        names = sorted({self.collection, *(collection.name for collection in collections)})
        select = self.query_one(Select)
        with select.prevent(Select.Changed):
            select.set_options([(Content(words.clean_line(name)), name) for name in names])
            select.value = self.collection

    def show(self, documents: Sequence[DocumentInfo]) -> None:
        """Show these documents; what is selected and still there stays selected."""
        self.documents = documents
        tree = self.query_one(DocumentTree)
        tree.marked &= frozenset(document.id for document in documents)
        self._refill()
        self._announce()

    def reading(self, line: str, failed: bool = False) -> None:
        """Say how far the reading of files is, or what came of it; "" says nothing."""
        reading = self.query_one("#reading", Static)
        reading.update(Content(line))
        reading.set_class(failed, "-failed")
        reading.display = bool(line)

    @property
    def selected(self) -> list[DocumentInfo]:
        """The selected documents; none means all."""
        marked = self.query_one(DocumentTree).marked
        return [document for document in self.documents if document.id in marked]

    def _refill(self) -> None:
        shown = matching(self.documents, self.query_one("#filter", Input).value)
        if self._only_problems:
            shown = [document for document in shown if words.is_problem(document.status)]
        self.query_one(DocumentTree).show(build(shown))
        self.query_one("#counts", Static).update(self._counts(len(shown)))

    def _counts(self, shown: int) -> Content:
        if not self.documents:
            return Content.styled("No documents yet: F2 adds files or folders", "$text-muted")
        bad = sum(words.is_problem(document.status) for document in self.documents)
        hidden = f"{shown:,} of " if shown != len(self.documents) else ""
        parts: list[str | tuple[str, str]] = [f"{hidden}{words.count(len(self.documents), 'document')}"]
        parts.append(f", {words.count(sum(document.pages for document in self.documents), 'page')}")
        if bad:
            parts.append((f", {words.count(bad, 'problem')}", "bold $text-warning"))
        return Content.assemble(*parts)

    def _announce(self) -> None:
        self.post_message(ScopeChanged(self.selected, len(self.documents)))

    @on(Marked)
    def _marked(self, event: Marked) -> None:
        event.stop()
        self._announce()

    @on(ProblemsToggled)
    def _problems(self, event: ProblemsToggled) -> None:
        event.stop()
        self._only_problems = not self._only_problems
        self.border_subtitle = "problems only" if self._only_problems else ""
        self._refill()

    @on(Input.Changed, "#filter")
    def _filter(self, event: Input.Changed) -> None:
        event.stop()
        self._refill()

    @on(Input.Submitted, "#filter")
    def _filtered(self, event: Input.Submitted) -> None:
        event.stop()
        self.query_one(DocumentTree).focus()

    @on(Select.Changed)
    def _collection(self, event: Select.Changed) -> None:
        event.stop()
        if isinstance(event.value, str) and event.value != self.collection:
            self.collection = event.value
            self.post_message(CollectionChosen(event.value))
