"""Which readers read a content, so that one that older readers read is recognised and can be read again.

`READER_VERSION` counts changes of what readers give of the same bytes. Whoever makes such a change raises it by one and
notes it in `CHANGED` for the kinds of documents that are read otherwise now; contents that hold none of them stay.
"""

from unabridged.ingest.document import Kind

READER_VERSION = 1

# The READER_VERSION with which a kind's reader last changed. What was of another kind before, or not read at all, is
# OTHER.
CHANGED: dict[Kind, int] = dict.fromkeys(Kind, 1)


def outdated_kinds(version: int) -> list[Kind]:
    """The kinds that readers read otherwise now than those of `version` did."""
    return [kind for kind, changed in CHANGED.items() if changed > version]
