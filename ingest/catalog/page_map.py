"""The pages of a document at a glance: what became of each, without its text. Reads only."""

import sqlite3
from collections import Counter
from collections.abc import Iterator, Sequence

import msgspec

from unabridged.ingest.catalog import reads
from unabridged.ingest.catalog.rows import PageRow
from unabridged.ingest.document import Flag

# What a reader of the library should look at, whatever the status of the document.
PROBLEMS = (Flag.UNREAD, Flag.SCANNED, Flag.GARBLED, Flag.CUT)


class PageFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a page. `status`: "read", "unread", "empty" where there is nothing on it, "doubtful" where what
    was read is incomplete or may be nonsense."""

    number: int
    label: str
    status: str
    flags: tuple[str, ...]
    extractor: str
    score: float
    characters: int
    tokens: int | None  # None: not counted yet with the tokenizer used last
    parts: dict[str, int]  # characters of each kind of part


class PageProblem(msgspec.Struct, frozen=True, kw_only=True):
    """A page that was not read as it should be."""

    number: int
    label: str
    flags: tuple[str, ...]


def page_map(connection: sqlite3.Connection, document_id: int) -> list[PageFacts]:
    """All pages of a document in order. Raises DocumentNotFound."""
    rows = connection.execute(
        "SELECT p.number, t.count FROM pages p JOIN tokens t ON t.page_id = p.id AND t.tokenizer_id = ?"
        " WHERE p.document_id = ?",
        (reads.tokenizer_id(connection, None), document_id),
    )
    tokens = {row["number"]: row["count"] for row in rows}
    return [_facts(page, tokens.get(page.number)) for page in reads.pages(connection, document_id)]


def problem_pages(connection: sqlite3.Connection, documents: Sequence[int]) -> dict[int, list[PageProblem]]:
    """The pages with one of PROBLEMS, of those of these documents that have any."""
    rows = connection.execute(
        "SELECT document_id, number, label, flags FROM pages WHERE flags != '[]' AND document_id IN"
        " (SELECT value FROM json_each(?)) ORDER BY document_id, number",
        (msgspec.json.encode(documents).decode(),),
    )
    found: dict[int, list[PageProblem]] = {}
    for document, problem in _problems(rows):
        found.setdefault(document, []).append(problem)
    return found


def _problems(rows: sqlite3.Cursor) -> Iterator[tuple[int, PageProblem]]:
    for row in rows:
        flags = msgspec.json.decode(row["flags"], type=tuple[Flag, ...])
        if any(flag in PROBLEMS for flag in flags) and not _recognised(flags):
            shown = tuple(flag.value for flag in flags)
            yield row["document_id"], PageProblem(number=row["number"], label=row["label"], flags=shown)


def _facts(page: PageRow, tokens: int | None) -> PageFacts:
    parts: Counter[str] = Counter()
    for part in page.parts:
        parts[part.kind.value] += part.end - part.start
    return PageFacts(
        number=page.number,
        label=page.label,
        status=_status(page),
        flags=tuple(flag.value for flag in page.flags),
        extractor=page.extractor,
        score=round(page.score, 3),
        characters=len(page.text),
        tokens=tokens,
        parts=dict(parts),
    )


def _status(page: PageRow) -> str:
    if Flag.UNREAD in page.flags or (Flag.SCANNED in page.flags and not page.text.strip()):
        return "unread"
    if any(flag in PROBLEMS for flag in page.flags) and not _recognised(page.flags):
        return "doubtful"
    return "read" if page.text.strip() else "empty"


def _recognised(flags: Sequence[Flag]) -> bool:
    """Whether what was only an image has been recognised, and nothing else is wrong."""
    return Flag.OCR in flags and not {Flag.UNREAD, Flag.CUT} & {*flags}
