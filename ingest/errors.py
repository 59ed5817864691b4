"""Errors of ingestion.

    UnabridgedError
      IngestError
        PathNotFound       nothing lies at a path that was named
        PatternInvalid     a pattern for files has no meaning
        FilterInvalid      a date, kind or thread of a filter has no meaning
        LibraryBusy        another process is writing to the library
        LibraryDamaged     the database cannot be used as it is
        DocumentNotFound   no document matches
        CollectionNotFound no collection of that name
        ReaderUnavailable  the process that reads files cannot be started
        ReadingAborted     the addition was stopped while a file was read

A single file that cannot be read is never an exception out of ingest: it is a document with a status and a reason.
"""

from unabridged.models.errors import UnabridgedError


class IngestError(UnabridgedError):
    """Ingestion cannot go on."""

    code = "ingest_error"


class PathNotFound(IngestError):
    """Nothing lies at a path that was named."""

    code = "path_not_found"


class PatternInvalid(IngestError):
    """A pattern for files has no meaning."""

    code = "pattern_invalid"


class FilterInvalid(IngestError):
    """A date, kind or thread of a filter has no meaning."""

    code = "filter_invalid"


class LibraryBusy(IngestError):
    """Another process is writing to the library."""

    code = "library_busy"


class LibraryDamaged(IngestError):
    """The library's database cannot be used as it is."""

    code = "library_damaged"


class DocumentNotFound(IngestError):
    """No document matches what was asked for."""

    code = "document_not_found"


class CollectionNotFound(IngestError):
    """No collection of that name."""

    code = "collection_not_found"


class ReaderUnavailable(IngestError):
    """The process that reads files cannot be started."""

    code = "reader_unavailable"


class ReadingAborted(IngestError):
    """The addition was stopped while a file was read."""

    code = "reading_aborted"
