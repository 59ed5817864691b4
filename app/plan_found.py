"""The memory plan as `doctor` says it: what the engine would do with the card that is here and the settings' model."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from unabridged.app import gpu_found, runtime
from unabridged.app.assembly import engine_options
from unabridged.app.errors import ServerBusy
from unabridged.app.gpu_found import Seen
from unabridged.app.planning import plan
from unabridged.engine.plan.words import headline
from unabridged.models.errors import ModelNotFound, UnabridgedError
from unabridged.models.registry import Registry

if TYPE_CHECKING:
    from unabridged.app.locations import Locations
    from unabridged.app.settings import Settings


def look(locations: "Locations", settings: "Settings") -> Iterator[Seen]:
    """Level, text and remedy; nothing where no GPU computes, or where no model is installed."""
    engine, card = settings.engine, gpu_found.found()
    if engine.backend != "torch" or engine.device == "cpu":
        return
    if card is None or not card.usable or gpu_found.missing_parts():
        return
    if _server_runs(locations):
        yield "ok", "a server has the memory: `unabridged plan` plans for what is left", ""
        return
    try:
        model = Registry(locations.models).get(settings.model.name)
        yield "ok", headline(plan(model.path, model.name, engine_options(settings, locations)).plan), ""
    except ModelNotFound:
        return
    except UnabridgedError as error:
        if engine.device == "cuda":
            yield "fail", error.message, error.hint
        else:
            yield "warn", f"{error.message}: the CPU is used", error.hint


def _server_runs(locations: "Locations") -> bool:
    if not locations.server_lock.exists():
        return False
    try:
        with runtime.ServerLock(locations.server_lock):
            return False
    except ServerBusy:
        return True
