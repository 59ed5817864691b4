"""`unabridged add`: read files and folders, with progress for people and a line for each file that was not read."""

import sys
import time
from collections import Counter
from collections.abc import Iterable
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING, get_args

import click

from unabridged.app.cli import FAILED, PARTLY
from unabridged.app.commands.common import App, collection_option, emit, examples, json_option, pass_app
from unabridged.app.events import Composing
from unabridged.app.printable import one_line
from unabridged.app.rereading import Rereading

if TYPE_CHECKING:
    from unabridged.ingest.rows import AddItem, FileDone, Progress

_EXAMPLES = examples(
    "unabridged add ~/case",
    "unabridged add contract.pdf mail.mbox --collection lease",
    "unabridged add ~/case --exclude '*.html' --password-file secret.txt",
    "unabridged add ~/case --prefill",
    "unabridged add                # look again at the folders that were added",
    "unabridged add --collection lease --composition joint",
)


@click.command(epilog=_EXAMPLES)
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path))
@collection_option
@click.option(
    "--composition",
    type=click.Choice(get_args(Composing)),
    help="How the collection is read from now on: each document by itself, so that others can come and go beside it; "
    "all as one text, in which more is found and everything behind a change is read again; or, at first, by its size.",
)
@click.option("--include", multiple=True, help="Read only files that match (gitignore syntax); may be repeated.")
@click.option("--exclude", multiple=True, help="Pass over files that match; may be repeated.")
@click.option(
    "--password-file", type=click.Path(path_type=Path, dir_okay=False, exists=True), help="Tried on locked files."
)
@click.option("--force", is_flag=True, help="Read unchanged files again.")
@click.option("--hidden", is_flag=True, help="Read files whose names begin with a dot too.")
@click.option("--prefill", is_flag=True, help="Let the model read the collection too, so that questions find it read.")
@click.option("--quiet", "-q", is_flag=True, help="No progress.")
@json_option
@pass_app
def add(
    app: App,
    paths: tuple[Path, ...],
    collection: str,
    composition: Composing | None,
    include: tuple[str, ...],
    exclude: tuple[str, ...],
    password_file: Path | None,
    force: bool,
    hidden: bool,
    prefill: bool,
    quiet: bool,
    as_json: bool,
) -> int:
    """Read files and folders into a collection.

    Only what is new or changed is read. Files are never altered. What cannot be read is listed with its reason, and the
    exit code is 4 then. Without PATHS the collection's folders are looked at again. With --prefill the model reads the
    collection onto the disk; interrupted, the same command goes on from there.
    """
    import msgspec

    from unabridged.app.adding import options_of
    from unabridged.ingest.add import add as adding

    settings = app.settings()
    app.locations.create()
    options = msgspec.structs.replace(
        options_of(settings.ingest),
        include=include,
        exclude=exclude,
        force=force,
        hidden=hidden,
        password=_password(password_file),
    )
    began = time.monotonic()
    with app.library() as library:
        tokenizer = app.tokenizer(settings.model.name)
        rereading = Rereading(library, collection)
        if composition is not None:
            library.compose(collection, composition)
        with closing(adding(library, paths, collection, tokenizer, options)) as items:
            statuses, changes = _narrate(app, items, quiet or as_json or not sys.stderr.isatty(), as_json)
        note = rereading.note()
    _summary(app, statuses, changes, time.monotonic() - began)
    if note:
        app.console.print(one_line(note), markup=False)
    code = _exit_code(statuses)
    if not prefill or code == FAILED:
        return code
    from unabridged.app.commands.reading_ahead import read_ahead

    return read_ahead(app, settings, collection, (), quiet=quiet, as_json=as_json) or code


def _exit_code(statuses: Counter[str]) -> int:
    unread = sum(count for status, count in statuses.items() if status != "read")
    if not unread:
        return 0
    return PARTLY if statuses["read"] or statuses["partial"] else FAILED


def _password(file: Path | None) -> str | None:
    if file is None:
        return None
    try:
        return file.read_text("utf-8").rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise click.UsageError(f"the password file {file} is not UTF-8 text") from error


def _narrate(app: App, items: "Iterable[AddItem]", plain: bool, as_json: bool) -> tuple[Counter[str], Counter[str]]:
    from unabridged.ingest.rows import FileDone

    statuses: Counter[str] = Counter()
    changes: Counter[str] = Counter()
    with ExitStack() as stack:
        bar = None if plain else stack.enter_context(_Bar(app))
        for item in items:
            if not isinstance(item, FileDone):
                if bar:
                    bar.show(item)
                continue
            changes[item.change] += 1
            if item.change != "removed":
                statuses[item.status] += 1
            if as_json:
                emit(item)
            elif item.status != "read" and item.change != "removed":
                app.console.print(_problem(item), markup=False)
    return statuses, changes


def _problem(item: "FileDone") -> str:
    reason = f": {item.reason}" if item.reason else ""
    return one_line(f"{item.status.replace('_', ' ')}  {item.path}{reason}")


def _summary(app: App, statuses: Counter[str], changes: Counter[str], seconds: float) -> None:
    parts = [f"{count:,} {name}" for name, count in sorted(changes.items())]
    problems = [f"{count:,} {name.replace('_', ' ')}" for name, count in sorted(statuses.items()) if name != "read"]
    text = f"{statuses.total():,} files ({', '.join(parts) or 'nothing there'}) in {seconds:.1f} s"
    app.console.print(text + (f"; not fully read: {', '.join(problems)}" if problems else ""), markup=False)


class _Bar:
    """A progress bar on standard error that vanishes at the end."""

    def __init__(self, app: App) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.description}", markup=False),
        )
        self._progress = Progress(*columns, console=app.console, transient=True)
        self._task = self._progress.add_task("", total=None)

    def __enter__(self) -> "_Bar":
        self._progress.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._progress.stop()

    def show(self, item: "Progress") -> None:
        pages = f" ({item.pages} pages)" if item.pages else ""
        self._progress.update(
            self._task,
            completed=item.done,
            total=item.total if item.walked else None,
            description=one_line(Path(item.current).name) + pages,
        )
