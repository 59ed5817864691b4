"""The question's input: several lines, Enter sends, up and down at the edges go through the questions asked before."""

from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.widgets import TextArea

from unabridged.ui.messages import Asked


class Prompt(TextArea):
    """Posts `Asked`. Keeps what was typed and not sent when the history is visited."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "send", "Ask", show=False, priority=True, id="prompt.send", tooltip="Send the question"),
        Binding(
            "ctrl+j,shift+enter,alt+enter",
            "newline",
            "New line",
            show=False,
            priority=True,
            id="prompt.newline",
            tooltip="Begin a new line in the question",
        ),
    ]

    def __init__(self, id: str | None = None) -> None:
        super().__init__(
            id=id,
            compact=True,
            highlight_cursor_line=False,
            placeholder="Ask (Enter sends, Ctrl+J: new line)",
        )
        self._history: list[str] = []
        self._at = 0
        self._draft = ""

    def remember(self, questions: list[str]) -> None:
        """Replace the history, oldest first, by that of the conversation that is shown."""
        self._history = list(questions)
        self._at = len(self._history)

    def action_send(self) -> None:
        """Post the question, once the letters typed before are in it: keys of the application overtake them."""
        self.call_later(self._send)

    def _send(self) -> None:
        text = self.text.strip()
        if text:
            self.post_message(Asked(text))

    def sent(self, text: str) -> None:
        """The question was taken: keep it in the history, and in the input only what was typed since."""
        if not self._history or self._history[-1] != text:
            self._history.append(text)
        self._at, self._draft = len(self._history), ""
        self.text = self.text.lstrip().removeprefix(text).lstrip()
        self.move_cursor(self.document.end)

    def action_newline(self) -> None:
        """Begin a new line behind the letters typed before."""
        self.call_later(self.insert, "\n")

    def action_cursor_up(self, select: bool = False) -> None:
        """Up, or from the first line to the question before."""
        if select or self.cursor_location[0] > 0:
            super().action_cursor_up(select)
        else:
            self._visit(self._at - 1)

    def action_cursor_down(self, select: bool = False) -> None:
        """Down, or from the last line to the question after."""
        if select or self.cursor_location[0] < self.document.line_count - 1:
            super().action_cursor_down(select)
        else:
            self._visit(self._at + 1)

    def _visit(self, at: int) -> None:
        if not 0 <= at <= len(self._history):
            return
        if self._at == len(self._history):
            self._draft = self.text
        self._at = at
        self.text = self._draft if at == len(self._history) else self._history[at]
        self.move_cursor(self.document.end)
