"""Token ids of the library's pages with the characters they stand for, stored once per tokenizer.

Each visible stretch of a page is encoded by itself: hidden parts have no tokens, and no token spans one, so that text
which people cannot see never reaches a model. Spans count characters of the page's stored text, hidden parts included.
It does not know how pages are put together into a context.
"""

import sqlite3
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol

from unabridged.ingest.catalog.database import stored_if_free
from unabridged.ingest.catalog.rows import PageRow
from unabridged.ingest.document import Page, Part, PartKind
from unabridged.ingest.library import Library


class Encoder(Protocol):
    """What of `models.tokenizer.Tokenizer` is needed here."""

    @property
    def id(self) -> str:
        """Stable name of everything that changes ids."""

    def encode_spans(self, text: str) -> tuple[list[int], list[tuple[int, int]]]:
        """Ids of plain text and the characters of each."""


@dataclass(frozen=True, kw_only=True)
class PageTokens:
    """Token i of the page is `ids[i]` and stands for `text[starts[i]:ends[i]]`. int32 arrays of one length."""

    number: int
    ids: "array[int]"
    starts: "array[int]"
    ends: "array[int]"


@dataclass(frozen=True, kw_only=True)
class DocumentTokens:
    """The tokens of a document, page by page in order; a page without visible text has none."""

    document_id: int
    pages: tuple[PageTokens, ...]

    @property
    def count(self) -> int:
        """Tokens of all pages."""
        return sum(len(page.ids) for page in self.pages)


def tokens(library: Library, document_id: int, tokenizer: Encoder) -> DocumentTokens:
    """The tokens of a document: stored ones, or computed and stored now. Raises DocumentNotFound.

    Storing needs the database's write lock for a moment; while another process is writing a file they are computed and
    not stored. From any thread.
    """
    connection = library.connection
    stored = _stored(connection, document_id, tokenizer.id)
    if stored is not None:
        return stored
    pages = library.pages(document_id)
    computed = [encode_page(tokenizer, page) for page in pages]
    _try_to_store(connection, document_id, tokenizer.id, computed)
    return DocumentTokens(document_id=document_id, pages=tuple(computed))


def encode_page(tokenizer: Encoder, page: Page | PageRow) -> PageTokens:
    """The tokens of one page."""
    ids, starts, ends = array("i"), array("i"), array("i")
    for start, end in visible(page.text, page.parts):
        found, spans = tokenizer.encode_spans(page.text[start:end])
        ids.extend(found)
        starts.extend(start + first for first, _ in spans)
        ends.extend(start + last for _, last in spans)
    return PageTokens(number=page.number, ids=ids, starts=starts, ends=ends)


def visible(text: str, parts: Iterable[Part]) -> Iterator[tuple[int, int]]:
    """The stretches of `text` between its hidden parts, none empty."""
    at = 0
    for part in sorted((part for part in parts if part.kind is PartKind.HIDDEN), key=lambda part: part.start):
        if part.start > at:
            yield at, part.start
        at = max(at, part.end)
    if at < len(text):
        yield at, len(text)


def tokenizer_row(connection: sqlite3.Connection, name: str) -> int:
    """The id of a tokenizer, noted as the one used last."""
    now = datetime.now(UTC).isoformat()
    connection.execute(
        "INSERT INTO tokenizers (name, used_at) VALUES (?1, ?2) ON CONFLICT (name) DO UPDATE SET used_at = ?2",
        (name, now),
    )
    found: int = connection.execute("SELECT id FROM tokenizers WHERE name = ?", (name,)).fetchone()["id"]
    return found


def store_page(connection: sqlite3.Connection, document_id: int, tokenizer: int, page: PageTokens) -> None:
    """Stores the tokens of a page, inside the caller's transaction. Harmless where they are stored already."""
    connection.execute(
        "INSERT OR IGNORE INTO tokens (page_id, tokenizer_id, count, ids, starts, ends)"
        " SELECT id, ?, ?, ?, ?, ? FROM pages WHERE document_id = ? AND number = ?",
        (
            tokenizer,
            len(page.ids),
            page.ids.tobytes(),
            page.starts.tobytes(),
            page.ends.tobytes(),
            document_id,
            page.number,
        ),
    )


def store_count(connection: sqlite3.Connection, document_id: int, tokenizer: int) -> None:
    """Says how many tokens the document has, and with it that they are all there; nothing while a page lacks them."""
    connection.execute(
        """
        INSERT OR REPLACE INTO token_counts (document_id, tokenizer_id, count)
        SELECT d.id, ?1, COALESCE(SUM(t.count), 0)
        FROM documents d
        LEFT JOIN pages p ON p.document_id = d.id
        LEFT JOIN tokens t ON t.page_id = p.id AND t.tokenizer_id = ?1
        WHERE d.id = ?2 GROUP BY d.id HAVING COUNT(p.id) = COUNT(t.page_id)
        """,
        (tokenizer, document_id),
    )


def _stored(connection: sqlite3.Connection, document_id: int, name: str) -> DocumentTokens | None:
    whole = connection.execute(
        "SELECT t.id FROM token_counts c JOIN tokenizers t ON t.id = c.tokenizer_id"
        " WHERE c.document_id = ? AND t.name = ?",
        (document_id, name),
    ).fetchone()
    if whole is None:
        return None
    rows = connection.execute(
        "SELECT p.number, t.ids, t.starts, t.ends FROM pages p JOIN tokens t ON t.page_id = p.id AND t.tokenizer_id = ?"
        " WHERE p.document_id = ? ORDER BY p.number",
        (whole["id"], document_id),
    )
    return DocumentTokens(document_id=document_id, pages=tuple(_page(row) for row in rows))


def _page(row: sqlite3.Row) -> PageTokens:
    ids, starts, ends = (array("i", row[name]) for name in ("ids", "starts", "ends"))
    return PageTokens(number=row["number"], ids=ids, starts=starts, ends=ends)


def _try_to_store(connection: sqlite3.Connection, document_id: int, name: str, pages: list[PageTokens]) -> None:
    def store() -> bool:
        tokenizer = tokenizer_row(connection, name)
        for page in pages:
            store_page(connection, document_id, tokenizer, page)
        store_count(connection, document_id, tokenizer)
        return True

    stored_if_free(connection, store)
