"""What widgets tell the screen that holds them. Widgets say what a person did; screens decide what it means."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from textual.message import Message

from unabridged.app.client import DocumentInfo
from unabridged.app.events import Citation


@dataclass
class Asked(Message):
    """A question was sent from the prompt."""

    text: str


@dataclass
class CitationOpened(Message):
    """A citation was clicked or chosen by key. `among` are all citations of its answer, in order."""

    citation: Citation
    among: Sequence[Citation] = ()


@dataclass
class LinkOpened(Message):
    """A link of the answer's own text was clicked. It is shown, never followed."""

    href: str


@dataclass
class DocumentOpened(Message):
    """A document was chosen to be read."""

    document: DocumentInfo


@dataclass
class DocumentRemoved(Message):
    """A document is to leave the collection."""

    document: DocumentInfo


@dataclass
class PasswordWanted(Message):
    """A document that needs a password is to be opened with one."""

    document: DocumentInfo


@dataclass
class ScopeChanged(Message):
    """Other documents are selected. An empty selection means all `total` documents of the collection."""

    selected: Sequence[DocumentInfo]
    total: int


@dataclass
class Narrowed(Message):
    """Questions are asked only of the documents that these fields of a Question mean; `text` says it for people."""

    fields: dict[str, Any]
    text: str


@dataclass
class CollectionChosen(Message):
    """Another collection is to be shown and asked."""

    name: str
