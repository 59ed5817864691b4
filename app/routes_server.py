"""Routes about the server itself: health, metrics and shutdown."""

from collections.abc import Callable

import msgspec
from fastapi import APIRouter, Request, Response

from unabridged.app.replies import json_reply
from unabridged.app.schema import EngineHealth, Health, Removed
from unabridged.app.service import Service


def routes(service: Service, shut_down: Callable[[], None]) -> APIRouter:
    """The routes; `shut_down` begins a graceful end and returns at once."""
    router = APIRouter()

    @router.get("/health")
    async def health(request: Request) -> Response:
        """200 while questions can be asked or will be soon, 503 when the engine failed."""
        state = service.health()
        if not request.scope.get("unabridged.trusted"):
            state = _for_strangers(state)
        return json_reply(state, 503 if state.status == "failed" else 200)

    @router.get("/metrics")
    async def metrics() -> Response:
        """Counters and gauges, as Prometheus reads them."""
        return Response(service.metrics(), media_type="text/plain; version=0.0.4; charset=utf-8")

    @router.post("/v1/shutdown")
    async def shutdown() -> Response:
        """End the server. The guard lets only the owner of the runtime file here."""
        shut_down()
        return json_reply(Removed(id="server"))

    return router


def _for_strangers(health: Health) -> Health:
    """Without the key: whether it works, not what it is."""
    return msgspec.structs.replace(health, pid=0, engine=EngineHealth(state=health.engine.state), requests=0)
