"""A worker that fails in a way nobody expected: the reader is told, and keeps what is on the screen."""

from typing import TypeVar

from textual import on
from textual.screen import Screen
from textual.worker import Worker, WorkerState

from unabridged.ui import format as words

Result = TypeVar("Result")


def defect(error: BaseException | None) -> str:
    """An error that is our own mistake, in a line."""
    return words.error_line(f"unexpected {type(error).__name__}: {error}", "please report this")


class Guard(Screen[Result]):
    """A screen whose workers have `exit_on_error=False`."""

    @on(Worker.StateChanged)
    def _worker_failed(self, event: Worker.StateChanged) -> None:
        if event.state is WorkerState.ERROR:
            self.notify(defect(event.worker.error), severity="error", markup=False, timeout=15)
