"""Small dialogs: a path, a yes or no, a report. Each returns what was decided and does nothing itself."""

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Footer, Input, Static

from unabridged.ui import format as words
from unabridged.ui.widgets.path_input import PathInput


class PathDialog(ModalScreen[Path | None]):
    """Asks for a path. `must_exist` refuses one that is not there; without it, one that is there asks twice."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss", "Cancel", id="dialog.cancel", tooltip="Close without doing anything"),
    ]

    def __init__(self, title: str, value: str, hint: str, *, must_exist: bool) -> None:
        super().__init__()
        self._title, self._value, self._hint, self._must_exist = title, value, hint, must_exist
        self._confirmed = ""

    def compose(self) -> ComposeResult:
        """Title, input, a line for what is wrong."""
        with Vertical(classes="dialog") as box:
            box.border_title = self._title
            yield PathInput(self._value, "a path", id="path")
            yield Static(Content(self._hint), id="hint")
        yield Footer()

    @on(Input.Changed)
    def _changed(self) -> None:
        self._say(self._hint, wrong=False)

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        typed = event.value.strip()
        if not typed:
            return
        try:
            path = Path(typed).expanduser().absolute()
        except RuntimeError:
            self._say(f"no home folder for {typed}", wrong=True)
            return
        if self._must_exist and not path.exists():
            self._say(f"nothing lies at {path}", wrong=True)
        elif not self._must_exist and path.exists() and self._confirmed != typed:
            self._confirmed = typed
            self._say(f"{path} exists: Enter again replaces it", wrong=True)
        else:
            self.dismiss(path)

    def _say(self, line: str, *, wrong: bool) -> None:
        hint = self.query_one("#hint", Static)
        hint.update(Content(words.clean_line(line)))
        hint.set_class(wrong, "-wrong")


class PasswordDialog(ModalScreen[str | None]):
    """Asks for the password of a file. It is sent to our own server and kept nowhere here."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss", "Cancel", id="password.cancel", tooltip="Leave the file unread"),
    ]

    def __init__(self, name: str) -> None:
        super().__init__()
        self._name_shown = name

    def compose(self) -> ComposeResult:
        """An input that shows nothing."""
        with Vertical(classes="dialog"):
            yield Static(Content(f"Password of {words.clean_line(self._name_shown)}"))
            yield Input(password=True, id="password")
            yield Static(Content("It is used once and not stored."), id="hint")
        yield Footer()

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.dismiss(event.value or None)


class Confirm(ModalScreen[bool]):
    """A yes or no that Enter does not answer by accident."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "dismiss(True)", "Yes", id="confirm.yes", tooltip="Do it"),
        Binding("n,escape", "dismiss(False)", "No", id="confirm.no", tooltip="Leave everything as it is"),
    ]

    def __init__(self, question: str) -> None:
        super().__init__()
        self._question = question

    def compose(self) -> ComposeResult:
        """The question."""
        with Vertical(classes="dialog"):
            yield Static(Content(words.clean_line(self._question)))
            yield Static(Content("y yes · n no"), id="hint")
        yield Footer()


class Report(ModalScreen[None]):
    """Lines to read, with a title: what came of reading files."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,enter,q", "dismiss", "Close", id="report.close", tooltip="Close the report"),
    ]

    def __init__(self, title: str, lines: Sequence[Content]) -> None:
        super().__init__()
        self._title, self._lines = title, lines

    def compose(self) -> ComposeResult:
        """The lines."""
        with VerticalScroll(classes="dialog tall") as box:
            box.border_title = self._title
            yield Static(Content("\n").join(self._lines))
        yield Footer()
