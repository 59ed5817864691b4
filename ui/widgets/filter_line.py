"""The line above the question that says which documents it is asked of. Takes no room while it is empty and left."""

from typing import Any, ClassVar

from textual import on
from textual.binding import Binding, BindingType
from textual.widgets import Input

from unabridged.ui import narrow
from unabridged.ui.messages import Narrowed


class FilterLine(Input):
    """Posts `Narrowed` on Enter and when it is left; what it cannot read it marks and keeps."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "Back", id="filter.leave", tooltip="Go back to the question; the filter stays"),
    ]

    def __init__(self, fields: dict[str, Any], id: str | None = None) -> None:
        super().__init__(narrow.shown(fields), placeholder=narrow.HINT, select_on_focus=False, compact=True, id=id)

    def on_mount(self) -> None:
        """Show a filter that was given at the start."""
        self.display = bool(self.value)

    def open(self) -> None:
        """Show the line and go to it."""
        self.display = True
        self.focus()

    @on(Input.Submitted)
    def action_leave(self) -> None:
        """Take the filter and go back to the question."""
        if self.take():
            self.screen.focus_next()

    def on_blur(self) -> None:
        """Take the filter; an empty line goes away."""
        self.take()
        self.display = bool(self.value.strip())

    def take(self) -> bool:
        """Post what the line says; False where it cannot be read."""
        try:
            fields = narrow.parse(self.value)
        except ValueError as error:
            self.notify(f"Filter: {error}.", severity="warning", timeout=4, markup=False)
            return False
        self.post_message(Narrowed(fields, self.value.strip()))
        return True
