"""`unabridged add`: read files and folders, with progress for people and a line for each file that was not read."""

import sys
import time
from collections.abc import Iterable, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, get_args

import click

from unabridged.app.cli import FAILED, PARTLY
from unabridged.app.commands.common import App, collection_option, emit, examples, json_option, pass_app
from unabridged.app.commands.following import Followed, follow
from unabridged.app.commands.narration import Manner, narrate, summary
from unabridged.app.commands.passwords import Watched, ask, can_ask, in_file
from unabridged.app.commands.reading_ahead import read_ahead
from unabridged.app.events import Composing
from unabridged.app.output import count
from unabridged.app.printable import one_line
from unabridged.app.rereading import Rereading
from unabridged.app.tally import Tally

if TYPE_CHECKING:
    from unabridged.ingest.catalog.rows import AddItem

_EXAMPLES = examples(
    "unabridged add ~/case",
    "unabridged add contract.pdf mail.mbox --collection lease",
    "unabridged add ~/case --exclude '*.html' --password-file secret.txt",
    "unabridged add ~/case --prefill",
    "unabridged add ~/case --watch",
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
    "--password-file",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help="Passwords, one a line, that are tried on locked files. Without it they are asked for at a terminal.",
)
@click.option("--force", is_flag=True, help="Read unchanged files again.")
@click.option("--hidden/--no-hidden", default=None, help="Read files whose names begin with a dot too.")
@click.option("--gitignore/--no-gitignore", default=None, help="Pass over what .gitignore files name, too.")
@click.option("--forget-rules", is_flag=True, help="Leave out nothing but what this command says.")
@click.option("--list-ignored", is_flag=True, help="Name every file that a rule leaves out.")
@click.option("--prefill", is_flag=True, help="Let the model read the collection too, so that questions find it read.")
@click.option("--watch", is_flag=True, help="Stay, and read what changes in the folders, until Ctrl+C.")
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
    hidden: bool | None,
    gitignore: bool | None,
    forget_rules: bool,
    list_ignored: bool,
    prefill: bool,
    watch: bool,
    quiet: bool,
    as_json: bool,
) -> int:
    """Read files and folders into a collection.

    Only what is new or changed is read. Files are never altered. What cannot be read is listed with its reason, and the
    exit code is 4 then. Names that begin with a dot are left out, and what .unabridgedignore files name (as .gitignore
    files do); patterns are remembered with a folder. Without PATHS the collection's folders are looked at again. With
    --prefill the model reads the collection onto the disk; interrupted, the same command goes on from there.
    Passwords of locked files are asked for at the end; they are never stored.
    """
    import msgspec

    from unabridged.app.adding import options_of
    from unabridged.ingest.adding.add import add as adding
    from unabridged.ingest.adding.locked import locked_files
    from unabridged.ingest.catalog import ocr_due
    from unabridged.ingest.paths import on_disk

    settings = app.settings()
    app.locations.create()
    options = msgspec.structs.replace(
        options_of(settings.ingest),
        include=include or (() if forget_rules else None),
        exclude=exclude or (() if forget_rules else None),
        hidden=False if forget_rules and hidden is None else hidden,
        gitignore=False if forget_rules and gitignore is None else gitignore,
        force=force,
        passwords=in_file(password_file) if password_file else (),
    )
    if watch and (files := [path for path in paths if path.exists() and not path.is_dir()]):
        raise click.UsageError(f"--watch follows folders, and {one_line(str(files[0]))} is a file")
    began = time.monotonic()
    with app.library() as library:
        tokenizer = app.tokenizer(settings.model.name)
        rereading = Rereading(library, collection)
        if composition is not None:
            library.compose(collection, composition)
        before = ocr_due.last_document(library.connection)
        watched = Watched(paths)
        with closing(adding(library, paths, collection, tokenizer, options)) as items:
            manner = Manner(quiet or as_json or not sys.stderr.isatty(), as_json, list_ignored)
            tally = narrate(app, watched.through(items), manner)
        if not (quiet or as_json) and can_ask():

            def read(some: Sequence[str], passwords: Sequence[str]) -> "Iterable[AddItem]":
                tried = msgspec.structs.replace(options, passwords=(*passwords, *options.passwords), force=False)
                return adding(library, [on_disk(path) for path in some], collection, tokenizer, tried)

            ask(app, lambda: locked_files(library.connection, collection), watched, read, tally)
        languages = ""
        if ocr_due.recognised_since(library.connection, before):
            from unabridged.app.ocr_found import languages_note

            languages = languages_note(settings.ingest)
        notes = [rereading.note(), _outdated(len(library.outdated())), languages]
    seconds = time.monotonic() - began
    summary(app, tally, seconds)
    if as_json:
        emit(tally.account(collection, round(seconds, 3)))
    for note in filter(None, notes):
        app.console.print(one_line(note), markup=False)
    code = _exit_code(tally)
    if prefill and code != FAILED:
        code = read_ahead(app, settings, collection, (), quiet=quiet, as_json=as_json) or code
    if watch:
        follow(app, settings, collection, Followed(prefill, quiet, as_json))
    return code


def _outdated(files: int) -> str:
    if not files:
        return ""
    return f"{count(files, 'file')} read by older readers: `unabridged library reindex --text` reads them again"


def _exit_code(tally: Tally) -> int:
    if not tally.unread():
        return 0
    return PARTLY if tally.statuses["read"] or tally.statuses["partial"] else FAILED
