"""The library: what was read, kept in one SQLite file, and found again.

`Library` is the only door; `reads`, `search` and `writes` behind it hold the queries. It knows documents, pages and
collections; it does not know how files are read (that is `add`) nor what tokens mean (that is `tokens`).

Threads: one `Library` may be shared. Every thread gets its own connection on first use, so a server can call it from
any worker thread. Reading never waits for a writer (WAL). Writing takes the lock beside the database: one writer at a
time over all processes, the second gets `LibraryBusy`.

Files, contents, documents: a *file* is a path with size and time; its *content* is identified by SHA-256 and holds a
tree of *documents*. Two paths with the same bytes share one content. A content that is still being read is invisible.
"""

import sqlite3
import threading
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from unabridged.ingest.adding import roots
from unabridged.ingest.adding.watch import Folder
from unabridged.ingest.catalog import hidden, names, page_map, reads, search, tags, writes
from unabridged.ingest.catalog.database import LIBRARY_FAULTS, connect, explain
from unabridged.ingest.catalog.explained import explained
from unabridged.ingest.catalog.filters import Filter
from unabridged.ingest.catalog.outdated import Outdated, outdated
from unabridged.ingest.catalog.page_map import PageFacts, PageProblem
from unabridged.ingest.catalog.reindex import reindex
from unabridged.ingest.catalog.rows import CollectionRow, Composing, Counts, DocumentRow, Hit, PageRow
from unabridged.ingest.lock import Lock

DEFAULT = "default"


class Library:
    """An open library. Use as a context manager or call `close`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._local = threading.local()
        self._connections: list[sqlite3.Connection] = []
        self._guard = threading.Lock()

    @classmethod
    def open(cls, path: Path) -> "Library":
        """Opens the database file at `path`, creating it and its folder where missing and migrating it where old.

        Raises LibraryDamaged: the file is no database, is corrupt, or was written by a newer version.
        """
        library = cls(path)
        library.connection  # noqa: B018 - connecting is what raises
        return library

    @property
    def connection(self) -> sqlite3.Connection:
        """This thread's connection. For the modules of ingest only."""
        connection: sqlite3.Connection | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = self._local.connection = connect(self.path)
            with self._guard:
                self._connections.append(connection)
        return connection

    def lock(self) -> Lock:
        """The writers' lock, not yet taken."""
        return Lock(self.path.with_name("library.lock"))

    @explained
    def collections(self) -> list[CollectionRow]:
        """All collections by name. "default" always exists."""
        return reads.collections(self.connection)

    @explained
    def composition(self, collection: str) -> Composing:
        """How a model reads the collection. Raises CollectionNotFound."""
        return reads.composition(self.connection, collection)

    @explained
    def folders(self, collection: str | None = DEFAULT) -> list[Folder]:
        """The folders that a collection (None: any) was made of, with what is left out of each."""
        return roots.folders(self.connection, collection)

    @explained
    def compose(self, collection: str, composition: Composing) -> None:
        """Says how a model shall read the collection, which is made if there is none. Raises LibraryBusy."""
        with self.lock():
            writes.compose(self.connection, collection, composition)

    @explained
    def documents(
        self,
        collection: str | None = DEFAULT,
        patterns: Filter | Sequence[str] = (),
        *,
        tokenizer: str | None = None,
    ) -> list[DocumentRow]:
        """The documents of a collection (None: of the library), files in natural order, what a file holds behind it.

        `patterns`: globs where they have *, ? or [, otherwise substrings of the path, case-insensitive; a document
        matches when any pattern matches it or what it lies in. Or a filter. `tokenizer`: whose token counts; None: the
        last one. Raises CollectionNotFound, FilterInvalid.
        """
        return reads.documents(self.connection, collection, patterns, tokenizer)

    @explained
    def document(self, document_id: int) -> DocumentRow:
        """One document. Raises DocumentNotFound."""
        return reads.document(self.connection, document_id)

    @explained
    def children(self, document_id: int) -> list[DocumentRow]:
        """What a document holds itself (the messages of a mailbox, the attachments of a message), in reading order."""
        return reads.children(self.connection, document_id)

    @explained
    def pages(self, document_id: int) -> list[PageRow]:
        """All pages in order. A container (mailbox) has none. Raises DocumentNotFound."""
        return reads.pages(self.connection, document_id)

    @explained
    def page(self, document_id: int, number: int) -> PageRow:
        """One page by physical number from 1. Raises DocumentNotFound."""
        return reads.page(self.connection, document_id, number)

    @explained
    def page_map(self, document_id: int) -> list[PageFacts]:
        """What became of each page, in order. Raises DocumentNotFound."""
        return page_map.page_map(self.connection, document_id)

    @explained
    def problem_pages(self, documents: Sequence[int]) -> dict[int, list[PageProblem]]:
        """The pages of these documents that were not read as they should be, by document."""
        return page_map.problem_pages(self.connection, documents)

    @explained
    def search(
        self,
        query: str,
        collection: str | None = DEFAULT,
        limit: int = 20,
        documents: Sequence[int] = (),
        where: Filter | None = None,
    ) -> list[Hit]:
        """The best pages for `query`, best first. "quoted words" must stand together, other words add up and pages that
        have all of them come first. Any punctuation is accepted; a query without words finds nothing. `documents`
        narrows to these ids, `where` to what it means. Raises CollectionNotFound, FilterInvalid."""
        if where:
            documents = [row.id for row in reads.documents(self.connection, collection, where)]
            if not documents:
                return []
        return search.search(self.connection, query, collection, limit, documents)

    @explained
    def named(self, query: str, collection: str | None = DEFAULT, where: Filter | None = None) -> list[DocumentRow]:
        """Documents with all of `query` in name or title; messages are found by their pages. Raises as `search`."""
        return names.named(self.connection, query, collection, where)

    @explained
    def hidden(
        self, query: str, collection: str | None = DEFAULT, where: Filter | None = None
    ) -> list[tuple[str, int]]:
        """Path and page where hidden text has all of `query`. Reads all pages. Raises as `search`."""
        return hidden.hidden_hits(self.connection, query, collection, where)

    @explained
    def rank(
        self, question: str, collection: str | None = DEFAULT, limit: int = 20, documents: Sequence[int] = ()
    ) -> list[tuple[int, int, float]]:
        """The pages that most likely answer `question`: (document id, page number, score), best first. Words that every
        question has are dropped and rare words dominate. Empty when no word of the question occurs."""
        return search.rank(self.connection, question, collection, limit, documents)

    @explained
    def hiding(self, documents: Iterable[int]) -> int:
        """How many of these documents have hidden text."""
        return hidden.hiding(self.connection, documents)

    @explained
    def counts(self, collection: str | None = DEFAULT) -> Counts:
        """How much there is. Raises CollectionNotFound."""
        return reads.counts(self.connection, collection)

    @explained
    def tags(self, collection: str | None = DEFAULT) -> dict[str, int]:
        """All tags by name, with how many documents have them: given ones, and those of folders, archives and mail.
        Raises CollectionNotFound."""
        return tags.tags(self.connection, collection)

    @explained
    def tag(self, name: str, where: Filter, collection: str = DEFAULT) -> list[str]:
        """Gives a tag to the documents that `where` means, and says which, by path; what they hold has it with them.
        Raises FilterInvalid (also of a name), DocumentNotFound, CollectionNotFound, LibraryBusy."""
        with self.lock():
            return tags.tag(self.connection, name, where, collection)

    @explained
    def untag(self, name: str, where: Filter, collection: str = DEFAULT) -> list[str]:
        """Takes a given tag from the documents that `where` means, and says from which, by path. Raises as `tag`, and
        DocumentNotFound where none had been given it."""
        with self.lock():
            return tags.untag(self.connection, name, where, collection)

    @explained
    def remove(self, patterns: Sequence[str], collection: str = DEFAULT) -> list[str]:
        """Takes the files that match (see `documents`) out of the collection and says which, by path. The text goes
        when no collection holds it any more; the user's files are never touched. Raises DocumentNotFound when nothing
        matches, CollectionNotFound, LibraryBusy."""
        with self.lock():
            return writes.remove(self.connection, patterns, collection)

    @explained
    def remove_document(self, document_id: int, collection: str | None = None) -> list[str]:
        """Takes the file of this document, with all its locations, out of `collection` (None: out of all) and says
        which paths went. Raises DocumentNotFound, LibraryBusy."""
        with self.lock():
            return writes.remove_document(self.connection, document_id, collection)

    @explained
    def remove_collection(self, collection: str) -> list[str]:
        """Drops a collection and says which files it held. "default" stays, empty. Raises CollectionNotFound."""
        with self.lock():
            return writes.remove_collection(self.connection, collection)

    @explained
    def outdated(self) -> list[Outdated]:
        """Files that were read by readers that would read them otherwise now, one for each content."""
        return outdated(self.connection)

    def reindex(self) -> Iterator[tuple[int, int]]:
        """Makes the search index anew from the pages; pages done and in all, now and then. The generator must be run to
        its end. Raises LibraryBusy, LibraryDamaged."""
        try:
            with self.lock():
                yield from reindex(self.connection)
        except LIBRARY_FAULTS as error:
            raise explain(error, self.path) from error

    @explained
    def verify(self) -> list[str]:
        """What is wrong with the database, in sentences; empty when it is sound. Reads all of it."""
        return reads.verify(self.connection)

    def close(self) -> None:
        """Closes every thread's connection."""
        with self._guard:
            for connection in self._connections:
                connection.close()
            self._connections.clear()
            self._local = threading.local()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
