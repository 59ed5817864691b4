"""A server in memory that plays scripts: what the interface's tests and pictures run against. Real event types only."""

import asyncio
from collections.abc import AsyncGenerator, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from unabridged.app.client import (
    ClientError,
    CollectionInfo,
    Conversation,
    ConversationInfo,
    DocumentInfo,
    EngineHealth,
    Exchange,
    Health,
    PageInfo,
    Removed,
    SearchHit,
)
from unabridged.app.events import AddEvent, Answer, AskEvent, Question

T = TypeVar("T")

READY = Health(
    status="ok",
    version="0",
    pid=1,
    engine=EngineHealth(
        state="ready", model="smollm2-135m", engine="torch", device="cpu", window=8192, max_context=131_072, whole=True
    ),
)

# An event is sent, an asyncio.Event awaited, an exception raised.
Step = Any


@dataclass
class ScriptedServer:
    """Implements `ui.ports.Server`. `answers` and `readings` are scripts, one a call; `fault` makes every call fail."""

    files: list[DocumentInfo] = field(default_factory=list)
    sheets: dict[tuple[int, int], PageInfo] = field(default_factory=dict)
    answers: list[list[Step]] = field(default_factory=list)
    readings: list[list[Step]] = field(default_factory=list)
    hits: list[SearchHit] = field(default_factory=list)
    stored: dict[str, Conversation] = field(default_factory=dict)
    state: Health = READY
    fault: ClientError | None = None
    asked: list[Question] = field(default_factory=list)
    added: list[tuple[tuple[str, ...], str]] = field(default_factory=list)
    passwords: list[str | None] = field(default_factory=list)
    closed: int = 0

    async def ask(self, question: Question) -> AsyncGenerator[AskEvent, None]:
        """Play the next answer; a complete one is stored as the server does."""
        self.asked.append(question)
        async for event in self._play(self.answers):
            if isinstance(event, Answer):
                self._store(question, event)
            yield event

    async def add(
        self, paths: Sequence[str], collection: str = "default", *, password: str | None = None
    ) -> AsyncGenerator[AddEvent, None]:
        """Play the next reading of files."""
        self.added.append((tuple(paths), collection))
        self.passwords.append(password)
        async for event in self._play(self.readings):
            yield event

    async def _play(self, scripts: list[list[Step]]) -> AsyncGenerator[Any, None]:
        try:
            for step in scripts.pop(0):
                if isinstance(step, asyncio.Event):
                    await step.wait()
                elif isinstance(step, Exception):
                    raise step
                else:
                    yield step
        except (GeneratorExit, asyncio.CancelledError):
            self.closed += 1
            raise

    def _store(self, question: Question, answer: Answer) -> None:
        old = self.stored.get(answer.conversation)
        exchanges = (*(old.exchanges if old else ()), Exchange(question=question.text, answer=answer))
        info = ConversationInfo(
            id=answer.conversation,
            title=exchanges[0].question,
            collection=question.collection,
            created="2026-01-01T09:00:00Z",
            updated="2026-01-01T09:30:00Z",
            exchanges=len(exchanges),
        )
        self.stored[answer.conversation] = Conversation(info=info, exchanges=exchanges)

    def _check(self) -> None:
        if self.fault is not None:
            raise self.fault

    async def documents(self, collection: str = "default", pattern: str = "", status: str = "") -> list[DocumentInfo]:
        """All files, whatever the collection."""
        self._check()
        return list(self.files)

    async def document(self, document_id: int) -> DocumentInfo:
        """One of the files."""
        self._check()
        return _one([file for file in self.files if file.id == document_id], "document_not_found")

    async def page(self, document_id: int, number: int) -> PageInfo:
        """One of the sheets."""
        self._check()
        return _one([sheet for key, sheet in self.sheets.items() if key == (document_id, number)], "page_not_found")

    async def remove(self, document_id: int, collection: str = "") -> Removed:
        """Forget a file."""
        self._check()
        self.files = [file for file in self.files if file.id != document_id]
        return Removed(id=str(document_id), documents=1)

    async def collections(self) -> list[CollectionInfo]:
        """Two: "default" and "archive"."""
        self._check()
        pages = sum(file.pages for file in self.files)
        default = CollectionInfo(name="default", documents=len(self.files), pages=pages, tokens=None)
        return [CollectionInfo(name="archive", documents=0, pages=0, tokens=None), default]

    async def search(self, query: str, collection: str = "default", limit: int = 20) -> list[SearchHit]:
        """The hits, whatever the words."""
        self._check()
        return self.hits[:limit]

    async def conversations(self) -> list[ConversationInfo]:
        """What was stored."""
        self._check()
        return [conversation.info for conversation in self.stored.values()]

    async def conversation(self, conversation_id: str) -> Conversation:
        """One of them."""
        self._check()
        found = [self.stored[conversation_id]] if conversation_id in self.stored else []
        return _one(found, "conversation_not_found")

    async def forget(self, conversation_id: str) -> Removed:
        """Delete one."""
        self._check()
        self.stored.pop(conversation_id, None)
        return Removed(id=conversation_id)

    async def health(self) -> Health:
        """The state."""
        self._check()
        return self.state


def _one(found: Iterable[T], code: str) -> T:
    for item in found:
        return item
    raise ClientError(code.replace("_", " "), code=code, status=404)
