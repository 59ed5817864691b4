"""A winmail.dat of its own to items."""

from collections.abc import Iterator

from unabridged.ingest.document import Item, Status
from unabridged.ingest.outlook import mapi_letter, tnef
from unabridged.ingest.reading import Place, Reading, Source, Unreadable


def read(source: Source, reading: Reading, place: Place) -> Iterator[Item]:
    """The message in the container. Raises Unreadable for one that holds nothing."""
    record = tnef.record(source.data, reading.limits)
    if not record.properties and not record.attachments:
        raise Unreadable(Status.DAMAGED, "a winmail.dat in which nothing can be read")
    yield from mapi_letter.items(record, source, reading, place)
