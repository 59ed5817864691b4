"""`unabridged search`: pages by their words, without an engine and without a server."""

import shlex
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from unabridged.app.commands.common import TEXT, App, collection_option, emit, examples, json_option, pass_app
from unabridged.app.commands.filtering import filter_options, nothing
from unabridged.app.places import place
from unabridged.app.printable import one_line, printable

if TYPE_CHECKING:
    from unabridged.ingest.catalog.filters import Filter
    from unabridged.ingest.catalog.rows import Hit


_NAMES = 10  # documents found by their names that are shown
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
    """Find pages by their words, and documents by their names; pages with all words come first.

    "quoted words" must stand together, terminat* is the beginning of a word, a number such as 27,315 is looked for as a
    whole. There is no AND, OR, NOT: the options narrow a search. Hidden and deleted text is not searched; where nothing
    else has all words, pages that hide them are named.
    """
    from unabridged.ingest.catalog.query import not_understood

    words = " ".join(query)
    with app.library() as library:
        named = library.named(words, collection, where)
        hits = library.search(words, collection, limit, where=where)
        whole = sum(hit.all_words for hit in hits)
        hidden = [] if whole else library.hidden(words, collection, where)
        none = "nothing found" if hits or library.documents(collection, where) else nothing(library, collection, where)
    for row in named[:_NAMES]:
        if as_json:
            emit({"document": row.path, "page": min(1, row.pages), "snippet": row.title, "found": "name"})
        else:
            title = f": {one_line(row.title)}" if row.title else ""
            click.echo(f"{click.style(one_line(row.path), bold=True)}, by its name{title}")
    for hit in hits:
        if as_json:
            emit(
                {
                    "document": hit.document.path,
                    "page": hit.page,
                    "snippet": hit.snippet,
                    "found": "all words" if hit.all_words else "some words",
                }
            )
        else:
            at = place(hit.page, one_line(hit.label))
            click.echo(f"{click.style(one_line(hit.document.path), bold=True)}, {at}")
            click.echo(f"  {_marked(hit)}")
    for line in _remarks(not_understood(words), len(named), len(hits), whole, hidden):
        click.echo(one_line(line), err=True)
    if not (hits or named or hidden):
        click.echo(one_line(none), err=True)


def _remarks(misread: str, named: int, hits: int, whole: int, hidden: list[tuple[str, int]]) -> Iterator[str]:
    """What people must know to read the list rightly."""
    if misread:
        yield misread
    if named > _NAMES:
        yield f"{named - _NAMES:,} more documents have it in their names"
    if hits and not whole:
        yield "no page has all words, these have some of them"
    elif whole < hits:
        yield f"{whole:,} of these {hits:,} pages {'has' if whole == 1 else 'have'} all words, the others some of them"
    if hidden:
        path, page = hidden[0]
        many = f"{len(hidden):,} pages have" if len(hidden) > 1 else "1 page has"
        yield f"{many} it in hidden text, which is not searched: unabridged show {shlex.quote(path)} --page {page}"


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
