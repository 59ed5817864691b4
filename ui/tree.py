"""The documents of a collection as the tree that people know: folders, files, messages, attachments. Pure, no widget.

Paths are those of the library: "/abs/a.pdf", "/abs/box.mbox#3", "/abs/box.mbox#3/report.pdf". The tree starts below the
deepest folder that all documents share, and a chain of folders with nothing else in them is one node.
"""

import glob
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import PurePath

from unabridged.app.client import DocumentInfo
from unabridged.ui.format import is_problem


@dataclass
class Node:
    """A folder (`document` is None) or a document, with what lies below it."""

    name: str
    path: str
    document: DocumentInfo | None = None
    children: list["Node"] = field(default_factory=list)

    def documents(self) -> Iterator[DocumentInfo]:
        """The documents at and below this node, in order."""
        if self.document is not None:
            yield self.document
        for child in self.children:
            yield from child.documents()

    @cached_property
    def ids(self) -> frozenset[int]:
        """The ids of the documents at and below this node."""
        return frozenset(document.id for document in self.documents())

    @cached_property
    def problems(self) -> int:
        """How many documents at and below this node were not read in full."""
        return sum(is_problem(document.status) for document in self.documents())


def matching(documents: Iterable[DocumentInfo], wanted: str) -> list[DocumentInfo]:
    """The documents whose path, title or status holds every word of `wanted`, whatever the case."""
    words = wanted.casefold().split()
    return [document for document in documents if _holds(document, words)]


def _holds(document: DocumentInfo, words: Sequence[str]) -> bool:
    text = f"{document.path} {document.title} {document.status.replace('_', ' ')}".casefold()
    return all(word in text for word in words)


def patterns(selected: Sequence[DocumentInfo]) -> tuple[str, ...]:
    """Patterns of a question that match exactly these documents. What lies in a matched document comes with it."""
    paths = {document.path for document in selected}
    return tuple(_exactly(document.path) for document in selected if _owner(document.path, paths) is None)


def _exactly(path: str) -> str:
    """A glob that matches this path only: as a plain pattern "a.pdf" would match "a.pdf.old" too."""
    if (escaped := glob.escape(path)) != path:
        return escaped
    at = next((at for at in reversed(range(len(path))) if path[at].isalnum()), -1)
    return path if at < 0 else f"{path[:at]}[{path[at]}]{path[at + 1 :]}"


def build(documents: Sequence[DocumentInfo]) -> Node:
    """The tree of these documents. Documents inside others (messages, attachments) lie below them."""
    by_path = {document.path: Node(PurePath(document.path).name, document.path, document) for document in documents}
    files = [node for path, node in by_path.items() if _owner(path, by_path) is None]
    root = Node("", _shared_folder([node.path for node in files]))
    folders = {root.path: root}
    for node in files:
        _folder(str(PurePath(node.path).parent), root, folders).children.append(node)
    for path, node in by_path.items():
        if (owner := _owner(path, by_path)) is not None:
            node.name = path[len(owner) :].lstrip("#/")
            by_path[owner].children.append(node)
    root.children = [_joined(child) for child in root.children]
    return root


def _owner(path: str, known: Iterable[str]) -> str | None:
    """The path of the nearest document that holds this one: the longest known path that "#" or "/" follows here."""
    for at in range(len(path) - 1, 0, -1):
        if path[at] in "#/" and path[:at] in known:
            return path[:at]
    return None


def _shared_folder(paths: Sequence[str]) -> str:
    folders = [str(PurePath(path).parent) for path in paths]
    try:
        return os.path.commonpath(folders) if folders else ""
    except ValueError:
        return ""


def _folder(path: str, root: Node, folders: dict[str, Node]) -> Node:
    if path in folders:
        return folders[path]
    parent = str(PurePath(path).parent)
    holder = root if parent == path else _folder(parent, root, folders)
    folders[path] = node = Node(PurePath(path).name, path)
    holder.children.append(node)
    return node


def _joined(node: Node) -> Node:
    """A folder that holds one folder and nothing else is shown with it: "2024/invoices"."""
    while node.document is None and len(node.children) == 1 and node.children[0].document is None:
        only = node.children[0]
        node = Node(f"{node.name}/{only.name}", only.path, None, only.children)
    node.children = [_joined(child) for child in node.children] if node.document is None else node.children
    return node
