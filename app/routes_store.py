"""The route of reading collections onto the disk. `unabridged store` looks after what lies there, without a server."""

from collections.abc import AsyncGenerator
from contextlib import aclosing

from fastapi import APIRouter, Depends, Request, Response

from unabridged.app.events import ReadAheadEvent
from unabridged.app.schema import ReadCollection
from unabridged.app.service import Service
from unabridged.app.unknown_fields import known_fields
from unabridged.app.wire import decode_body, lines


def routes(service: Service) -> APIRouter:
    """The routes of stored KV."""
    router = APIRouter(prefix="/v1", dependencies=[Depends(known_fields)])

    @router.post("/read_ahead")
    async def read_ahead(request: Request) -> Response:
        """Read a collection, a ReadAheadEvent a line. Closing the connection stops; the same again goes on."""
        return lines(service, _events(service, decode_body(await request.body(), ReadCollection)))

    return router


async def _events(service: Service, wanted: ReadCollection) -> AsyncGenerator[ReadAheadEvent, None]:
    assistant = await service.assistant()
    async with aclosing(assistant.read_ahead(wanted.collection, wanted.documents)) as events:
        async for event in events:
            yield event
