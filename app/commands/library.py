"""`ls`, `show`, `search` and `rm`: the library, without an engine and without a server."""

import sys
from typing import TYPE_CHECKING, Any

import click

from unabridged.app.commands.common import TEXT, App, collection_option, emit, examples, json_option, pass_app, table
from unabridged.app.printable import one_line, printable
from unabridged.app.rereading import Rereading

if TYPE_CHECKING:
    from unabridged.ingest.library import Library
    from unabridged.ingest.rows import DocumentRow, Hit, PageRow


@click.command(epilog=examples("unabridged ls", "unabridged ls '*.pdf' --json", "unabridged ls --problems"))
@click.argument("patterns", nargs=-1, type=TEXT)
@collection_option
@click.option("--problems", is_flag=True, help="Only documents that were not fully read, with reasons.")
@click.option("--collections", is_flag=True, help="List collections instead.")
@json_option
@pass_app
def ls(app: App, patterns: tuple[str, ...], collection: str, problems: bool, collections: bool, as_json: bool) -> None:
    """List documents: status, pages, tokens, path.

    PATTERNS are globs or parts of a path.
    """
    with app.library() as library:
        if collections:
            _collections(library, as_json)
            return
        rows = library.documents(collection, patterns)
    nothing = "no document matches" if patterns else "no documents; read some with: unabridged add FOLDER"
    if problems and rows:
        nothing = "all of them were read in full"
        rows = [row for row in rows if row.status != "read"]
    if as_json:
        for row in rows:
            emit(document_json(row))
        return
    table(
        (
            [row.status, f"{row.pages:,}", _number(row.tokens), _with_reason(row) if problems else row.path]
            for row in rows
        ),
        ["STATUS", "PAGES", "TOKENS", "PATH"],
        frozenset({1, 2}),
    )
    if not rows:
        click.echo(nothing, err=True)


@click.command(epilog=examples("unabridged show lease.pdf --page 3", "unabridged show 12 --json"))
@click.argument("document", type=TEXT)
@click.option("--page", type=click.IntRange(min=1), help="Only this page.")
@json_option
@pass_app
def show(app: App, document: str, page: int | None, as_json: bool) -> None:
    """Print the pages of DOCUMENT (a path, a part of one, or the number that `ls --json` calls id)."""
    with app.library() as library:
        row = _resolve(library, document)
        pages = [library.page(row.id, page)] if page else library.pages(row.id)
        children = [] if pages else [one for one in library.documents(None) if one.parent_id == row.id]
    if as_json:
        for one in pages:
            emit({"number": one.number, "label": one.label, "text": one.text, "flags": one.flags})
        return
    _narrate_status(row)
    for one in pages:
        if len(pages) > 1:
            click.echo(f"--- page {_page_name(one)} ---", err=not sys.stdout.isatty())
        click.echo(printable(one.text))
    for child in children:
        click.echo(one_line(f"{child.path}  {child.title}").rstrip())


@click.command(epilog=examples('unabridged search "termination notice"', "unabridged search dredging --json"))
@click.argument("query", nargs=-1, required=True, type=TEXT)
@collection_option
@click.option("--limit", type=click.IntRange(min=1), default=20, show_default=True, help="The most pages to show.")
@json_option
@pass_app
def search(app: App, query: tuple[str, ...], collection: str, limit: int, as_json: bool) -> None:
    """Find pages by their words; "quoted words" must stand together."""
    with app.library() as library:
        hits = library.search(" ".join(query), collection, limit)
    for hit in hits:
        if as_json:
            emit({"document": hit.document.path, "page": hit.page, "snippet": hit.snippet})
        else:
            click.echo(f"{click.style(one_line(hit.document.path), bold=True)}, page {one_line(hit.label) or hit.page}")
            click.echo(f"  {_marked(hit)}")
    if not hits:
        click.echo("nothing found", err=True)


@click.command(epilog=examples("unabridged rm old.pdf", "unabridged rm '*.html' --collection lease"))
@click.argument("patterns", nargs=-1, type=TEXT)
@collection_option
@click.option("--all", "everything", is_flag=True, help="Remove the whole collection.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@json_option
@pass_app
def rm(app: App, patterns: tuple[str, ...], collection: str, everything: bool, yes: bool, as_json: bool) -> None:
    """Take documents out of a collection. The files themselves are never touched.

    Keys and values that a model has stored of them stay on the disk until they are evicted: the last line says how.
    """
    if bool(patterns) == everything:
        raise click.UsageError("name what to remove, or give --all")
    if "" in patterns:
        # An unset variable of a script must not empty the collection.
        raise click.UsageError("an empty name would match everything; give --all for that")
    from unabridged.app.commands.remains import remains

    with app.library() as library:
        rereading = Rereading(library, collection)
        if everything:
            if not yes and sys.stdin.isatty():
                click.confirm(f"Remove all documents of collection {collection!r}?", abort=True, err=True)
            gone = library.remove_collection(collection)
        else:
            gone = library.remove(patterns, collection)
        note = rereading.note()
    for path in gone:
        if as_json:
            emit({"path": path, "change": "removed"})
        else:
            click.echo(one_line(path))
    for line in (note, remains(app.locations.kv, collection)):
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
        "id": row.id,
        "title": row.title,
    }


def _collections(library: "Library", as_json: bool) -> None:
    rows = library.collections()
    if as_json:
        for row in rows:
            emit(row)
        return
    table(
        (
            [f"{row.files:,}", f"{row.documents:,}", f"{row.pages:,}", _number(row.tokens), row.composition, row.name]
            for row in rows
        ),
        ["FILES", "DOCUMENTS", "PAGES", "TOKENS", "READ", "COLLECTION"],
        frozenset({0, 1, 2, 3}),
    )


def _resolve(library: "Library", name: str) -> "DocumentRow":
    """The one document that `name` means. Raises DocumentNotFound."""
    from pathlib import Path

    from unabridged.ingest.errors import DocumentNotFound

    if not name:
        raise click.UsageError("the document's name is empty")
    if name.isascii() and name.isdigit():
        return library.document(int(name))
    every = library.documents(None)
    wanted = {name, str(Path(name).expanduser().absolute())}
    exact = [row for row in every if row.path in wanted or wanted & set(row.also)]
    near = exact or [row for row in every if row.path.endswith(f"/{name}")] or library.documents(None, [name])
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


def _marked(hit: "Hit") -> str:
    """The snippet on one line, with the words that matched in bold."""
    out, at = [], hit.start
    for first, last in hit.marks:
        start, end = first - hit.start, last - hit.start
        out += [
            printable(hit.snippet[at - hit.start : start]),
            click.style(printable(hit.snippet[start:end]), bold=True),
        ]
        at = last
    out.append(printable(hit.snippet[at - hit.start :]))
    return " ".join("".join(out).split())


def _with_reason(row: "DocumentRow") -> str:
    return f"{row.path}: {row.reason}" if row.reason else row.path


def _number(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"
