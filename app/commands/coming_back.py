"""What a removal does not hold: files that lie in folders which are looked at again."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from unabridged.app.output import count

if TYPE_CHECKING:
    from unabridged.ingest.library import Library


def coming_back(library: "Library", collection: str, removed: Sequence[str]) -> str:
    """A sentence on the files that the next look at the collection's folders brings back, with the way out; empty where
    there are none. Looks at the disk."""
    from unabridged.ingest.catalog.writes import gone
    from unabridged.ingest.paths import stored

    tops = [stored(folder.path).rstrip("/") for folder in library.folders(collection)]
    back = [(top, path) for path in removed for top in tops if path.startswith(f"{top}/") and not gone(path)]
    if not back:
        return ""
    files = len({path for _, path in back})
    lie = "still lies in a folder" if files == 1 else "still lie in folders"
    read = "it" if files == 1 else "them"
    ignore = f"{back[0][0]}/.unabridgedignore"
    back_again = f"the next `add` reads {read} again unless {ignore} names {read}"
    return f"{count(files, 'file')} {lie} of the collection: {back_again}"
