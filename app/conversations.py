"""The history of questions and answers, in a SQLite database of its own.

Synchronous: the server calls it in threads. Each call opens and closes its connection, so any thread may use it. Knows
no engine and no library: documents are named by path and page, and a conversation outlives the documents it cites.
Every call raises HistoryUnavailable when the disk is full, the file is damaged or its folder is closed.
"""

import secrets
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from unabridged.app.errors import ConversationNotFound, HistoryUnavailable
from unabridged.app.events import Answer, Turn
from unabridged.app.schema import Conversation, ConversationInfo, Exchange

_TITLE = 80
_BUSY_SECONDS = 10.0
_FAULTS = (sqlite3.Error, OSError, UnicodeDecodeError, msgspec.DecodeError)

# One entry per version of the schema; `PRAGMA user_version` counts the ones that were applied.
_MIGRATIONS = (
    """
    CREATE TABLE conversations (
        id TEXT PRIMARY KEY, title TEXT NOT NULL, collection TEXT NOT NULL, created TEXT NOT NULL, updated TEXT NOT NULL
    );
    CREATE INDEX conversations_by_time ON conversations (updated);
    CREATE TABLE exchanges (
        conversation TEXT NOT NULL REFERENCES conversations (id) ON DELETE CASCADE, number INTEGER NOT NULL,
        asked TEXT NOT NULL, question TEXT NOT NULL, answer BLOB NOT NULL, PRIMARY KEY (conversation, number)
    );
    """,
)


class Conversations:
    """The conversations of one data directory."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def list(self, limit: int = 100) -> "list[ConversationInfo]":
        """The newest first."""
        with self._open() as db:
            return [_info(row) for row in db.execute(f"{_LIST} ORDER BY updated DESC, id LIMIT ?", (limit,))]

    def get(self, id: str) -> Conversation:
        """A conversation with its answers. Raises ConversationNotFound."""
        with self._open() as db:
            info = _info(_found(db, id))
            rows = db.execute(
                "SELECT question, answer, asked FROM exchanges WHERE conversation = ? ORDER BY number", (id,)
            )
            return Conversation(info=info, exchanges=tuple(_exchange(row) for row in rows))

    def delete(self, id: str) -> None:
        """Forget a conversation. Raises ConversationNotFound."""
        with self._open() as db:
            _found(db, id)
            db.execute("DELETE FROM conversations WHERE id = ?", (id,))

    def append(self, id: str, collection: str, question: str, answer: Answer) -> None:
        """Store an exchange; an unknown `id` begins a conversation of that id (see `new_id`)."""
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        with self._open() as db:
            db.execute(
                "INSERT INTO conversations VALUES (?, ?, ?, ?, ?)"
                " ON CONFLICT (id) DO UPDATE SET updated = excluded.updated",
                (id, _title(question), collection, now, now),
            )
            db.execute(
                "INSERT INTO exchanges SELECT ?, 1 + count(*), ?, ?, ? FROM exchanges WHERE conversation = ?",
                (id, now, question, msgspec.json.encode(answer), id),
            )

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        """A connection in one transaction. Raises HistoryUnavailable."""
        try:
            with self._transaction() as db:
                yield db
        except _FAULTS as error:
            raise _explained(error, self.path) from error

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """Committed at the end, rolled back on an error."""
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Private from the first byte; SQLite gives its side files the same mode.
        self.path.touch(mode=0o600)
        with closing(sqlite3.connect(self.path, timeout=_BUSY_SECONDS, isolation_level=None)) as db:
            db.execute("PRAGMA foreign_keys = ON")
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("BEGIN IMMEDIATE")
            try:
                _migrate(db)
                yield db
            except BaseException:
                # A full disk has rolled back already: a second time would hide why.
                if db.in_transaction:
                    db.execute("ROLLBACK")
                raise
            db.execute("COMMIT")


_LIST = """
    SELECT id, title, collection, created, updated,
           (SELECT count(*) FROM exchanges WHERE conversation = conversations.id) FROM conversations
"""


def new_id() -> str:
    """An id for a new conversation, as "c_4f9a0b7d21c6"."""
    return f"c_{secrets.token_hex(6)}"


def turns(conversation: Conversation) -> tuple[Turn, ...]:
    """The conversation as the model sees it: answers as generated, without marks."""
    return tuple(
        turn
        for exchange in conversation.exchanges
        if exchange.answer is not None
        for turn in (Turn("user", exchange.question), Turn("assistant", exchange.answer.text))
    )


def _migrate(db: sqlite3.Connection) -> None:
    (version,) = db.execute("PRAGMA user_version").fetchone()
    for number, script in enumerate(_MIGRATIONS[version:], version + 1):
        for statement in script.split(";"):
            db.execute(statement)
        db.execute(f"PRAGMA user_version = {number}")


def _explained(error: Exception, path: Path) -> HistoryUnavailable:
    """What went wrong with the database, and the way out."""
    name = getattr(error, "sqlite_errorname", "")
    if name.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB")) or not isinstance(error, sqlite3.Error | OSError):
        return HistoryUnavailable(
            f"the history {path} is damaged: {error}", f"move {path.name} away: a new one is begun"
        )
    return HistoryUnavailable(
        f"the history {path} cannot be used: {error}", "check the free space and the permissions of its folder"
    )


def _found(db: sqlite3.Connection, id: str) -> tuple[str, ...]:
    row = db.execute(f"{_LIST} WHERE id = ?", (id,)).fetchone()
    if row is None:
        raise ConversationNotFound(f"no conversation {id!r}", "`unabridged chat` lists the ones that are kept")
    return tuple(row)


def _info(row: tuple[str, ...]) -> ConversationInfo:
    id, title, collection, created, updated, exchanges = row
    return ConversationInfo(
        id=id, title=title, collection=collection, created=created, updated=updated, exchanges=int(exchanges)
    )


def _exchange(row: tuple[str, bytes, str]) -> Exchange:
    question, answer, asked = row
    return Exchange(question=question, answer=msgspec.json.decode(answer, type=Answer), asked=asked)


def _title(question: str) -> str:
    line = " ".join(question.split())
    return line if len(line) <= _TITLE else line[: _TITLE - 1].rstrip() + "…"
