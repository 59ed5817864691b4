"""Builds the assistant from settings and locations: the only place that knows which parts make it up. Torch-free."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from unabridged.app.assistant import Assistant
    from unabridged.app.locations import Locations
    from unabridged.app.settings import Settings


def assemble(settings: "Settings", locations: "Locations") -> "Assistant":
    """An assistant whose engine is not started yet. Raises ModelNotFound, ModelDamaged, LibraryDamaged."""
    raise NotImplementedError
