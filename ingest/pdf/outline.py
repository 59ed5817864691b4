"""The outline (bookmarks) of a PDF: what its parts are called and where they begin.

    meta["outline"] = [[0, "1 Introduction", 3], [1, "1.1 Scope", 3]]     # level from 0, title, page (0: none)

pdfium walks it, whatever its depth and loops; an entry without a title or a place is kept as far as it goes.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from unabridged.ingest.pdf.wide import bookmark_title
from unabridged.ingest.texts.normalise import one_line

_ENTRIES = 300  # kept of one document; the deepest levels go first
_LOOKED = 20_000  # looked at
_LEVELS = 15
_TITLE = 120

Entry = tuple[int, str, int]


def meta(document: Any, slots: Sequence[int | None] | None) -> dict[str, str]:
    """What belongs into the document's meta: the outline as JSON, and how many entries of it were left out.
    `slots`: where a rebuilt document has each page; None: each in its place."""
    numbers = None if slots is None else {slot: number for number, slot in enumerate(slots, 1)}
    entries = list(_entries(document, lambda index: index + 1 if numbers is None else numbers.get(index, 0)))
    if not entries:
        return {}
    deepest = _LEVELS
    while deepest and sum(level < deepest for level, _, _ in entries) > _ENTRIES:
        deepest -= 1
    kept = [entry for entry in entries if entry[0] < max(1, deepest)][:_ENTRIES]
    found = {"outline": msgspec.json.encode(kept).decode()}
    if len(kept) < len(entries):
        found["outline_left_out"] = str(len(entries) - len(kept))
    return found


def _entries(document: Any, page_of: Callable[[int], int]) -> Iterator[Entry]:
    from pypdfium2 import PdfiumError

    toc = document.get_toc(max_depth=_LEVELS)
    for _ in range(_LOOKED):
        try:
            bookmark = next(toc)
        except (StopIteration, PdfiumError, RecursionError):
            return
        if title := one_line(bookmark_title(bookmark), _TITLE):
            destination = bookmark.get_dest()
            index = destination.get_index() if destination else None
            yield bookmark.level, title, 0 if index is None else page_of(index)
