"""`unabridged search`: pages by their words, without an engine and without a server."""

from typing import TYPE_CHECKING

import click

from unabridged.app.commands.common import TEXT, App, collection_option, emit, examples, json_option, pass_app
from unabridged.app.commands.filtering import filter_options, nothing
from unabridged.app.places import place
from unabridged.app.printable import one_line, printable

if TYPE_CHECKING:
    from unabridged.ingest.catalog.filters import Filter
    from unabridged.ingest.catalog.rows import Hit


_MOST = 100_000  # pages: more than anyone looks through


@click.command(
    epilog=examples('unabridged search "termination notice"', "unabridged search dredging --from ines --json")
)
@click.argument("query", nargs=-1, required=True, type=TEXT)
@collection_option
@filter_options
@click.option("--limit", type=click.IntRange(1, _MOST), default=20, show_default=True, help="The most pages to show.")
@json_option
@pass_app
def search(app: App, query: tuple[str, ...], collection: str, where: "Filter", limit: int, as_json: bool) -> None:
    """Find pages by their words; "quoted words" must stand together."""
    with app.library() as library:
        hits = library.search(" ".join(query), collection, limit, where=where)
        none = "nothing found" if hits or library.documents(collection, where) else nothing(library, collection, where)
    for hit in hits:
        if as_json:
            emit({"document": hit.document.path, "page": hit.page, "snippet": hit.snippet})
        else:
            at = place(hit.page, one_line(hit.label))
            click.echo(f"{click.style(one_line(hit.document.path), bold=True)}, {at}")
            click.echo(f"  {_marked(hit)}")
    if not hits:
        click.echo(one_line(none), err=True)


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
