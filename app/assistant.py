"""Joins library, engine and conversation: a question in, a stream of events out.

Asyncio on the caller's loop; the library's blocking work runs in threads. Errors are raised as UnabridgedError out of
the iterators, before or in a stream: the server turns them into its own shapes. Closing an iterator cancels
the engine's request. Knows no HTTP and no terminal.
"""

from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING

import msgspec

from unabridged.app.events import AskEvent, Delta, Question, Stage
from unabridged.engine.events import Ready, Sampling, Usage

if TYPE_CHECKING:
    from unabridged.app.conversations import Conversations
    from unabridged.app.settings import Settings
    from unabridged.app.supervisor import Supervisor
    from unabridged.ingest.library import Library
    from unabridged.models.registry import InstalledModel
    from unabridged.models.tokenizer import Tokenizer


class Completed(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a plain completion."""

    text: str
    reason: str  # "stop" | "length" | "cancelled"
    usage: Usage


class Assistant:
    """Answers questions over the documents of a library.

    `assemble` in app/assembly.py builds one from settings and locations; `start` before the first question, `close` at
    the end. The library is shared with the server and stays open.
    """

    def __init__(
        self,
        *,
        settings: "Settings",
        library: "Library",
        supervisor: "Supervisor",
        tokenizer: "Tokenizer",
        model: "InstalledModel",
        conversations: "Conversations",
    ) -> None:
        self.settings = settings
        self.library = library
        self.supervisor = supervisor
        self.tokenizer = tokenizer
        self.model = model
        self.conversations = conversations

    async def start(self) -> Ready:
        """Start the engine. Raises EngineUnavailable, ModelError."""
        raise NotImplementedError

    async def close(self) -> None:
        """Stop the engine."""
        raise NotImplementedError

    def ask(self, question: Question) -> AsyncGenerator[AskEvent, None]:
        """Answer: Stage* (Delta | Stage)* Answer.

        A question with `collection=""` is asked without documents. Receipt fields serve as usage: prompt tokens =
        `context`, cached = `cached`, completion = `completion`.
        Raises CollectionNotFound, NothingToRead, ConversationNotFound, ContextTooLong, EngineError; nothing is stored
        then. A cancelled question is stored with what was said and finish "cancelled" only when the engine said so.
        """
        raise NotImplementedError

    def complete(self, prompt: str, sampling: Sampling) -> AsyncGenerator[Delta | Completed, None]:
        """Continue a text without documents or chat template (/v1/completions). Raises ContextTooLong, EngineError."""
        raise NotImplementedError

    def warm(self, collection: str) -> AsyncGenerator[Stage, None]:
        """Read a collection ahead, so that its first question need not wait."""
        raise NotImplementedError
