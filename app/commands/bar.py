"""The progress bar of commands, on standard error. Made when it is first needed: rich is slow to load."""

from unabridged.app.commands.common import App


class Bar:
    """A bar with a text behind it, that vanishes at the end. `counts`: with how many of how many between them."""

    def __init__(self, app: App, *, counts: bool = False) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

        between = [MofNCompleteColumn()] if counts else []
        columns = (BarColumn(), *between, TextColumn("{task.description}", markup=False))
        self._progress = Progress(*columns, console=app.console, transient=True)
        self._task = self._progress.add_task("", total=None)

    def __enter__(self) -> "Bar":
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def start(self) -> None:
        """Show it."""
        self._progress.start()

    def stop(self) -> None:
        """Take it away."""
        self._progress.stop()

    def show(self, text: str, done: int, total: int | None) -> None:
        """Where it stands; `total` None: nobody knows of how many."""
        self._progress.update(self._task, completed=done, total=total, description=text)
