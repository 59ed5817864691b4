"""What is said of an addition: a bar while it runs, a line for each file that was not read, and an account at its end
in which everything that lies there adds up."""

from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from unabridged.app.commands.bar import Bar
from unabridged.app.commands.common import App, emit
from unabridged.app.output import duration
from unabridged.app.printable import one_line
from unabridged.app.tally import Tally

if TYPE_CHECKING:
    from unabridged.ingest.catalog.rows import AddItem, FileDone, Ignored, Progress


@dataclass(frozen=True)
class Manner:
    """How it is told. `ignored`: each file that a rule leaves out is named."""

    plain: bool = False
    as_json: bool = False
    ignored: bool = False


def narrate(app: App, items: "Iterable[AddItem]", manner: Manner) -> Tally:
    """Tells the steps of an addition as they come."""
    from unabridged.ingest.catalog.rows import FileDone, Ignored

    tally = Tally()
    with ExitStack() as stack:
        bar = None if manner.plain else stack.enter_context(Bar(app, counts=True))
        for item in items:
            if isinstance(item, FileDone):
                tally.file(item)
                _tell_file(app, item, manner)
            elif isinstance(item, Ignored):
                tally.left_out(item)
                if manner.ignored:
                    _tell_ignored(app, item, manner)
            elif bar:
                bar.show(_doing(item), item.done, item.total if item.walked else None)
    return tally


def summary(app: App, tally: Tally, seconds: float) -> None:
    """The account."""
    parts = [f"{count:,} {name}" for name, count in sorted(tally.changes.items())]
    problems = _counts({name: count for name, count in tally.statuses.items() if name != "read"})
    text = f"{tally.statuses.total():,} files ({', '.join(parts) or 'nothing there'}) in {seconds:.1f} s"
    if problems:
        text += f"; not fully read: {problems}"
    if tally.inside:
        text += f"; of what files hold: {_counts(tally.inside)} (`unabridged ls --problems` names them)"
    app.console.print(text, markup=False)
    if tally.ignored.total():
        rules = ", ".join(f"{count:,} by {rule}" for rule, count in tally.ignored.most_common())
        app.console.print(one_line(f"left out besides: {tally.ignored.total():,} files ({rules})"), markup=False)


def _counts(statuses: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {name.replace('_', ' ')}" for name, count in sorted(statuses.items()) if count)


def _tell_file(app: App, item: "FileDone", manner: Manner) -> None:
    if manner.as_json:
        emit(item)
    elif item.change != "removed" and (item.status != "read" or item.inside):
        reasons = [item.reason] if item.reason else []
        if item.inside:
            reasons.append(f"of {item.documents - 1:,} in it {_counts(item.inside)}")
        reason = f": {'; '.join(reasons)}" if reasons else ""
        app.console.print(one_line(f"{item.status.replace('_', ' ')}  {item.path}{reason}"), markup=False)


def _tell_ignored(app: App, item: "Ignored", manner: Manner) -> None:
    if manner.as_json:
        emit({"path": item.path, "ignored": item.rule, "files": item.files})
    else:
        app.console.print(one_line(ignored_line(item)), markup=False)


def ignored_line(item: "Ignored") -> str:
    """A file or folder that is left out, as a line."""
    return f"ignored  {item.path}: {item.rule}" + (f" ({item.files:,} files)" if item.files != 1 else "")


def _doing(item: "Progress") -> str:
    left = "" if item.seconds_left is None else f"  {duration(item.seconds_left)} left"
    pages = f" ({item.pages:,} pages)" if item.pages else ""
    return (one_line(Path(item.current).name) + pages if item.current else "looking for files") + left
