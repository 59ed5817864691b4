"""`unabridged library`: check, rebuild, back up and restore the library."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from unabridged.app.cli import FAILED, PARTLY
from unabridged.app.commands.bar import Bar
from unabridged.app.commands.common import App, emit, examples, json_option, pass_app
from unabridged.app.errors import ServerBusy
from unabridged.app.output import count, size
from unabridged.app.printable import one_line

if TYPE_CHECKING:
    from unabridged.ingest.catalog.findings import Finding
    from unabridged.ingest.catalog.outdated import Outdated
    from unabridged.ingest.library import Library


@click.group(epilog=examples("unabridged library verify", "unabridged library backup case.backup"))
def library() -> None:
    """Check the library, make its index anew, back it up and restore it. Files that were added are never altered."""


@library.command(epilog=examples("unabridged library verify", "unabridged library verify --no-files --json"))
@click.option("--files/--no-files", default=True, help="Compare the bytes of all files with those that were read, too.")
@click.option("--index/--no-index", default=True, help="Compare the search index with every page, too.")
@json_option
@pass_app
def verify(app: App, files: bool, index: bool, as_json: bool) -> int:
    """Check the database, tokens, the search index against the pages, and the files on the disk.

    What is damaged makes the exit code 1; files that have changed or gone since they were read make it 4.
    """
    from unabridged.ingest.catalog.audit import PARTS, audit
    from unabridged.ingest.catalog.findings import Checked

    parts = tuple(part for part in PARTS if {"files": files, "index": index}.get(part, True))
    grades = {"damaged": 0, "stale": 0}
    with app.library() as opened, _bar(app) as show:
        for step in audit(opened, parts):
            if isinstance(step, Checked):
                show(f"checking {step.part}", step.done, step.total)
                continue
            grades[step.grade] += 1
            _tell(app, step, as_json)
    if not as_json:
        checked = ", ".join(parts)
        app.console.print(
            f"checked {checked}: {grades['damaged']:,} damaged, {grades['stale']:,} not up to date", markup=False
        )
    return FAILED if grades["damaged"] else PARTLY if grades["stale"] else 0


@library.command(epilog=examples("unabridged library reindex", "unabridged library reindex --text --list"))
@click.option("--text", is_flag=True, help="Read again what readers of another version have read.")
@click.option("--list", "only_list", is_flag=True, help="With --text: only list what would be read again.")
@json_option
@pass_app
def reindex(app: App, text: bool, only_list: bool, as_json: bool) -> int:
    """Make the search index anew from the stored pages.

    With --text, files are read again whose readers have changed since, and those only.
    """
    if only_list and not text:
        raise click.UsageError("--list goes with --text")
    with app.library() as opened:
        if not text:
            _reindex(app, opened)
            return 0
        old = opened.outdated()
        if only_list or not old:
            _list(app, old, as_json)
            return 0
        return _read_again(app, opened, old, as_json)


@library.command(
    epilog=examples("unabridged library backup case.backup", "unabridged library backup case.backup --force")
)
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--force", is_flag=True, help="Replace the file.")
@pass_app
def backup(app: App, file: Path, force: bool) -> None:
    """Write the whole library to FILE: pages, tokens, search index, collections.

    It is a copy of one moment, checked, and a file that takes its name at once. The library can be used meanwhile.
    Conversations, models and stored keys and values are not in it.
    """
    from unabridged.ingest.catalog.backup import backup as back_up

    with app.library() as opened, _bar(app) as show:
        written = back_up(opened, file, force=force, on_pages=partial(show, "copying"))
    app.console.print(one_line(f"{file}: {size(written)}"), markup=False)


@library.command(epilog=examples("unabridged library restore case.backup"))
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--force", is_flag=True, help="Replace what the library holds now.")
@pass_app
def restore(app: App, file: Path, force: bool) -> None:
    """Make the library what the backup FILE says.

    All or nothing, whatever stops it. A library that holds files is only replaced with --force.
    """
    from unabridged.app import runtime
    from unabridged.ingest.catalog.backup import restore as restore_from

    running = runtime.read(app.locations.server_file)
    if running is not None and runtime.alive(running.pid):
        raise ServerBusy(f"the server (process {running.pid}) uses the library", "stop it first, then restore")
    app.locations.create()
    with _bar(app) as show:
        restore_from(file, app.locations.library, force=force, on_pages=partial(show, "restoring"))
    with app.library() as opened:
        counts = opened.counts(None)
    told = f"{count(counts.files, 'file')}, {count(counts.documents, 'document')}, {count(counts.pages, 'page')}"
    app.console.print(f"restored: {told}", markup=False)


def _tell(app: App, finding: "Finding", as_json: bool) -> None:
    if as_json:
        emit(finding._asdict())
        return
    where = f"{finding.path}: " if finding.path else ""
    hint = f" ({finding.hint})" if finding.hint else ""
    app.console.print(one_line(f"{finding.grade}  {where}{finding.text}{hint}"), markup=False)


def _reindex(app: App, opened: "Library") -> None:
    with _bar(app) as show:
        for done, total in opened.reindex():
            show("indexing", done, total)
    app.console.print(f"indexed {count(opened.counts(None).pages, 'page')}", markup=False)


def _list(app: App, old: "list[Outdated]", as_json: bool) -> None:
    for one in old:
        if as_json:
            emit(one._asdict())
        else:
            click.echo(one_line(one.path))
    app.console.print(f"{count(len(old), 'file')} read by older readers", markup=False)


def _read_again(app: App, opened: "Library", old: "Iterable[Outdated]", as_json: bool) -> int:
    from itertools import groupby
    from time import monotonic

    import msgspec

    from unabridged.app.adding import options_of
    from unabridged.app.commands.narration import Manner, narrate, summary
    from unabridged.app.tally import Tally
    from unabridged.ingest.adding.add import add
    from unabridged.ingest.catalog.outdated import present

    settings = app.settings()
    options = msgspec.structs.replace(options_of(settings.ingest), force=True)
    tokenizer, tally, began = app.tokenizer(settings.model.name), Tally(), monotonic()
    here, gone = present(old)
    for one in gone:
        app.console.print(one_line(f"kept as it was read  {one.path}: gone from the disk"), markup=False)
    for collection, files in groupby(sorted(here, key=lambda one: one.collection), key=lambda one: one.collection):
        items = add(opened, [one.path for one in files], collection, tokenizer, options)
        tally.join(narrate(app, items, Manner(plain=as_json or not app.console.is_terminal, as_json=as_json)))
    summary(app, tally, monotonic() - began)
    return PARTLY if tally.unread() or gone else 0


@contextmanager
def _bar(app: App) -> Iterator[Callable[[str, int, int], None]]:
    """What shows how much is done of how much, where standard error is a terminal."""
    if not app.console.is_terminal:
        yield lambda text, done, total: None
        return
    with Bar(app) as bar:

        def show(text: str, done: int, total: int) -> None:
            bar.show(text + (f" {done:,} of {total:,}" if total else ""), done, total or None)

        yield show
