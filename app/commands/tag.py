"""`unabridged tag`: gives tags to documents, takes them away, lists them."""

from typing import TYPE_CHECKING

import click

from unabridged.app.commands.common import TEXT, App, collection_option, emit, examples, json_option, pass_app, table
from unabridged.app.commands.filtering import filter_options
from unabridged.app.printable import one_line

if TYPE_CHECKING:
    from unabridged.ingest.catalog.filters import Filter


@click.command(
    epilog=examples(
        "unabridged tag",
        "unabridged tag privileged 'letters/*' --from counsel",
        "unabridged tag privileged note.eml --remove",
        'unabridged ask "What was agreed?" --tag privileged',
    )
)
@click.argument("name", required=False, type=TEXT)
@click.argument("named", metavar="[PATTERNS]...", nargs=-1, type=TEXT)
@collection_option
@filter_options
@click.option("--remove", is_flag=True, help="Take the tag away from them.")
@json_option
@pass_app
def tag(
    app: App,
    name: str | None,
    named: tuple[str, ...],
    collection: str,
    where: "Filter",
    remove: bool,
    as_json: bool,
) -> None:
    """Give the tag NAME to documents, by PATTERNS (globs or parts of a path) and filters. Without NAME list all tags.

    Names of folders beneath an added one, of folders in archives, Gmail's labels and mail folders are tags by
    themselves. What is in a tagged document has its tag.
    """
    meant = where.also(named)
    with app.library() as library:
        if name is None:
            _list(library.tags(collection), as_json)
            return
        if not meant:
            raise click.UsageError("say which documents: patterns or filters ('*' means all)")
        paths = (library.untag if remove else library.tag)(name, meant, collection)
    for path in paths:
        if as_json:
            emit({"path": path, "tag": name, "change": "removed" if remove else "given"})
        else:
            click.echo(one_line(path))


def _list(found: dict[str, int], as_json: bool) -> None:
    if as_json:
        for name, documents in found.items():
            emit({"tag": name, "documents": documents})
        return
    table(([f"{documents:,}", name] for name, documents in found.items()), ["DOCUMENTS", "TAG"], frozenset({0}))
    if not found:
        click.echo("no tags; give one with: unabridged tag NAME PATTERN", err=True)
