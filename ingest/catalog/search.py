"""Finds pages: for people who search, and for questions that must be routed to the pages that answer them.

The index (FTS5, bm25) gives candidates; each is then read and weighed by how much of the query it holds and how close
together, rare words counting more. A page with the rare name and the key beside it comes before one that has both far
apart, and before one that repeats the common words. Hidden text is not in the index.
"""

import json
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, replace

from unabridged.ingest.catalog import reads
from unabridged.ingest.catalog.index_text import begins_pair, blank_hidden
from unabridged.ingest.catalog.passages import Passage, best_passage, has_all, snippet
from unabridged.ingest.catalog.query import Query, parse, weight
from unabridged.ingest.catalog.reads import page_row
from unabridged.ingest.catalog.rows import DocumentRow, Hit, PageRow

_CANDIDATES = 120  # pages read and weighed per query: most of what a search costs
_JOINED_WEIGHT = 1.0

_CANDIDATE_PAGES = f"""
    WITH hits AS MATERIALIZED (
        SELECT rowid AS page_id, -bm25(page_index, 1.0, {_JOINED_WEIGHT}) AS weight
        FROM page_index WHERE page_index MATCH :query
    )
    SELECT p.*, hits.weight
    FROM hits JOIN pages p ON p.id = hits.page_id JOIN documents d ON d.id = p.document_id
    WHERE d.content_id IN (SELECT content_id FROM ({reads.FILES}))
      AND (:documents IS NULL OR d.id IN (SELECT value FROM json_each(:documents)))
    ORDER BY hits.weight DESC, p.id LIMIT :limit"""


@dataclass(frozen=True)
class _Found:
    """A candidate with its weight and the stretch that earned it."""

    page: PageRow
    score: float
    passage: Passage
    whole: bool = False
    """Whether the page has all that was typed; not looked into for questions."""


def search(
    connection: sqlite3.Connection, query: str, collection: str | None, limit: int, documents: Sequence[int]
) -> list[Hit]:
    """See `Library.search`."""
    number = reads.collection_id(connection, collection)
    wanted = parse(query, whole_numbers=True).without_stop_words()
    # Those that have all are among the candidates, whatever else counts.
    found = [
        replace(one, whole=has_all(blank_hidden(one.page.text, one.page.parts), wanted.units))
        for one in _find(connection, wanted, number, max(limit, _CANDIDATES), documents)
    ]
    found = sorted(found, key=lambda one: not one.whole)[:limit]
    rows = reads.documents_by_id(connection, {one.page.document_id for one in found}, collection=number)
    return [_hit(one, rows[one.page.document_id]) for one in found if one.page.document_id in rows]


def rank(
    connection: sqlite3.Connection, question: str, collection: str | None, limit: int, documents: Sequence[int]
) -> list[tuple[int, int, float]]:
    """See `Library.rank`."""
    number = reads.collection_id(connection, collection)
    found = _find(connection, parse(question).without_stop_words(), number, limit, documents)
    return [(one.page.document_id, one.page.number, one.score) for one in found]


def _find(
    connection: sqlite3.Connection, query: Query, collection: int | None, limit: int, documents: Sequence[int]
) -> list[_Found]:
    if not query:
        return []
    weights = _weights(connection, query)
    rows = _candidates(connection, query, collection, max(limit, _CANDIDATES), documents)
    best = max((row["weight"] for row in rows), default=0.0) or 1.0
    found = [_weigh(page_row(row), row["weight"] / best, weights, query) for row in rows]
    found.sort(key=lambda one: (-one.score, one.page.document_id, one.page.number))
    return found[:limit]


def _candidates(
    connection: sqlite3.Connection, query: Query, collection: int | None, limit: int, documents: Sequence[int]
) -> list[sqlite3.Row]:
    """The best pages by bm25; pages that have all words are among them."""
    values = {"collection": collection, "limit": limit, "documents": json.dumps(list(documents)) if documents else None}
    rows: dict[int, sqlite3.Row] = {}
    for expression in (query.any_word(), query.all_words()):
        for row in connection.execute(_CANDIDATE_PAGES, {**values, "query": expression}):
            rows.setdefault(row["id"], row)
    return list(rows.values())


def _weights(connection: sqlite3.Connection, query: Query) -> dict[str, float]:
    """How much each word counts: little where most pages have it, most where one page does."""
    total = connection.execute("SELECT COUNT(*) FROM pages").fetchone()[0]
    found = {word: weight(_frequency(connection, word), total) for word in query.terms}
    for unit in query.wholes:
        pages = connection.execute("SELECT COUNT(*) FROM page_index WHERE page_index MATCH ?", (unit.expression(),))
        found[unit.name] = weight(pages.fetchone()[0], total)
    return found


def _frequency(connection: sqlite3.Connection, word: str) -> int:
    """On how many pages of the library a word stands."""
    last = word + "\U0010ffff" if begins_pair(word) else word
    found: int = connection.execute(
        "SELECT COALESCE(MAX(doc), 0) FROM page_terms WHERE term >= ? AND term <= ?", (word, last)
    ).fetchone()[0]
    return found


def _weigh(page: PageRow, share: float, weights: dict[str, float], query: Query) -> _Found:
    passage = best_passage(blank_hidden(page.text, page.parts), weights, query.wholes)
    return _Found(page, share + 2.0 * passage.coverage + passage.page_coverage, passage)


def _hit(found: _Found, document: DocumentRow) -> Hit:
    page = found.page
    start, end = snippet(page.text, found.passage)
    return Hit(
        document=document,
        page=page.number,
        label=page.label,
        snippet=page.text[start:end],
        start=start,
        end=end,
        marks=tuple((first, last) for first, last in found.passage.marks if start <= first and last <= end),
        score=found.score,
        all_words=found.whole,
    )
