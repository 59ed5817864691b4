"""OpenAI's routes: chat completions, completions, models.

Refusals that are known at once (model, fields, a context that is too long, a full queue) are proper HTTP statuses:
a stream's headers wait for them for a moment, and go out before reading begins. After that comments keep the connection
alive and a failure is an error event. A client that leaves stops the engine.
"""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from itertools import chain
from typing import Any

from fastapi import APIRouter, Request, Response

from unabridged.app import openai_models
from unabridged.app.assistant import Completed
from unabridged.app.events import Answer, AskEvent, Delta, Problem, Stage
from unabridged.app.openai_chunks import PING, Shape, failed
from unabridged.app.openai_request import ChatRequest, CompletionRequest, prompt_of, question_of
from unabridged.app.replies import error_of, json_reply, unexpected
from unabridged.app.service import Service
from unabridged.app.streams import STOPPING, Feed, Stream, while_connected
from unabridged.app.wire import decode_body
from unabridged.models.errors import UnabridgedError

Event = Stage | Delta | Answer | Completed
Source = AsyncGenerator[AskEvent, None] | AsyncGenerator[Delta | Completed, None]

_log = logging.getLogger(__name__)
# How long headers wait for a refusal. Laying out a large collection may take longer; then the refusal is an event.
GRACE_SECONDS = 2.0
_READING = ("queue", "restore", "read", "question")


def routes(service: Service) -> APIRouter:
    """The routes below /v1."""
    router = APIRouter(prefix="/v1")
    created = int(time.time())

    @router.post("/chat/completions")
    async def chat(request: Request) -> Response:
        """Answer from a collection, or (model's own name) without documents."""
        wanted = decode_body(await request.body(), ChatRequest)
        collection = openai_models.resolve(wanted.model, await _names(service), service.settings.model.name)
        question = question_of(wanted, collection, service.settings.answer)
        shape = Shape.of_chat(
            wanted.model or openai_models.DEFAULT_ID,
            sources=wanted.unabridged.sources,
            include_usage=wanted.include_usage,
            progress=bool(wanted.return_progress),
        )
        assistant = await service.assistant()
        return await _reply(service, request, shape, assistant.ask(question), streamed=bool(wanted.stream))

    @router.post("/completions")
    async def completions(request: Request) -> Response:
        """Continue a text; no documents, no chat template."""
        wanted = decode_body(await request.body(), CompletionRequest)
        openai_models.resolve(wanted.model, await _names(service), service.settings.model.name)
        prompt, sampling = prompt_of(wanted, service.settings.answer)
        shape = Shape.of_text(wanted.model or openai_models.DEFAULT_ID, include_usage=wanted.include_usage)
        assistant = await service.assistant()
        return await _reply(service, request, shape, assistant.complete(prompt, sampling), streamed=bool(wanted.stream))

    @router.get("/models")
    async def models() -> Response:
        """Collections and the model, with the context length in force."""
        return json_reply({"object": "list", "data": await _listed(service, created)})

    @router.get("/models/{model_id:path}")
    async def model(model_id: str) -> Response:
        """One of them."""
        listed = await _listed(service, created)
        return json_reply(openai_models.entry(model_id, listed, await _names(service), service.settings.model.name))

    return router


async def _names(service: Service) -> list[str]:
    return [row.name for row in await service.in_thread(service.library.collections)]


async def _listed(service: Service, created: int) -> list[dict[str, Any]]:
    rows = await service.in_thread(service.library.collections)
    limits = await service.limits()
    return openai_models.entries(rows, service.settings.model.name, limits, created)


async def _reply(service: Service, request: Request, shape: Shape, source: Source, *, streamed: bool) -> Response:
    events = _raising(source)
    if not streamed:
        with service.counted():
            return json_reply(await while_connected(_whole(shape, events), request.receive, service.stopping))
    feed = Feed(events)
    try:
        begun = await while_connected(_begin(feed), request.receive, service.stopping)
    except BaseException:
        await feed.aclose()
        raise
    return Stream(
        _chunks(service, shape, feed, begun),
        media_type="text/event-stream",
        ping=PING,
        ping_seconds=service.settings.server.ping_seconds,
        stopping=service.stopping,
        farewell=failed(STOPPING),
    )


async def _raising(source: Source) -> AsyncGenerator[Event, None]:
    async with aclosing(source):
        async for event in source:
            if isinstance(event, Problem):
                raise error_of(event)
            yield event


async def _whole(shape: Shape, events: AsyncGenerator[Event, None]) -> dict[str, Any]:
    async with aclosing(events):
        async for event in events:
            if isinstance(event, Answer):
                return shape.answered(event)
            if isinstance(event, Completed):
                return shape.completed(event)
    raise UnabridgedError("the answer ended without its end", "this is a defect: please report it")


async def _begin(feed: Feed[Event]) -> list[Event]:
    """The events until reading begins, or those of the grace period. Raises what refuses the request until then."""
    begun: list[Event] = []
    with suppress(TimeoutError):
        async with asyncio.timeout(GRACE_SECONDS):
            while not begun or (isinstance(begun[-1], Stage) and begun[-1].name not in _READING):
                begun.append(await anext(feed))
    return begun


async def _chunks(service: Service, shape: Shape, feed: Feed[Event], begun: list[Event]) -> AsyncGenerator[bytes, None]:
    with service.counted():
        async with aclosing(feed):
            try:
                for chunk in chain(shape.opening(), *map(shape.event, begun)):
                    yield chunk
                async for event in feed:
                    for chunk in shape.event(event):
                        yield chunk
            except UnabridgedError as error:
                yield failed(error)
            except Exception as error:
                _log.exception("a stream failed")
                yield failed(unexpected(error))
