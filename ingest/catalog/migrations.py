"""The schema of the library, as numbered steps from an empty file to today's tables.

Each step is a function that runs in one transaction together with its record, so that a kill in between leaves the
schema of the step before. Steps are never edited after a release: a change is a new step. `PRAGMA user_version` holds
the number of the last step (so that an up-to-date library costs one read to open), `migrations` their names and times.
"""

import sqlite3
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from unabridged.ingest.catalog.index_text import INDEX_VERSION
from unabridged.ingest.errors import LibraryDamaged

Step = Callable[[Any], None]  # takes a sqlite_utils.Database

# Every character that is not a space belongs to a word: `index_text` has already cut and folded the text.
TOKENIZE = "unicode61 remove_diacritics 0 categories 'L* M* N* P* S* Co Cn Cs Cf'"


def m001_files_and_contents(db: Any) -> None:
    """Collections, the files in them, and the contents that files have."""
    db["collections"].create({"id": int, "name": str}, pk="id", not_null=["name"])
    db["collections"].create_index(["name"], unique=True)
    db["collections"].insert({"name": "default"})
    db.execute(
        "CREATE TABLE roots (collection_id INTEGER NOT NULL REFERENCES collections ON DELETE CASCADE,"
        " path TEXT NOT NULL, PRIMARY KEY (collection_id, path)) WITHOUT ROWID"
    )
    db.execute("""
        CREATE TABLE contents (
            id INTEGER PRIMARY KEY,
            sha256 TEXT UNIQUE,            -- NULL: the bytes were not read
            size INTEGER NOT NULL,
            state TEXT NOT NULL CHECK (state IN ('reading', 'done')),
            reader TEXT NOT NULL,          -- version of the program that read it
            read_at TEXT NOT NULL,
            last_ref INTEGER NOT NULL,     -- of the stream, while reading: all up to it is stored
            kind TEXT NOT NULL,            -- of the file itself, as are status and reason
            status TEXT NOT NULL,
            reason TEXT NOT NULL,
            documents INTEGER NOT NULL,
            pages INTEGER NOT NULL,
            locked INTEGER NOT NULL        -- documents in it that need a password
        )""")
    db.execute("""
        CREATE TABLE files (
            id INTEGER PRIMARY KEY,
            path TEXT NOT NULL UNIQUE,
            size INTEGER NOT NULL,
            mtime_ns INTEGER NOT NULL,
            content_id INTEGER NOT NULL REFERENCES contents
        )""")
    db.execute("CREATE INDEX files_content ON files (content_id)")
    db.execute("""
        CREATE TABLE collection_files (
            collection_id INTEGER NOT NULL REFERENCES collections ON DELETE CASCADE,
            file_id INTEGER NOT NULL REFERENCES files ON DELETE CASCADE,
            PRIMARY KEY (collection_id, file_id)
        ) WITHOUT ROWID""")
    db.execute("CREATE INDEX collection_files_file ON collection_files (file_id)")


def m002_documents_and_pages(db: Any) -> None:
    """Documents nested under contents, and their pages. A document's id is never used twice: conversations keep it."""
    db.execute("""
        CREATE TABLE documents (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            content_id INTEGER NOT NULL REFERENCES contents ON DELETE CASCADE,
            parent_id INTEGER REFERENCES documents ON DELETE CASCADE,
            tail TEXT NOT NULL,            -- what follows the file's path: '', '#3', '#3/report.pdf'
            kind TEXT NOT NULL,
            title TEXT NOT NULL,
            status TEXT NOT NULL,
            reason TEXT NOT NULL,
            sha256 TEXT NOT NULL,
            size INTEGER NOT NULL,
            meta TEXT NOT NULL,
            pages INTEGER NOT NULL,
            characters INTEGER NOT NULL,
            UNIQUE (content_id, tail)
        )""")
    db.execute("CREATE INDEX documents_parent ON documents (parent_id)")
    db.execute("""
        CREATE TABLE pages (
            id INTEGER PRIMARY KEY,
            document_id INTEGER NOT NULL REFERENCES documents ON DELETE CASCADE,
            number INTEGER NOT NULL,
            label TEXT NOT NULL,
            text TEXT NOT NULL,
            parts TEXT NOT NULL,
            flags TEXT NOT NULL,
            extractor TEXT NOT NULL,
            score REAL NOT NULL,
            UNIQUE (document_id, number)
        )""")


def m003_search(db: Any) -> None:
    """The index over pages. Contentless: the text is stored once, in `pages`; what was indexed is computed again
    from it when a page goes, hence the record of which version of `index_text` made the index."""
    db.execute(f"CREATE VIRTUAL TABLE page_index USING fts5(main, joined, content='', tokenize=\"{TOKENIZE}\")")
    db.execute("CREATE VIRTUAL TABLE page_terms USING fts5vocab(page_index, row)")
    db.execute("CREATE TABLE settings (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID")
    db.execute("INSERT INTO settings VALUES ('index_version', ?)", [INDEX_VERSION])


def m004_tokens(db: Any) -> None:
    """Token ids with their character spans, once per page and tokenizer, as little-endian int32."""
    db.execute("CREATE TABLE tokenizers (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, used_at TEXT NOT NULL)")
    db.execute("""
        CREATE TABLE tokens (
            page_id INTEGER NOT NULL REFERENCES pages ON DELETE CASCADE,
            tokenizer_id INTEGER NOT NULL REFERENCES tokenizers ON DELETE CASCADE,
            count INTEGER NOT NULL,
            ids BLOB NOT NULL,
            starts BLOB NOT NULL,
            ends BLOB NOT NULL,
            PRIMARY KEY (page_id, tokenizer_id)
        )""")
    db.execute("""
        CREATE TABLE token_counts (
            document_id INTEGER NOT NULL REFERENCES documents ON DELETE CASCADE,
            tokenizer_id INTEGER NOT NULL REFERENCES tokenizers ON DELETE CASCADE,
            count INTEGER NOT NULL,
            PRIMARY KEY (document_id, tokenizer_id)
        ) WITHOUT ROWID""")


def m005_composition(db: Any) -> None:
    """How a model reads a collection's documents."""
    db.execute(
        "ALTER TABLE collections ADD COLUMN composition TEXT NOT NULL DEFAULT 'auto'"
        " CHECK (composition IN ('auto', 'composable', 'joint'))"
    )


def m006_messages(db: Any) -> None:
    """What mail is found by: who, when, which thread; tags; and which quotations stand in other messages. All of it
    but tags follows from `documents` and `pages`: `messages.refresh` fills it when the version changes."""
    db.execute("""
        CREATE TABLE threads (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            gmail TEXT NOT NULL,           -- X-GM-THRID: two of them never become one thread
            compared INTEGER NOT NULL      -- whether `repeats` holds what its messages quote of each other
        )""")
    db.execute("""
        CREATE TABLE thread_keys (
            key TEXT PRIMARY KEY,          -- an id that a message has or refers to, whether or not it is here
            thread_id INTEGER NOT NULL REFERENCES threads ON DELETE CASCADE
        ) WITHOUT ROWID""")
    db.execute("CREATE INDEX thread_keys_thread ON thread_keys (thread_id)")
    db.execute("""
        CREATE TABLE messages (
            document_id INTEGER PRIMARY KEY REFERENCES documents ON DELETE CASCADE,
            message_id TEXT NOT NULL,
            body_hash TEXT NOT NULL,       -- '': not known
            sender TEXT NOT NULL,          -- folded, as are recipients and subject
            recipients TEXT NOT NULL,
            at INTEGER,                    -- seconds since 1970 in UTC; NULL: no date
            subject TEXT NOT NULL,         -- without Re: and Fwd:
            reply INTEGER NOT NULL,        -- its subject says that it is one
            loose INTEGER NOT NULL,        -- it refers to no other message
            thread_id INTEGER REFERENCES threads
        )""")
    db.execute("CREATE INDEX messages_id ON messages (message_id)")
    db.execute("CREATE INDEX messages_at ON messages (at)")
    db.execute("CREATE INDEX messages_subject ON messages (subject, at)")
    db.execute("CREATE INDEX messages_loose ON messages (subject, at) WHERE reply AND loose")
    db.execute("CREATE INDEX messages_thread ON messages (thread_id)")
    db.execute("CREATE INDEX messages_pending ON messages (document_id) WHERE thread_id IS NULL")
    db.execute("""
        CREATE TABLE repeats (
            document_id INTEGER NOT NULL REFERENCES documents ON DELETE CASCADE,
            page INTEGER NOT NULL,
            start INTEGER NOT NULL,        -- characters of the page: a quotation
            end INTEGER NOT NULL,
            sources TEXT NOT NULL,         -- the documents in which it stands, a JSON list
            PRIMARY KEY (document_id, page, start)
        ) WITHOUT ROWID""")
    db.execute("""
        CREATE TABLE tags (
            tag TEXT NOT NULL,
            file_id INTEGER NOT NULL REFERENCES files ON DELETE CASCADE,
            tail TEXT NOT NULL,            -- as in documents: a file that is read again keeps its tags
            PRIMARY KEY (tag, file_id, tail)
        ) WITHOUT ROWID""")
    db.execute("CREATE INDEX tags_file ON tags (file_id)")
    db.execute("INSERT INTO settings VALUES ('messages_version', '')")


def m007_readers_and_rules(db: Any) -> None:
    """Which readers read a content (`ingest.catalog.versions`; 0: older ones), and what was left out of a folder that
    was added (`ingest.adding.ignores.Rules` as JSON), so that looking again leaves out the same."""
    db.execute("ALTER TABLE contents ADD COLUMN reader_version INTEGER NOT NULL DEFAULT 0")
    db.execute("ALTER TABLE roots ADD COLUMN rules TEXT NOT NULL DEFAULT '{}'")


STEPS: tuple[Step, ...] = (
    m001_files_and_contents,
    m002_documents_and_pages,
    m003_search,
    m004_tokens,
    m005_composition,
    m006_messages,
    m007_readers_and_rules,
)


def migrate(connection: sqlite3.Connection, path: Path, steps: tuple[Step, ...] = STEPS) -> None:
    """Brings the database to the last of `steps`. Raises LibraryDamaged when it is of a newer version than `steps`."""
    version = _version(connection)
    if version > len(steps):
        raise LibraryDamaged(
            f"the library {path} was written by a newer version (schema {version}, this program knows {len(steps)})",
            "update unabridged, or choose another data directory with --data-dir",
        )
    for number, step in enumerate(steps[version:], version + 1):
        _apply(connection, number, step)


def _version(connection: sqlite3.Connection) -> int:
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    return version


def _apply(connection: sqlite3.Connection, number: int, step: Step) -> None:
    from sqlite_utils import Database

    connection.execute("BEGIN IMMEDIATE")
    try:
        # Another process may have taken this step while we waited for the write lock.
        if _version(connection) < number:
            step(Database(connection))
            _record(connection, number, step)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _record(connection: sqlite3.Connection, number: int, step: Step) -> None:
    connection.execute(
        "CREATE TABLE IF NOT EXISTS migrations"
        " (number INTEGER PRIMARY KEY, name TEXT NOT NULL, applied_at TEXT NOT NULL)"
    )
    now = datetime.now(UTC).isoformat(timespec="seconds")
    connection.execute("INSERT INTO migrations VALUES (?, ?, ?)", (number, step.__name__, now))
    connection.execute(f"PRAGMA user_version = {number}")
