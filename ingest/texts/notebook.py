"""A Jupyter notebook (.ipynb): its cells and what they printed, each page labelled with its cell. Pictures are left out
and counted; a file that is no notebook after all is read as data."""

import json
from collections.abc import Iterator
from typing import Any

from unabridged.ingest.document import Item, Kind, PartKind
from unabridged.ingest.reading import Place, Reading, Source
from unabridged.ingest.texts import code, text
from unabridged.ingest.texts.pager import Pager

EXTRACTOR = "notebook 1"


def read(source: Source, reading: Reading, place: Place, kind: Kind) -> Iterator[Item]:
    """The notebook. Raises Unreadable for what is no text."""
    whole, meta = text.plain(source)
    cells = _cells(whole)
    if cells is None:
        yield from code.read(source, reading, place, Kind.TEXT)
        return
    ref = reading.ref()
    yield source.opened(ref, place, kind, meta=meta)
    pager = Pager(ref, reading.limits, EXTRACTOR)
    first, length = 1, 0
    for number, cell in enumerate(cells, 1):
        blocks, pictures = _told(cell)
        size = sum(map(len, blocks))
        if length and length + size > pager.target:
            pager.close(_label(first, number - 1))
            first, length = number, 0
        pager.label = _label(number, number)
        for block in blocks:
            pager.add(block, "\n\n")
        if pictures:
            pager.aside(PartKind.NOTE, f"{pictures} pictures in the outputs of cell {number} were left out")
        length += size
        yield from pager.take()
    pager.close(_label(first, len(cells)))
    yield from pager.take()
    yield pager.ended()


def _cells(whole: str) -> list[dict[str, Any]] | None:
    """The cells, None where this is no notebook. Older ones hold them in worksheets."""
    try:
        book = json.loads(whole)
    except (ValueError, RecursionError):
        return None
    if not isinstance(book, dict):
        return None
    sheets = book.get("worksheets")
    old = [sheet.get("cells") for sheet in (sheets if isinstance(sheets, list) else ()) if isinstance(sheet, dict)]
    found = book.get("cells") or [cell for part in old if isinstance(part, list) for cell in part]
    return [cell for cell in found if isinstance(cell, dict)] if isinstance(found, list) and found else None


def _label(first: int, last: int) -> str:
    return f"cells {first}-{last}" if last > first else f"cell {first}"


def _told(cell: dict[str, Any]) -> tuple[list[str], int]:
    """The texts of a cell, its own and what it printed, and how many pictures there are beside them."""
    outputs = cell.get("outputs")
    found = [_output(output) for output in (outputs if isinstance(outputs, list) else ()) if isinstance(output, dict)]
    return [_joined(cell.get("source") or cell.get("input")), *(text for text, _ in found)], sum(n for _, n in found)


def _joined(value: object) -> str:
    if isinstance(value, list):
        return "".join(piece for piece in value if isinstance(piece, str))
    return value if isinstance(value, str) else ""


def _output(output: dict[str, Any]) -> tuple[str, int]:
    """What a cell printed, and how many pictures beside it."""
    found = output.get("data")
    data = found if isinstance(found, dict) else {}
    pictures = sum(str(kind).startswith("image/") for kind in data)
    printed = _joined(output.get("text")) or _joined(data.get("text/plain"))
    if output.get("output_type") == "error":
        printed = f"{output.get('ename', 'Error')}: {output.get('evalue', '')}"
    return printed, pictures
