"""What stored keys and values still hold of documents that were taken out of a collection, and how to be rid of them.

A file's name is a hash of tokens and of what computed them. So this says what may hold the text: what the collection's
lists name, and what no list names. Knows the store's folder, neither engine nor library. Torch-free.
"""

import shlex
from pathlib import Path

from unabridged.app.output import size
from unabridged.engine.errors import StoreError
from unabridged.engine.kv.folder import Folder
from unabridged.engine.kv.shelves import listed


def remains(kv: Path, collection: str) -> str:
    """A sentence with the commands that delete it; empty where nothing is stored. Blocking."""
    try:
        folder = Folder(kv, 0)
        stored = {one.key: one.size for one in folder.stored()}
    except StoreError as error:
        return str(error)
    shelves = folder.shelves.all()
    own = stored.keys() & listed(shelf for shelf in shelves if shelf.name == collection)
    loose = stored.keys() - listed(shelves)
    if not own and not loose:
        return ""
    name, commands = shlex.quote(collection), []
    if own:
        if collection in folder.shelves.pinned():
            commands.append(f"store unpin -c {name}")
        # Also where other lists name all of it: the last one that is evicted takes it along.
        commands.append(f"store evict -c {name}")
    if loose:
        commands.append("store evict --others")
    bytes_ = sum(stored[key] for key in own | loose)
    return (
        f"{size(bytes_)} of stored keys and values may hold what was removed; to delete them (of what remains they are "
        "made again when they are needed): " + " && ".join(f"unabridged {command}" for command in commands)
    )
