"""From a file's bytes to its stream of items: finds the reader, and holds what no reader may break.

Whatever a reader raises, every document that was opened is closed, with a status and a reason for people.
"""

from collections.abc import Callable, Iterator
from importlib import import_module

from unabridged.ingest.detect import HEAD, detect
from unabridged.ingest.document import Closed, Item, Kind, Opened, Page, Status
from unabridged.ingest.magic import Detected
from unabridged.ingest.reading import Place, Reading, Source, Unreadable

Reader = Callable[[Source, Reading, Place], Iterator[Item]]

# The module that reads a kind, where nothing more is known.
_READERS = {
    Kind.PDF: "pdf.read",
    Kind.MAILBOX: "mail.mbox",
    Kind.MESSAGE: "mail.read",
    Kind.HTML: "texts.html",
    Kind.TEXT: "texts.text",
    Kind.MARKDOWN: "texts.text",
    Kind.CODE: "texts.code",
    Kind.IMAGE: "ocr.picture",
}
_TEXTS = frozenset({Kind.TEXT, Kind.MARKDOWN, Kind.CODE})


def read_source(source: Source, reading: Reading, place: Place) -> Iterator[Item]:
    """The items of one document and of all that it holds."""
    found = Detected(source.kind) if source.kind else detect(source.data[:HEAD], source.name)
    return guarded(reader_of(found), source, reading, place, found.kind)


def reader_of(found: Detected) -> Reader:
    """The reader for a kind. Its libraries are loaded here, when the first such document comes."""
    if found.kind == Kind.OTHER:
        return lambda source, reading, place: _unsupported(found.what)
    module = import_module(f"unabridged.ingest.{found.reader or _READERS[found.kind]}")
    if found.kind in _TEXTS:
        return lambda source, reading, place: module.read(source, reading, place, found.kind)
    reader: Reader = module.read
    return reader


def _unsupported(what: str) -> Iterator[Item]:
    raise Unreadable(Status.UNSUPPORTED, f"{what}: not read in this version")
    yield


def guarded(reader: Reader, source: Source, reading: Reading, place: Place, kind: Kind) -> Iterator[Item]:
    """The reader's items, completed to a sound stream if it fails."""
    open_refs: dict[int, int] = {}
    try:
        for item in reader(source, reading, place):
            _follow(item, open_refs)
            yield item
    except Unreadable as error:
        yield from _close(open_refs, source, reading, place, kind, error.status, error.reason)
    except MemoryError:
        reason = f"needs more than {reading.limits.memory_bytes >> 20} MB of memory"
        yield from _close(open_refs, source, reading, place, kind, Status.DAMAGED, reason)
    except RecursionError:
        yield from _close(open_refs, source, reading, place, kind, Status.DAMAGED, "nested too deeply")
    except Exception as error:
        reason = f"damaged: reading failed ({type(error).__name__}: {str(error)[:200]})"
        yield from _close(open_refs, source, reading, place, kind, Status.DAMAGED, reason)


def _follow(item: Item, open_refs: dict[int, int]) -> None:
    """Keeps the number of pages of each open document."""
    if isinstance(item, Opened):
        open_refs[item.ref] = 0
    elif isinstance(item, Page):
        open_refs[item.ref] += 1
    else:
        del open_refs[item.ref]


def _close(
    open_refs: dict[int, int],
    source: Source,
    reading: Reading,
    place: Place,
    kind: Kind,
    status: Status,
    reason: str,
) -> Iterator[Item]:
    if not open_refs:
        ref = reading.ref()
        unread = Kind.OTHER if status == Status.UNSUPPORTED else kind
        yield source.opened(ref, place, unread)
        open_refs[ref] = 0
    for ref, pages in reversed(open_refs.items()):
        partial = pages and status == Status.DAMAGED
        yield Closed(ref=ref, status=Status.PARTIAL if partial else status, reason=reason)
