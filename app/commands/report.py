"""What became of files and pages: problems by document and page, the map of a document, what rules leave out."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click
import msgspec

from unabridged.app.commands.common import App, emit, table
from unabridged.app.commands.narration import ignored_line
from unabridged.app.context import ranges
from unabridged.app.output import count, figure
from unabridged.app.printable import one_line

if TYPE_CHECKING:
    from unabridged.ingest.catalog.page_map import PageFacts, PageProblem
    from unabridged.ingest.catalog.rows import DocumentRow
    from unabridged.ingest.library import Library


def problems(library: "Library", rows: "Sequence[DocumentRow]") -> "list[tuple[DocumentRow, list[PageProblem]]]":
    """The documents that were not read in full, or have pages that were not read as they should be."""
    pages = library.problem_pages([row.id for row in rows])
    return [(row, pages.get(row.id, [])) for row in rows if row.status != "read" or row.id in pages]


def lines(row: "DocumentRow") -> list[list[str]]:
    """Status, pages, tokens and path of a document, and a line for each copy of its file, so that files add up."""
    return [
        [row.status, f"{row.pages:,}", figure(row.tokens), row.path],
        *(["copy", "", "", path] for path in _copies(row)),
    ]


def _copies(row: "DocumentRow") -> tuple[str, ...]:
    """Where else the file lies that this document is; none for what a file holds."""
    return row.also if row.parent_id is None else ()


def tell_problems(found: "Sequence[tuple[DocumentRow, list[PageProblem]]]") -> None:
    """A line for each document, and one for each kind of problem on its pages."""
    for row, pages in found:
        reason = f": {row.reason}" if row.reason else ""
        for path in (row.path, *_copies(row)):
            click.echo(one_line(f"{row.status.replace('_', ' ')}  {path}{reason}"))
        by_flags: dict[tuple[str, ...], list[int]] = {}
        for page in pages:
            by_flags.setdefault(page.flags, []).append(page.number)
        for flags, numbers in by_flags.items():
            click.echo(f"    {_named(numbers)}: {', '.join(flags)}")


def ignored(app: App, library: "Library", collection: str, as_json: bool) -> None:
    """What rules leave out of the collection's folders, as they lie on the disk now."""
    from unabridged.ingest.adding.walk import Passed, walk
    from unabridged.ingest.catalog.rows import Ignored
    from unabridged.ingest.paths import stored

    total = 0
    for folder in library.folders(collection):
        for place in walk(folder.path, folder.rules, own=library.path.parent):
            if isinstance(place, Passed):
                total += place.files
                shown = Ignored(path=stored(place.path), rule=place.rule, files=place.files)
                if as_json:
                    emit(shown)
                else:
                    click.echo(one_line(ignored_line(shown)))
    app.console.print(f"{count(total, 'file')} left out by rules", markup=False)


def tell_map(row: "DocumentRow", pages: "Sequence[PageFacts]", children: "Sequence[DocumentRow]") -> None:
    """The map of a document: its pages, its outline, what it holds."""
    table(
        (_page_cells(page) for page in pages),
        ["PAGE", "LABEL", "STATUS", "CHARACTERS", "TOKENS", "SCORE", "EXTRACTOR", "FLAGS AND PARTS"],
        frozenset({0, 3, 4, 5}),
    )
    for level, title, page in outline(row):
        click.echo(one_line(f"{'  ' * level}{title}") + (f"  {page}" if page else ""))
    if children:
        table(
            ([child.status, f"{child.pages:,}", child.path[len(row.path) :], child.title] for child in children),
            ["STATUS", "PAGES", "HOLDS", "TITLE"],
            frozenset({1}),
        )


def map_json(
    row: "DocumentRow", pages: "Sequence[PageFacts]", children: "Sequence[DocumentRow]", document: dict[str, Any]
) -> dict[str, Any]:
    """The map as an object."""
    return {
        **document,
        "map": pages,
        "outline": [{"level": level, "title": title, "page": page} for level, title, page in outline(row)],
        "holds": [child.path for child in children],
    }


def outline(row: "DocumentRow") -> list[tuple[int, str, int]]:
    """Level from 0, title and page (0: none) of each entry of the document's outline, as its reader noted it."""
    return msgspec.json.decode(row.meta.get("outline", "[]"), type=list[tuple[int, str, int]])


def _page_cells(page: "PageFacts") -> list[str]:
    parts = ", ".join(f"{kind} {size:,}" for kind, size in page.parts.items())
    return [
        f"{page.number:,}",
        page.label,
        page.status,
        f"{page.characters:,}",
        figure(page.tokens),
        f"{page.score:.2f}",
        page.extractor,
        "; ".join(filter(None, [" ".join(page.flags), parts])),
    ]


def _named(numbers: Sequence[int]) -> str:
    """ "page 3", "pages 3, 5-9"."""
    named = ranges(numbers)
    return f"{'page' if named.isdecimal() else 'pages'} {named}"
