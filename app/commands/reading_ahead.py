"""Reading a collection onto the disk, told to people: what it will take, how far it is, what was left out."""

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING

from unabridged.app.cli import PARTLY, exit_code, say
from unabridged.app.commands.bar import Bar
from unabridged.app.commands.common import App, emit
from unabridged.app.events import Forecast, Problem, ReadAhead, Stage
from unabridged.app.output import count, duration, left_out, size
from unabridged.app.printable import one_line

if TYPE_CHECKING:
    from unabridged.app.settings import Settings

# A server that is gone, or was told to go; another one can be had.
_LOST, _STOPPING = "server_unreachable", "server_stopping"


def read_ahead(
    app: App, settings: "Settings", collection: str, patterns: tuple[str, ...], *, quiet: bool, as_json: bool
) -> int:
    """Read, through the server that runs or one that is started for it. Returns the exit code."""
    screen = _Screen(app, quiet=quiet, as_json=as_json)
    try:
        return asyncio.run(_read(app, settings, collection, patterns, screen))
    except KeyboardInterrupt:
        screen.close()
        say("what has been read is stored: the same command goes on from there")
        raise
    finally:
        screen.close()


async def _read(app: App, settings: "Settings", collection: str, patterns: tuple[str, ...], screen: "_Screen") -> int:
    """Goes on with another server where one has ended: it was killed, or belonged to another command."""
    while True:
        screen.moved = screen.waits = False
        end = await _attempt(app, settings, collection, patterns, screen)
        if not isinstance(end, Problem):
            return screen.end(end)
        # What ends every server before anything is read is not to be repeated, unless it was not for us.
        if end.code != _STOPPING and not (end.code == _LOST and (screen.moved or screen.waits)):
            return screen.problem(end)


async def _attempt(
    app: App, settings: "Settings", collection: str, patterns: tuple[str, ...], screen: "_Screen"
) -> ReadAhead | Problem:
    from unabridged.app.launch import connect

    async with (
        connect(settings, app.locations, on_stage=screen.stage) as client,
        aclosing(client.read_ahead(collection, patterns)) as events,
    ):
        async for event in events:
            if isinstance(event, Stage):
                screen.stage(event)
            elif isinstance(event, Forecast):
                screen.forecast(event)
            else:
                return event
    return Problem(code=_LOST, message="the server ended in the middle")


class _Screen:
    """Forecast, progress and end: lines on standard error for people, objects on standard output for programs."""

    def __init__(self, app: App, *, quiet: bool, as_json: bool) -> None:
        self._app, self._quiet, self._json = app, quiet, as_json
        self.moved = False  # whether something was read since it was set
        self.waits = False  # whether others are served first
        self._bar: Bar | None = None

    def stage(self, stage: Stage) -> None:
        self.moved = self.moved or (stage.name == "read" and stage.done > 0)
        self.waits = stage.name == "queue"
        if self._quiet or self._json or not self._app.console.is_terminal:
            return
        if self._bar is None:
            self._bar = Bar(self._app)
            self._bar.start()
        left = "" if stage.seconds_left is None else f", {duration(stage.seconds_left)} left"
        share = f" {stage.done:,} of {stage.total:,} {stage.unit}{left}" if stage.unit else ""
        self._bar.show(one_line(stage.text) + share, stage.done, stage.total or None)

    def forecast(self, forecast: Forecast) -> None:
        if self._json:
            emit(forecast)
        elif not self._quiet:
            self._say(_forecast_text(forecast))
            if forecast.bytes_dropped:
                self._say(f"{size(forecast.bytes_dropped)} of other KV go for it, what was used longest ago first")
            self._left_out(forecast)

    def end(self, end: ReadAhead) -> int:
        self.close()
        if self._json:
            emit(end)
        elif not self._quiet:
            for note in end.notes:
                self._say(f"note: {note}")
            self._say(f"read {end.read:,} tokens in {duration(end.seconds)}; {end.stored:,} were stored before")
        return PARTLY if end.left_out else 0

    def problem(self, problem: Problem) -> int:
        self.close()
        hint = f" ({problem.hint})" if problem.hint else ""
        say(f"unabridged: error: {problem.message}{hint}")
        return exit_code(problem.code)

    def close(self) -> None:
        """End the bar, whatever was cut short."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def _left_out(self, forecast: Forecast) -> None:
        for line in left_out(forecast.left_out):
            self._say(line)

    def _say(self, text: str) -> None:
        self._app.console.print(one_line(text), markup=False)


def _forecast_text(forecast: Forecast) -> str:
    return (
        f"{forecast.collection}: {count(forecast.documents, 'document')}, {forecast.tokens:,} tokens, "
        f"{size(forecast.bytes)} of KV; {forecast.stored:,} tokens are stored, {forecast.missing:,} are to be read"
    )
