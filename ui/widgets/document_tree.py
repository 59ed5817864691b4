"""The tree of a collection's documents with status, pages and selection.

Posts `DocumentOpened`, `DocumentRemoved`, `Marked` and `ProblemsToggled`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from rich.style import Style
from rich.text import Text
from textual import on
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widgets import Tree
from textual.widgets.tree import TreeNode

from unabridged.ui import format as words
from unabridged.ui.messages import DocumentOpened, DocumentRemoved, PasswordWanted
from unabridged.ui.tree import Node

# Folders below this many entries are open at once; larger ones and mailboxes wait to be opened.
_OPEN_UP_TO = 50
# The least that is kept of a name; details give way first.
_NAME = 12


@dataclass
class Marked(Message):
    """Other documents are selected, by id."""

    ids: frozenset[int]


@dataclass
class ProblemsToggled(Message):
    """The filter for problems is to be switched."""


class DocumentTree(Tree[Node]):
    """Folders, files, messages. Children of a node are added when it is opened: a mailbox may hold thousands."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "select_cursor", "Read", id="documents.open", tooltip="Open the document's text"),
        Binding("space", "mark", "Select", id="documents.select", tooltip="Ask this document, or this folder, only"),
        Binding("u", "unmark", "All", id="documents.all", tooltip="Ask all documents again", show=False),
        Binding("p", "problems", "Problems", id="documents.problems", tooltip="Show only what was not read in full"),
        Binding("delete", "remove", "Remove", id="documents.remove", tooltip="Take it out of the collection"),
        Binding("k", "password", "Password", id="documents.password", tooltip="Give the password of a locked file"),
        Binding("right", "open_node", "Open", show=False, id="documents.expand", tooltip="Open a folder or mailbox"),
        Binding("left", "close_node", "Close", show=False, id="documents.collapse", tooltip="Close it, or go up"),
    ]

    def __init__(self, id: str | None = None) -> None:
        super().__init__("", id=id)
        self.show_root = False
        self.guide_depth = 2
        self.auto_expand = False
        self.marked: frozenset[int] = frozenset()

    def show(self, root: Node) -> None:
        """Replace the tree."""
        at = self.cursor_node.data.path if self.cursor_node and self.cursor_node.data else ""
        opened = {node.data.path for node in _walk(self.root) if node.is_expanded and node.data}
        self.clear()
        self._fill(self.root, root.children, opened)
        self.root.expand()
        for node in _walk(self.root):
            if node.data is not None and node.data.path == at:
                self.move_cursor(node)
        if self.cursor_line < 0 and self.root.children:
            self.move_cursor_to_line(0)

    def _fill(self, parent: TreeNode[Node], nodes: Iterable[Node], opened: set[str]) -> None:
        for node in nodes:
            if not node.children:
                parent.add_leaf("", data=node)
                continue
            branch = parent.add("", data=node)
            small = node.document is None and len(node.children) <= _OPEN_UP_TO
            if small or node.path in opened:
                self._fill(branch, node.children, opened)
                branch.expand()

    @on(Tree.NodeExpanded)
    def _expanded(self, event: Tree.NodeExpanded[Node]) -> None:
        if event.node.data is not None and not event.node.children:
            self._fill(event.node, event.node.data.children, set())

    def render_label(self, node: TreeNode[Node], base_style: Style, style: Style) -> Text:
        """Selection, glyph and name at the left, status and pages at the right edge, within the width."""
        if node.data is None:
            return Text("", style)
        depth = 0
        above = node.parent
        while above is not None and above.parent is not None:
            depth, above = depth + 1, above.parent
        room = self.scrollable_content_region.width - depth * self.guide_depth
        label = self._label(node.data, node.is_expanded, max(_NAME, room))
        label.stylize_before(style)
        return label

    def _label(self, node: Node, expanded: bool, room: int) -> Text:
        glyph, details, bad = _describe(node, expanded)
        mark = " " if self.marked.isdisjoint(node.ids) else "■" if node.ids <= self.marked else "◪"
        name = words.clean(node.name)
        tail = _fitting(details, room - 5, len(name))
        name = words.shorten(name, room - 4 - len(tail))
        text = Text(f"{mark} {glyph} {name}", no_wrap=True)
        text.append(" " * (room - text.cell_len - len(tail)))
        text.append(tail, "bold" if bad else "dim")
        if bad and (color := self.app.theme_variables.get("text-warning")):
            text.stylize(color)
        return text

    def _current(self) -> Node | None:
        return self.cursor_node.data if self.cursor_node else None

    def action_mark(self) -> None:
        """Select what the cursor is on, or take it out of the selection."""
        if (node := self._current()) is None:
            return
        self._mark(self.marked - node.ids - self._holders() if node.ids <= self.marked else self.marked | node.ids)
        self.action_cursor_down()

    def _holders(self) -> frozenset[int]:
        """The documents around the cursor's. To ask one is to ask all in it: they go when a part of it goes."""
        holders: set[int] = set()
        above = self.cursor_node.parent if self.cursor_node else None
        while above is not None:
            if above.data is not None and above.data.document is not None:
                holders.add(above.data.document.id)
            above = above.parent
        return frozenset(holders)

    def action_unmark(self) -> None:
        """Select nothing: all documents are asked."""
        self._mark(frozenset())

    def _mark(self, marked: frozenset[int]) -> None:
        self.marked = marked
        for node in _walk(self.root):
            node.refresh()
        self.post_message(Marked(marked))

    def action_problems(self) -> None:
        """Show only what was not read in full, or all again."""
        self.post_message(ProblemsToggled())

    def action_remove(self) -> None:
        """Ask to take a document out of the collection."""
        if (node := self._current()) is not None and node.document is not None:
            self.post_message(DocumentRemoved(node.document))

    def action_password(self) -> None:
        """Give the password of a document that needs one."""
        if (node := self._current()) is not None and node.document is not None:
            self.post_message(PasswordWanted(node.document))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offer the password where one is needed."""
        node = self._current()
        return action != "password" or bool(node and node.document and node.document.status == "needs_password")

    def action_open_node(self) -> None:
        """Open a folder or mailbox."""
        if self.cursor_node is not None and self.cursor_node.allow_expand:
            self.cursor_node.expand()

    def action_close_node(self) -> None:
        """Close it, or go to its parent."""
        if (node := self.cursor_node) is None:
            return
        if node.allow_expand and node.is_expanded:
            node.collapse()
        elif node.parent is not None and not node.parent.is_root:
            self.move_cursor(node.parent)

    @on(Tree.NodeSelected)
    def _selected(self, event: Tree.NodeSelected[Node]) -> None:
        event.stop()
        node = event.node.data
        if node is not None and node.document is not None:
            self.post_message(DocumentOpened(node.document))
        else:
            event.node.toggle()


def _walk(node: TreeNode[Node]) -> Iterable[TreeNode[Node]]:
    yield node
    for child in node.children:
        yield from _walk(child)


def _fitting(details: Sequence[str], room: int, name: int) -> str:
    """The longest of the details beside which the whole name fits, else the shortest that leaves enough of it."""
    fits = [detail for detail in details if detail and len(detail) + name <= room]
    last = [detail for detail in details if detail and len(detail) + _NAME <= room][-1:]
    return "".join(f" {detail}" for detail in (fits[:1] or last))


def _describe(node: Node, expanded: bool) -> tuple[str, list[str], bool]:
    """Glyph, words from the longest to the shortest, and whether it is a problem."""
    if (document := node.document) is None:
        bad = node.problems
        return "▾" if expanded else "▸", [words.count(bad, "problem")] if bad else [], bool(bad)
    glyph, word = words.status(document.status)
    inside = len(node.ids) - 1
    size = f"{inside:,} inside" if inside else f"{document.pages:,} p" if document.pages else ""
    both = " ".join(filter(None, (word, size)))
    if inside and node.problems:
        return glyph, [f"{size}, {words.count(node.problems, 'problem')}", words.count(node.problems, "problem")], True
    if words.is_problem(document.status):
        return glyph, [both, word, word.removeprefix("needs ")], True
    return glyph, [both, size], False
