"""What happens to one file before anything is stored: hashed, then read in a reader process unless it is known.

Runs in threads beside the one that stores; each reads the library through a connection of its own and changes nothing.
"""

import hashlib
import sqlite3
import threading
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from unabridged.ingest.adding.walk import Found, Problem, look
from unabridged.ingest.catalog.database import connect
from unabridged.ingest.detect import HEAD, detect
from unabridged.ingest.document import CONTAINERS, Item, Page, Status
from unabridged.ingest.opening import open_at_once
from unabridged.ingest.worker import Workers

_PIECE = 1 << 20


@dataclass(frozen=True)
class Hashed:
    """The first step: the file as it lies there when its turn has come, and the identity of the bytes, None where
    hashing would cost more than it is worth."""

    sha256: str | None
    found: Found


@dataclass(frozen=True)
class Announced:
    """The file itself has this many pages."""

    pages: int


Step = Hashed | Problem | Announced | Item | Found


def weigh(step: Step) -> int:
    """Characters that a step holds."""
    return len(step.text) if isinstance(step, Page) else 100


class Fetcher:
    """The steps of files. `due`: contents that are to be read again. Safe to use from several threads; `close` at the
    end."""

    def __init__(
        self, database: Path, workers: Workers, passwords: Sequence[str], force: bool, due: Container[int] = ()
    ) -> None:
        self._database = database
        self._workers = workers
        self._passwords = tuple(passwords)
        self._force = force
        self._due = due
        self._local = threading.local()
        self._open: list[sqlite3.Connection] = []

    def abort(self) -> None:
        """Ends all steps that run, wherever they are."""
        self._workers.abort()

    def close(self) -> None:
        """Closes the connections. No steps may run any more."""
        while self._open:
            self._open.pop().close()

    def wants(self, content: sqlite3.Row) -> bool:
        """Whether a content that is stored should be read again though its bytes are the same."""
        return self._force or bool(self._passwords and content["locked"]) or content["id"] in self._due

    def steps(self, path: str, reread: bool) -> Iterator[Step]:
        """A `Hashed`, the items unless the library has them, and how the file lies there afterwards; or a `Problem`."""
        found = look(path)
        if isinstance(found, Problem):
            yield found
            return
        try:
            sha256 = self._hash(found)
        except OSError as error:
            yield Problem(found.path, Status.DAMAGED, f"cannot be opened: {error.strerror}")
            return
        yield Hashed(sha256, found)
        if reread or not self._stored(sha256):
            yield from self._read(found)
        yield look(found.path)

    def _read(self, found: Found) -> Iterator[Step]:
        announced: list[int] = []
        for item in self._workers.read(Path(found.path), self._passwords, expect=announced.append):
            if announced:
                yield Announced(announced.pop())
            yield item

    def _hash(self, found: Found) -> str | None:
        with open_at_once(found.path) as file:
            if found.size > self._workers.limits.file_bytes:
                # Only containers are read at any size: the others end as too large, by name and size alone.
                if detect(file.read(HEAD) or b"", Path(found.path).name).kind not in CONTAINERS:
                    return None
                file.seek(0)
            return self._digest(file)

    def _digest(self, file: BinaryIO) -> str:
        """In pieces, so that it can be stopped: a mailbox may have hundreds of gigabytes."""
        digest = hashlib.sha256()
        while piece := file.read(_PIECE):
            self._workers.check()
            digest.update(piece)
        return digest.hexdigest()

    def _stored(self, sha256: str | None) -> bool:
        content = stored_content(self._connection(), sha256)
        return content is not None and not self.wants(content)

    def _connection(self) -> sqlite3.Connection:
        connection: sqlite3.Connection | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = self._local.connection = connect(self._database)
            self._open.append(connection)
        return connection


def stored_content(connection: sqlite3.Connection, sha256: str | None) -> sqlite3.Row | None:
    """The content with this hash if it is stored whole."""
    row: sqlite3.Row | None = connection.execute(
        "SELECT * FROM contents WHERE sha256 = ? AND state = 'done'", (sha256,)
    ).fetchone()
    return row
