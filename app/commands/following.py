"""What `unabridged add --watch` does after it has added: stays, and tells what comes of every change."""

import threading
from collections.abc import Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from unabridged.app.cli import say
from unabridged.app.commands.common import App, emit
from unabridged.app.output import count
from unabridged.app.printable import one_line

if TYPE_CHECKING:
    from unabridged.app.settings import Settings
    from unabridged.ingest.adding.watch import Batch
    from unabridged.ingest.catalog.rows import AddItem, FileDone


@dataclass(frozen=True)
class Followed:
    """How folders are followed: whether the model reads what has changed, and how it is told."""

    prefill: bool
    quiet: bool
    as_json: bool


def follow(app: App, settings: "Settings", collection: str, how: Followed) -> None:
    """Follow the folders of the collection until Ctrl+C."""
    import msgspec

    from unabridged.app.adding import options_of
    from unabridged.app.commands.reading_ahead import read_ahead
    from unabridged.app.following import follow as following
    from unabridged.ingest.adding.add import add
    from unabridged.ingest.adding.watch import Batch, Notice
    from unabridged.ingest.catalog.rows import FileDone

    tokenizer = app.tokenizer(settings.model.name)
    stop = threading.Event()
    changed = False
    with app.library() as library:

        def look(batch: "Batch") -> "Generator[AddItem, None, None]":
            options = msgspec.structs.replace(options_of(settings.ingest), only=batch.only)
            return add(library, [batch.folder], batch.collection, tokenizer, options)

        say(f"following {count(len(library.folders(collection)), 'folder')} of {collection}; Ctrl+C ends it")
        for step in following(library, collection, look, stop):
            if isinstance(step, Notice):
                say(one_line(step.text))
            elif isinstance(step, FileDone) and step.change != "unchanged":
                changed = True
                _tell(step, how)
            elif isinstance(step, Batch) and changed and how.prefill:
                read_ahead(app, settings, collection, (), quiet=how.quiet, as_json=how.as_json)
                changed = False


def _tell(item: "FileDone", how: Followed) -> None:
    if how.as_json:
        emit(item)
    elif not how.quiet or item.status != "read":
        status = "" if item.status == "read" or item.change == "removed" else f"  {item.status.replace('_', ' ')}"
        reason = f": {item.reason}" if status and item.reason else ""
        say(one_line(f"{item.change}  {item.path}{status}{reason}"))
