"""What the terminal interface asks of a server: the part of `app.client.Client` that it uses.

The seam of the tests: whatever has these methods can stand behind the screens.
"""

from collections.abc import AsyncGenerator, Sequence
from typing import Protocol

from unabridged.app.client import (
    CollectionInfo,
    Conversation,
    ConversationInfo,
    DocumentInfo,
    Health,
    PageInfo,
    Removed,
    SearchHit,
)
from unabridged.app.events import AddEvent, AskEvent, Question


class Server(Protocol):
    """A server. Calls that return one thing raise UnabridgedError; streams end with a Problem instead. Closing a
    stream stops the work for it."""

    def ask(self, question: Question) -> AsyncGenerator[AskEvent, None]:
        """Stage and Delta events, then an Answer or a Problem."""
        ...

    def add(
        self, paths: Sequence[str], collection: str = "default", *, password: str | None = None
    ) -> AsyncGenerator[AddEvent, None]:
        """Stage and FileRead events, then Added or a Problem. No paths: look again at the collection's folders."""
        ...

    async def documents(self, collection: str = "default", pattern: str = "", status: str = "") -> list[DocumentInfo]:
        """The documents of a collection in the order of `ls`."""
        ...

    async def page(self, document_id: int, number: int) -> PageInfo:
        """One page, counted from 1."""
        ...

    async def document(self, document_id: int) -> DocumentInfo:
        """One document."""
        ...

    async def remove(self, document_id: int, collection: str = "") -> Removed:
        """Take a document and what it holds out of a collection."""
        ...

    async def collections(self) -> list[CollectionInfo]:
        """All collections, by name."""
        ...

    async def search(self, query: str, collection: str = "default", limit: int = 20) -> list[SearchHit]:
        """Pages that contain the words, best first."""
        ...

    async def conversations(self) -> list[ConversationInfo]:
        """Stored conversations, newest first."""
        ...

    async def conversation(self, conversation_id: str) -> Conversation:
        """One conversation with its answers."""
        ...

    async def forget(self, conversation_id: str) -> Removed:
        """Delete a conversation."""
        ...

    async def health(self) -> Health:
        """The server's and the engine's state."""
        ...
