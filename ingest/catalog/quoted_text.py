"""A stored message as words: what it quotes, and the rest of its text.

Lines within a quotation that say who is quoted do not count. Where answers stand between quotations, the last words of
each quotation in front of an answer belong to the rest: the answers would make no sense without them.
"""

import json
import re
import sqlite3
from dataclasses import dataclass, field

from unabridged.ingest.document import PartKind
from unabridged.ingest.mail.label_quotes import attributes

_KEPT = 12  # words in front of an answer
_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]|[^\W_]+")
_QUOTED = (PartKind.QUOTED, PartKind.FORWARDED)
_NO_SOURCE = (PartKind.HEADER, PartKind.HIDDEN, PartKind.ATTRIBUTION)


@dataclass
class Message:
    """A message's quotations as (page, start, end, words), and its other text."""

    id: int
    quotes: list[tuple[int, int, int, list[str]]] = field(default_factory=list)
    own: list[list[str]] = field(default_factory=list)
    size: int = 0


def message_of(connection: sqlite3.Connection, document: int) -> Message:
    """A stored message."""
    found = Message(document)
    rows = connection.execute(
        "SELECT number, text, parts FROM pages WHERE document_id = ? ORDER BY number", (document,)
    )
    for row in rows:
        text, at = row["text"], 0
        found.size += len(text)
        parts = [(PartKind(kind), start, end) for kind, start, end in json.loads(row["parts"])]
        answered = [index for index, part in enumerate(parts) if part[0] in _QUOTED and _answered(text, parts, index)]
        for index, (kind, start, end) in enumerate(parts):
            found.own.append(_words(text[at:start]))
            at = end
            if kind in _QUOTED:
                quoted = text[start:end]
                kept = _last_words(quoted) if len(answered) > 1 and index in answered else 0
                cut = len(quoted) - kept
                found.own.append(_words(quoted[cut:]))
                found.quotes.append((row["number"], start, start + cut, _quoted_words(quoted[:cut])))
            elif kind not in _NO_SOURCE:
                found.own.append(_words(text[start:end]))
        found.own.append(_words(text[at:]))
    return found


def _answered(text: str, parts: list[tuple[PartKind, int, int]], index: int) -> bool:
    """Whether something of the writer's own follows the part."""
    behind = parts[index + 1][1] if index + 1 < len(parts) else len(text)
    return bool(text[parts[index][2] : behind].strip())


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())


def _quoted_words(text: str) -> list[str]:
    """The words of a quotation without its marks and without the lines in it that say who is quoted."""
    words: list[str] = []
    for line in text.split("\n"):
        bare = line.lstrip("> \t|›»")
        if bare and not (bare.rstrip()[-1:] in ":：" and attributes(bare)):
            words += _words(bare)
    return words


def _last_words(text: str) -> int:
    """How many characters at the end of a quotation stay in front of an answer: the last lines with some words."""
    kept = words = 0
    for line in reversed(text.split("\n")):
        count = len(_words(line))
        if words and words + count > 2 * _KEPT:
            break
        if count > 2 * _KEPT:
            return kept + len("".join(re.findall(r"\S+\s*", line)[-_KEPT:])) + (1 if kept else 0)
        kept, words = kept + len(line) + (1 if kept else 0), words + count
        if words >= _KEPT:
            break
    return min(kept, len(text))
