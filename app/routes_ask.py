"""The native route of questions, and the stored conversations."""

from collections.abc import AsyncGenerator
from contextlib import aclosing

from fastapi import APIRouter, Depends, Request, Response

from unabridged.app.events import AskEvent, Question
from unabridged.app.openai_request import fits
from unabridged.app.replies import Refusal, json_reply
from unabridged.app.schema import Listing, Removed
from unabridged.app.service import Service
from unabridged.app.unknown_fields import known_fields
from unabridged.app.wire import decode_body, lines


def routes(service: Service) -> APIRouter:
    """The routes of questions and conversations."""
    router = APIRouter(prefix="/v1", dependencies=[Depends(known_fields)])

    @router.post("/ask")
    async def ask(request: Request) -> Response:
        """Answer a Question; an AskEvent a line. Closing the connection stops the engine."""
        question = decode_body(await request.body(), Question)
        if not question.text.strip():
            raise Refusal("the question is empty", param="text")
        for name in ("seed", "top_k", "max_tokens"):
            if not fits(getattr(question.sampling, name)):
                raise Refusal(f"sampling.{name} must fit 64 bits", param=f"sampling.{name}")
        return lines(service, _ask(service, question))

    @router.get("/conversations")
    async def conversations() -> Response:
        """Stored conversations, newest first."""
        return json_reply(Listing(data=tuple(await service.in_thread(service.conversations.list))))

    @router.get("/conversations/{conversation_id}")
    async def conversation(conversation_id: str) -> Response:
        """One conversation with its answers."""
        return json_reply(await service.in_thread(service.conversations.get, conversation_id))

    @router.delete("/conversations/{conversation_id}")
    async def forget(conversation_id: str) -> Response:
        """Delete a conversation."""
        await service.in_thread(service.conversations.delete, conversation_id)
        return json_reply(Removed(id=conversation_id))

    return router


async def _ask(service: Service, question: Question) -> AsyncGenerator[AskEvent, None]:
    assistant = await service.assistant()
    async with aclosing(assistant.ask(question)) as events:
        async for event in events:
            yield event
