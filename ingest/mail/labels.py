"""Labels what in a message is not its writer's own new text: quotations and who is quoted, messages passed on,
signatures, what lists and gateways append.

Nothing is deleted; a label that is missing costs little, a wrong one hides what somebody wrote, so only plain cases are
labelled: an answer between two quotations, above or below them, keeps no label. Pure functions of a text, linear in its
length; the words of mail programs in their users' languages are in `label_words`.
"""

import hashlib
from collections.abc import Iterable, Mapping

from unabridged.ingest.document import Part, PartKind
from unabridged.ingest.mail import label_blocks, label_ends, label_quotes


def label(text: str) -> list[Part]:
    """Parts of a message body, in order, without overlap."""
    lines = text.split("\n")
    kinds: list[PartKind | None] = [None] * len(lines)
    label_ends.footers(lines, kinds)
    label_quotes.marked(lines, kinds)
    label_blocks.passed_on(lines, kinds)
    label_quotes.unmarked(lines, kinds)
    label_ends.signatures(lines, kinds)
    return _parts(lines, kinds, len(text))


def _parts(lines: list[str], kinds: list[PartKind | None], length: int) -> list[Part]:
    parts: list[Part] = []
    at = begin = 0
    for index, line in enumerate(lines):
        if index == 0 or kinds[index] != kinds[index - 1]:
            begin = at
        at += len(line) + 1
        kind = kinds[index]
        if kind is not None and (index + 1 == len(lines) or kinds[index + 1] != kind):
            parts.append(Part(kind, begin, min(at, length)))
    return [part for part in parts if part.start < part.end]


def body_hash(meta: Mapping[str, str], body: str, parts: Iterable[Part]) -> str:
    """What copies of a message have in common and variants have not: SHA-256, as hex, of its date, sender and subject
    (as in a document's meta) and its text without white space and without what mailing lists append. `parts` are the
    labels of `body`."""
    for part in sorted((part for part in parts if part.kind is PartKind.FOOTER), key=lambda part: -part.start):
        body = body[: part.start] + body[part.end :]
    digest = hashlib.sha256("\n".join(meta.get(key, "") for key in ("date", "from", "subject")).encode())
    digest.update("".join(body.split()).encode())
    return digest.hexdigest()
