"""An input for a path that completes names: the right arrow takes what is suggested, Tab too."""

import asyncio
from pathlib import Path
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.suggester import Suggester
from textual.widgets import Input


class PathSuggester(Suggester):
    """Suggests the first entry of a folder that continues what was typed."""

    def __init__(self) -> None:
        super().__init__(use_cache=False, case_sensitive=True)

    async def get_suggestion(self, value: str) -> str | None:
        """The completed path, a folder with its slash; None when nothing continues it."""
        return await asyncio.to_thread(complete, value)


def complete(value: str) -> str | None:
    """The first entry, in name order, that continues the path `value`. Hidden entries only when asked for."""
    head, slash, start = value.rpartition("/")
    if not slash:
        return None
    try:
        entries = sorted(Path(f"{head}/").expanduser().iterdir())
    except (OSError, RuntimeError):
        return None
    for entry in entries:
        if entry.name.startswith(start) and (start or not entry.name.startswith(".")):
            return f"{head}/{entry.name}" + ("/" if entry.is_dir() else "")
    return None


class PathInput(Input):
    """An `Input` with `PathSuggester`."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("tab", "take", "Complete", id="path.complete", tooltip="Take the suggested name"),
    ]

    def __init__(self, value: str, placeholder: str, id: str | None = None) -> None:
        super().__init__(value, placeholder=placeholder, suggester=PathSuggester(), select_on_focus=False, id=id)

    def action_take(self) -> None:
        """Take what is suggested; with nothing to take, go on to the next field."""
        found = complete(self.value)
        if found is None or found == self.value:
            self.screen.focus_next()
        else:
            self.value = found
            self.cursor_position = len(found)
