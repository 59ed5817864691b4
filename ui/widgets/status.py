"""Two lines at the bottom: what runs now, and where we stand (engine, model, mode, scope, context)."""

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.reactive import reactive
from textual.widgets import Static

from unabridged.app.client import EngineHealth, Health
from unabridged.app.events import Stage
from unabridged.ui import format as words

_BAR = 12
_STATES = {
    "ready": ("●", "ready", "$text-success"),
    "starting": ("◌", "engine starting", "$text-warning"),
    "restarting": ("◌", "engine restarting", "$text-warning"),
    "stopped": ("○", "engine stopped", "$text-muted"),
    "failed": ("✗", "engine failed", "$text-error"),
}


def bar(done: int, total: int, width: int = _BAR) -> str:
    """A progress bar in text: it says as much without colours."""
    filled = min(width, done * width // total) if total else 0
    return "━" * filled + "╌" * (width - filled)


def engine_line(health: Health | None, fault: str) -> Content:
    """The engine's state in a few words; a failure with its reason."""
    if fault:
        return Content.assemble(("✗ ", "$text-error"), (words.clean_line(fault), "$text-error"))
    if health is None:
        return Content.styled("◌ connecting", "$text-muted")
    engine: EngineHealth = health.engine
    glyph, word, style = _STATES[engine.state]
    reason = f": {words.clean_line(engine.message)}" if engine.message and engine.state != "ready" else ""
    return Content.styled(f"{glyph} {word}{reason}", style)


class Progress(Static):
    """The line of what runs now; takes no room when nothing does."""

    stage: reactive[Stage | None] = reactive(None, layout=True)

    def watch_stage(self, stage: Stage | None) -> None:
        """Show or hide the line."""
        self.display = stage is not None

    def render(self) -> Content:
        """Bar, percentage and words."""
        if (stage := self.stage) is None:
            return Content("")
        share = f"{bar(stage.done, stage.total)} {min(1.0, stage.done / stage.total):4.0%} " if stage.total else "⋯ "
        return Content.assemble((share, "$text-accent"), words.stage(stage))


class State(Static):
    """The line of where we stand."""

    health: reactive[Health | None] = reactive(None)
    fault: reactive[str] = reactive("")
    mode: reactive[str] = reactive("auto")
    scope: reactive[str] = reactive("")
    narrowed: reactive[str] = reactive("")
    context: reactive[int] = reactive(0)

    def render(self) -> Content:
        """Engine first: when it fails, that is what matters."""
        parts = [engine_line(self.health, self.fault)]
        model = words.clean_line(self.health.engine.model) if self.health else ""
        # Under a filter the documents of the collection are not what is asked of.
        narrowed = f"only {words.clean_line(self.narrowed)}" if self.narrowed else ""
        scope = "" if narrowed and self.scope.startswith("all ") else self.scope
        plain = [model, self.mode, scope, narrowed, self._room()]
        parts += [Content(part) for part in plain if part]
        return Content(" │ ").join(parts)

    def _room(self) -> str:
        limit = self.health.engine.max_context if self.health else 0
        if not self.context:
            where = " in host memory" if self.health and self.health.engine.place == "host" else ""
            return f"room for {words.tokens(limit)} tokens{where}" if limit else ""
        return f"{words.tokens(self.context)} of {words.tokens(limit)} tokens" if limit else f"{self.context:,} tokens"


class StatusBar(Vertical):
    """`Progress` above `State`."""

    def compose(self) -> ComposeResult:
        """Two lines."""
        yield Progress(id="progress")
        yield State(id="state")

    @property
    def progress(self) -> Progress:
        """The line of what runs now."""
        return self.query_one(Progress)

    @property
    def state(self) -> State:
        """The line of where we stand."""
        return self.query_one(State)
