"""The history of questions and answers, in a SQLite database of its own.

Synchronous: the server calls it in threads. One connection per call, so any thread may use it. Knows no engine and no
library: documents are named by path and page, and a conversation outlives the documents it cites.
"""

from pathlib import Path

import msgspec

from unabridged.app.events import Answer, Turn


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the list."""

    id: str
    title: str  # the first question, cut
    collection: str
    created: float  # seconds since the epoch
    updated: float
    exchanges: int


class Exchange(msgspec.Struct, frozen=True, kw_only=True):
    """One question with its answer."""

    number: int  # from 1
    asked: float  # seconds since the epoch
    question: str
    answer: Answer


class Conversation(msgspec.Struct, frozen=True, kw_only=True):
    """A conversation as stored, oldest exchange first."""

    id: str
    title: str
    collection: str
    created: float
    updated: float
    exchanges: tuple[Exchange, ...]

    def turns(self) -> tuple[Turn, ...]:
        """The conversation as the model sees it: answers as generated, without marks."""
        return tuple(
            turn
            for exchange in self.exchanges
            for turn in (Turn("user", exchange.question), Turn("assistant", exchange.answer.text))
        )


class Conversations:
    """The conversations of one data directory."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def list(self, limit: int = 100) -> "list[Summary]":
        """The newest first."""
        raise NotImplementedError

    def get(self, id: str) -> Conversation:
        """Raises ConversationNotFound."""
        raise NotImplementedError

    def delete(self, id: str) -> None:
        """Raises ConversationNotFound."""
        raise NotImplementedError

    def append(self, id: str | None, collection: str, question: str, answer: Answer) -> str:
        """Store an exchange; `id` None begins a conversation. Returns its id. Raises ConversationNotFound."""
        raise NotImplementedError
