"""`ls`, `show` and `rm`: the library, without an engine and without a server."""

import sys
from typing import TYPE_CHECKING, Any

import click

from unabridged.app.commands.common import TEXT, App, collection_option, emit, examples, json_option, pass_app, table
from unabridged.app.commands.filtering import filter_options, nothing
from unabridged.app.output import figure
from unabridged.app.printable import one_line, printable
from unabridged.app.rereading import Rereading

if TYPE_CHECKING:
    from unabridged.ingest.catalog.filters import Filter
    from unabridged.ingest.catalog.rows import DocumentRow, PageRow
    from unabridged.ingest.library import Library

_EMPTY = "no documents; read some with: unabridged add FOLDER"


@click.command(
    epilog=examples(
        "unabridged ls",
        "unabridged ls '*.pdf' --json",
        "unabridged ls --from ines --since 30d",
        "unabridged ls --problems",
        "unabridged ls --ignored",
    )
)
@click.argument("named", metavar="[PATTERNS]...", nargs=-1, type=TEXT)
@collection_option
@filter_options
@click.option("--problems", is_flag=True, help="Only documents and pages that were not fully read, with reasons.")
@click.option("--ignored", is_flag=True, help="List the files that rules leave out instead.")
@click.option("--collections", is_flag=True, help="List collections instead.")
@json_option
@pass_app
def ls(
    app: App,
    named: tuple[str, ...],
    collection: str,
    where: "Filter",
    problems: bool,
    ignored: bool,
    collections: bool,
    as_json: bool,
) -> None:
    """List documents: status, pages, tokens, path. Files of the same bytes are read once; the others are its copies.

    PATTERNS are globs or parts of a path.
    """
    from unabridged.app.commands import report

    with app.library() as library:
        if collections:
            _collections(library, as_json)
            return
        if ignored:
            report.ignored(app, library, collection, as_json)
            return
        where = where.also(named)
        rows = library.documents(collection, where)
        none = nothing(library, collection, where) if where and not rows else _EMPTY
        found = report.problems(library, rows) if problems else []
    if problems and rows:
        none = "all of them were read in full"
        rows = [row for row, _ in found]
    if as_json:
        pages = {row.id: problems for row, problems in found}
        for row in rows:
            emit(document_json(row) | ({"problem_pages": pages[row.id]} if problems else {}))
        return
    if problems:
        report.tell_problems(found)
    else:
        table(
            (cells for row in rows for cells in report.lines(row)),
            ["STATUS", "PAGES", "TOKENS", "PATH"],
            frozenset({1, 2}),
        )
    if not rows:
        click.echo(one_line(none), err=True)


@click.command(
    epilog=examples(
        "unabridged show lease.pdf --page 3", "unabridged show lease.pdf --map", "unabridged show 12 --json"
    )
)
@click.argument("document", type=TEXT)
@click.option("--collection", "-c", type=TEXT, help="Look in this collection only.")
@click.option("--page", type=click.IntRange(min=1), help="Only this page.")
@click.option("--map", "as_map", is_flag=True, help="What became of each page, the outline, and what it holds.")
@json_option
@pass_app
def show(app: App, document: str, collection: str | None, page: int | None, as_map: bool, as_json: bool) -> None:
    """Print the pages of DOCUMENT (a path, a part of one, or the number that `ls --json` calls id).

    With --map, a line for each page instead: number, label, status (read, unread, empty, doubtful), characters, tokens,
    score, what read it, flags, and how much of it is quoted, hidden, a note and so on.
    """
    if page and as_map:
        raise click.UsageError("--page and --map do not go together")
    with app.library() as library:
        row = _resolve(library, document, collection)
        children = library.children(row.id)
        if as_map:
            _show_map(library, row, children, as_json)
            return
        pages = [library.page(row.id, page)] if page else library.pages(row.id)
    if as_json:
        for one in pages:
            emit({"number": one.number, "label": one.label, "text": one.text, "flags": one.flags})
        return
    _narrate_status(row)
    for one in pages:
        if len(pages) > 1:
            click.echo(f"--- page {_page_name(one)} ---", err=not sys.stdout.isatty())
        click.echo(printable(one.text))
    for child in [] if pages else children:
        click.echo(one_line(f"{child.path}  {child.title}").rstrip())


def _show_map(library: "Library", row: "DocumentRow", children: "list[DocumentRow]", as_json: bool) -> None:
    from unabridged.app.commands import report

    pages = library.page_map(row.id)
    if as_json:
        emit(report.map_json(row, pages, children, document_json(row)))
        return
    _narrate_status(row)
    report.tell_map(row, pages, children)


@click.command(epilog=examples("unabridged rm old.pdf", "unabridged rm '*.html' --collection lease"))
@click.argument("patterns", nargs=-1, type=TEXT)
@collection_option
@click.option("--all", "everything", is_flag=True, help="Remove the whole collection.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@json_option
@pass_app
def rm(app: App, patterns: tuple[str, ...], collection: str, everything: bool, yes: bool, as_json: bool) -> None:
    """Take documents out of a collection. The files themselves are never touched.

    The next `add` of their folder reads them again, unless .unabridgedignore or --exclude names them. Keys and values
    that a model has stored of them stay on the disk until they are evicted: the last line says how.
    """
    if bool(patterns) == everything:
        raise click.UsageError("name what to remove, or give --all")
    if "" in patterns:
        # An unset variable of a script must not empty the collection.
        raise click.UsageError("an empty name would match everything; give --all for that")
    from unabridged.app.commands.coming_back import coming_back
    from unabridged.app.commands.remains import remains

    with app.library() as library:
        rereading = Rereading(library, collection)
        if everything:
            if not yes and sys.stdin.isatty():
                click.confirm(f"Remove all documents of collection {collection!r}?", abort=True, err=True)
            gone = library.remove_collection(collection)
        else:
            gone = library.remove(patterns, collection)
        notes = [coming_back(library, collection, gone), rereading.note()]
    for path in gone:
        if as_json:
            emit({"path": path, "change": "removed"})
        else:
            click.echo(one_line(path))
    for line in (*notes, remains(app.locations.kv, collection)):
        if line:
            app.console.print(one_line(line), markup=False)


def document_json(row: "DocumentRow") -> dict[str, Any]:
    """A document as `ls --json` prints it."""
    return {
        "path": row.path,
        "kind": row.kind,
        "status": row.status,
        "reason": row.reason,
        "pages": row.pages,
        "tokens": row.tokens,
        "sha256": row.sha256,
        "parent": row.parent or None,
        "also": row.also,
        "id": row.id,
        "title": row.title,
        "date": row.date,
        "dated": row.dated,  # where the date is from: message, metadata or file
        "thread": row.thread,
        "tags": row.tags,
        "meta": row.meta,
    }


def _collections(library: "Library", as_json: bool) -> None:
    rows = library.collections()
    if as_json:
        for row in rows:
            emit(row)
        return
    table(
        (
            [f"{row.files:,}", f"{row.documents:,}", f"{row.pages:,}", figure(row.tokens), row.composition, row.name]
            for row in rows
        ),
        ["FILES", "DOCUMENTS", "PAGES", "TOKENS", "READ", "COLLECTION"],
        frozenset({0, 1, 2, 3}),
    )


def _resolve(library: "Library", name: str, collection: str | None) -> "DocumentRow":
    """The one document of a collection (None: of any) that `name` means. Raises DocumentNotFound and, for a collection
    that is not there, CollectionNotFound."""
    from unabridged.ingest.errors import DocumentNotFound
    from unabridged.ingest.paths import expanded

    if not name:
        raise click.UsageError("the document's name is empty")
    if name.isascii() and name.isdigit():
        return library.document(int(name))
    every = library.documents(collection)
    wanted = {name, str(expanded(name).absolute())}
    exact = [row for row in every if row.path in wanted or wanted & set(row.also)]
    near = exact or [row for row in every if row.path.endswith(f"/{name}")] or library.documents(collection, [name])
    if not near:
        raise DocumentNotFound(f"no document {name!r} in the library", "`unabridged ls` lists them")
    top = [row for row in near if row.parent_id is None] or near
    if len(top) > 1:
        shown = ", ".join(row.path for row in top[:3])
        raise DocumentNotFound(f"{len(top)} documents match {name!r}", f"say which: {shown}")
    return top[0]


def _narrate_status(row: "DocumentRow") -> None:
    if row.status != "read":
        click.echo(one_line(f"{row.path}: {row.status.replace('_', ' ')}: {row.reason}"), err=True)


def _page_name(page: "PageRow") -> str:
    return f"{page.number} ({one_line(page.label)})" if page.label else str(page.number)
