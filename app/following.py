"""Following folders: what changes in them gets into the library, told step by step. Knows no HTTP and no terminal.

The library may be in use by another command, a disk may be full or not mounted: it is said once, and tried again.
"""

import threading
from collections.abc import Callable, Generator
from contextlib import closing
from typing import TYPE_CHECKING

from unabridged.ingest.adding.watch import Batch, Notice, Pauses, Watch
from unabridged.ingest.catalog.rows import AddItem
from unabridged.ingest.errors import IngestError, LibraryBusy

if TYPE_CHECKING:
    from unabridged.ingest.library import Library

Look = Callable[[Batch], Generator[AddItem, None, None]]


def follow(
    library: "Library", collection: str | None, look: Look, stop: threading.Event, pauses: Pauses | None = None
) -> Generator[AddItem | Batch | Notice, None, None]:
    """The steps of looking at what changes in the folders of a collection (None: of any); a `Batch` is the end of the
    steps that came of it. Ends when `stop` is set. `look` begins to look at a batch."""
    watch = Watch(lambda: library.folders(collection), stop, library.path.parent, pauses)
    trouble = ""
    for step in watch.batches():
        if isinstance(step, Notice):
            yield step
            continue
        try:
            with closing(look(step)) as items:
                yield from items
            trouble = ""
            yield step
        except LibraryBusy:
            watch.again(step)
        except IngestError as error:
            watch.again(step)
            if str(error) != trouble:
                trouble = str(error)
                yield Notice(trouble)
