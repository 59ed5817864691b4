"""Stores the stream of one file as a content with its documents and pages, in as many transactions as it is long.

A short file is one transaction. In a long one (a mailbox, a book) a transaction ends now and then where only the file
itself is open; the content stays in state "reading", which nobody sees, and notes how far it is stored. After a kill
the same stream is read again and what is stored already is passed over: refs of a stream are the same each time.
"""

import sqlite3
from dataclasses import dataclass
from datetime import UTC, datetime

import msgspec

from unabridged import __version__
from unabridged.ingest.catalog import messages, tokens
from unabridged.ingest.catalog.index_text import page_end
from unabridged.ingest.catalog.indexing import index_page
from unabridged.ingest.catalog.reads import page_row
from unabridged.ingest.catalog.versions import READER_VERSION
from unabridged.ingest.catalog.writes import drop_unused
from unabridged.ingest.document import Closed, Item, Kind, Opened, Page, Status

BATCH_CHARACTERS = 4_000_000
_KEEP_DAYS = 14
_JSON = msgspec.json.Encoder()


@dataclass
class _Open:
    """A document that was opened and not closed."""

    id: int
    tail: str
    kind: Kind
    pages: int = 0
    characters: int = 0
    end: str = ""  # of the last page


class ContentWriter:
    """Stores one stream. `put` every item, then `finish` inside the same transaction as what must hold with it.

    The caller has begun a transaction and rolls back whatever is open when something raises.
    """

    def __init__(
        self,
        connection: sqlite3.Connection,
        sha256: str | None,
        size: int,
        tokenizer: tokens.Encoder | None = None,
        batch_characters: int | None = None,
    ) -> None:
        self._connection = connection
        self._sha256 = sha256 or ""
        self._size = size
        self._tokenizer = tokenizer
        self._tokenizer_row = tokens.tokenizer_row(connection, tokenizer.id) if tokenizer else 0
        self._batch = batch_characters or BATCH_CHARACTERS
        self._unsaved = 0
        self._open: dict[int, _Open] = {}
        self._last_ref = 0
        self.content, self._skip_ref, self._skip_page = self._resume(sha256, size)

    def put(self, item: Item) -> None:
        """Stores an item."""
        if isinstance(item, Opened):
            self._put_opened(item)
        elif isinstance(item, Page):
            self._put_page(item)
        else:
            self._put_closed(item)
        if self._unsaved >= self._batch and list(self._open) == [0]:
            self._save()

    def finish(self, note: str = "") -> None:
        """Makes the content visible, in the transaction that the caller commits. `note` joins the file's reason."""
        messages.settle(self._connection)
        if note:
            self._connection.execute(
                "UPDATE documents SET reason = reason || CASE reason WHEN '' THEN '' ELSE '; ' END || ?"
                " WHERE content_id = ? AND tail = ''",
                (note, self.content),
            )
        self._connection.execute(
            """
            UPDATE contents SET (state, kind, status, reason, documents, pages, locked) =
                (SELECT 'done', root.kind, root.status, root.reason, COUNT(*), SUM(d.pages),
                        SUM(d.status = 'needs_password')
                 FROM documents d JOIN documents root ON root.content_id = d.content_id AND root.tail = ''
                 WHERE d.content_id = ?1)
            WHERE id = ?1
            """,
            (self.content,),
        )

    def _resume(self, sha256: str | None, size: int) -> tuple[int, int, int]:
        """The content to write to, the last ref that it holds whole, and the last page of the file itself."""
        row = self._connection.execute(
            "SELECT id, last_ref, reader, reader_version, state FROM contents WHERE sha256 = ?", (sha256,)
        ).fetchone()
        if row is None:
            return self._new(sha256, size), -1, 0
        if row["state"] == "reading" and (row["reader"], row["reader_version"]) == (__version__, READER_VERSION):
            return row["id"], *self._reopen(row["id"], row["last_ref"])
        raise ValueError(f"content {row['id']} is stored already")

    def _reopen(self, content: int, last_ref: int) -> tuple[int, int]:
        root = self._connection.execute(
            "SELECT d.id, d.kind, COUNT(p.id) AS pages, COALESCE(SUM(LENGTH(p.text)), 0) AS characters"
            " FROM documents d LEFT JOIN pages p ON p.document_id = d.id WHERE d.content_id = ? AND d.tail = ''",
            (content,),
        ).fetchone()
        self._open[0] = _Open(root["id"], "", Kind(root["kind"]), root["pages"], root["characters"], self._end(root))
        return last_ref, root["pages"]

    def _end(self, root: sqlite3.Row) -> str:
        last = self._connection.execute(
            "SELECT * FROM pages WHERE document_id = ? AND number = ?", (root["id"], root["pages"])
        ).fetchone()
        return "" if last is None else page_end(last["text"], page_row(last).parts)

    def _new(self, sha256: str | None, size: int) -> int:
        now = datetime.now(UTC).isoformat(timespec="seconds")
        cursor = self._connection.execute(
            "INSERT INTO contents (sha256, size, state, reader, reader_version, read_at, last_ref, kind, status,"
            " reason, documents, pages, locked) VALUES (?, ?, 'reading', ?, ?, ?, -1, '', '', '', 0, 0, 0)",
            (sha256, size, __version__, READER_VERSION, now),
        )
        return cursor.lastrowid or 0

    def _put_opened(self, item: Opened) -> None:
        self._last_ref = max(self._last_ref, item.ref)
        if item.ref <= self._skip_ref:
            return
        parent = None if item.parent is None else self._open[item.parent]
        tail = "" if parent is None else self._tail(parent, item)
        cursor = self._connection.execute(
            "INSERT INTO documents (content_id, parent_id, tail, kind, title, status, reason, sha256, size, meta,"
            " pages, characters) VALUES (?, ?, ?, ?, ?, ?, '', ?, ?, ?, 0, 0)",
            (
                self.content,
                parent.id if parent else None,
                tail,
                item.kind,
                item.title,
                Status.DAMAGED,
                item.sha256 if parent else self._sha256 or item.sha256,
                item.size if parent else self._size,
                _JSON.encode(item.meta).decode(),
            ),
        )
        self._open[item.ref] = _Open(cursor.lastrowid or 0, tail, item.kind)
        if item.kind is Kind.MESSAGE:
            messages.put(self._connection, self._open[item.ref].id, item.meta)

    def _tail(self, parent: _Open, item: Opened) -> str:
        """Where the document lies in the file. Names that are there already get a number."""
        mark = "#" if parent.kind is Kind.MAILBOX else "/"
        # A file in an archive has its folders in its name.
        name = item.name if parent.kind is Kind.ARCHIVE else item.name.replace("/", "_")
        base = f"{parent.tail}{mark}{name or 'unnamed'}"
        tail, number = base, 2
        while self._connection.execute(
            "SELECT 1 FROM documents WHERE content_id = ? AND tail = ?", (self.content, tail)
        ).fetchone():
            tail, number = f"{base} ({number})", number + 1
        return tail

    def _put_page(self, item: Page) -> None:
        if 0 < item.ref <= self._skip_ref or (item.ref == 0 and item.number <= self._skip_page):
            return
        document = self._open[item.ref]
        cursor = self._connection.execute(
            "INSERT INTO pages (document_id, number, label, text, parts, flags, extractor, score)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (
                document.id,
                item.number,
                item.label,
                item.text,
                _JSON.encode(item.parts).decode(),
                _JSON.encode(item.flags).decode(),
                item.extractor,
                item.score,
            ),
        )
        index_page(self._connection, cursor.lastrowid or 0, item.text, item.parts, document.end)
        document.end = page_end(item.text, item.parts)
        self._put_tokens(document, item)
        document.pages += 1
        document.characters += len(item.text)
        self._unsaved += len(item.text) + 1_000

    def _put_tokens(self, document: _Open, item: Page) -> None:
        if self._tokenizer is not None:
            encoded = tokens.encode_page(self._tokenizer, item)
            tokens.store_page(self._connection, document.id, self._tokenizer_row, encoded)

    def _put_closed(self, item: Closed) -> None:
        if 0 < item.ref <= self._skip_ref:
            return
        document = self._open.pop(item.ref)
        self._connection.execute(
            "UPDATE documents SET status = ?, reason = ?, pages = ?, characters = ? WHERE id = ?",
            (item.status, item.reason, document.pages, document.characters, document.id),
        )
        if self._tokenizer is not None:
            tokens.store_count(self._connection, document.id, self._tokenizer_row)

    def _save(self) -> None:
        messages.settle(self._connection)
        self._connection.execute("UPDATE contents SET last_ref = ? WHERE id = ?", (self._last_ref, self.content))
        self._connection.execute("COMMIT")
        self._connection.execute("BEGIN IMMEDIATE")
        self._unsaved = 0


def drop_unfinished(connection: sqlite3.Connection) -> None:
    """Removes contents that were left half-read by another version of the program, whose refs may differ, or so long
    ago that their file may never come again."""
    rows = connection.execute(
        "SELECT id FROM contents WHERE state = 'reading'"
        " AND (reader != ? OR reader_version != ? OR read_at < datetime('now', ?))",
        (__version__, READER_VERSION, f"-{_KEEP_DAYS} days"),
    )
    drop_unused(connection, [row["id"] for row in rows.fetchall()])
