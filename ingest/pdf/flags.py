"""What a reader of a PDF page should know, from what was found on it. Pure."""

from unabridged.ingest.document import Flag
from unabridged.ingest.pdf import quality
from unabridged.ingest.pdf.page import PageText

_CAPTION = 30  # characters: less beside a page-filling image is a stamp on a scan
_COVERED = 0.7


def flags(found: PageText, text: str, score: float, hidden: str, limit: int) -> tuple[Flag, ...]:
    """Of a page with this text, of this quality, with this hidden text; `limit` in characters."""
    said = []
    if found.images and (not text or (len(text) < _CAPTION and found.covered > _COVERED)):
        said.append(Flag.SCANNED)
    elif not text:
        said.append(Flag.EMPTY)
    elif score < quality.BAD:
        said.append(Flag.GARBLED)
    if hidden:
        said.append(Flag.HIDDEN)
    if found.columns:
        said.append(Flag.COLUMNS)
    if len(text) > limit:
        said.append(Flag.CUT)
    return tuple(said)
