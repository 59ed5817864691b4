"""A stored message as words: what it quotes, line by line, and the stretches of its text that a quotation may be of.

Words are what stands between white space, with their case, their punctuation and their figures: "500," is not "500.".
Marks of quotations in front of a line do not count, nor whether quotation marks are curled; a word of letters that has
a hyphen is two ("long-", "term"), so that it is the same where a line was broken behind the hyphen. In Chinese and
Japanese each character is a word.
"""

import json
import re
import sqlite3
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from unabridged.ingest.document import PartKind
from unabridged.ingest.mail.label_quotes import attributes

_MARKS = "> \t|›»"
_IDEOGRAPH = "[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]"
_BREAK = re.compile(rf"(?<=[^\W\d_]-)(?=[^\W\d_])|(?<={_IDEOGRAPH})|(?={_IDEOGRAPH})")
_STRAIGHT = str.maketrans("‘’“”", "''\"\"")
_QUOTED = (PartKind.QUOTED, PartKind.FORWARDED)
# Our own lines over a message, what nobody sees, and what copies of a message may differ in.
_NO_SOURCE = (PartKind.HEADER, PartKind.HIDDEN, PartKind.FOOTER)


@dataclass(frozen=True)
class Line:
    """`text[start:end]` of a message. `depth`: how many times it is quoted, by its marks; `names`: it says who is
    quoted."""

    start: int
    end: int
    depth: int
    words: list[str]
    names: bool


@dataclass(frozen=True)
class Quote:
    """A quotation. `answered`: it is one of several with something of the writer's own behind them."""

    lines: list[Line]
    answered: bool


@dataclass
class Message:
    """A message's text, all pages in one; `pages` are their numbers and where they begin."""

    id: int
    text: str = ""
    pages: list[tuple[int, int]] = field(default_factory=list)
    quotes: list[Quote] = field(default_factory=list)
    no_source: list[tuple[int, int]] = field(default_factory=list)

    def shown(self, left_out: Iterable[tuple[int, int]]) -> Iterator[list[str]]:
        """The words of each stretch that stays together when these are left out."""
        at = 0
        for start, end in sorted([*self.no_source, *left_out, (len(self.text), len(self.text))]):
            if start > at:
                yield [word for line in self.text[at:start].split("\n") for word in _words(line.lstrip(_MARKS))]
            at = max(at, end)

    def on_pages(self, start: int, end: int) -> Iterator[tuple[int, int, int]]:
        """A stretch as (page, start, end) in the text of each page that it touches."""
        begins = [begin for _, begin in self.pages]
        for index in range(max(0, bisect_right(begins, start) - 1), len(self.pages)):
            number, begin = self.pages[index]
            stop = begins[index + 1] if index + 1 < len(begins) else len(self.text)
            if begin >= end:
                return
            if max(start, begin) < min(end, stop):
                yield number, max(start, begin) - begin, min(end, stop) - begin


def message_of(connection: sqlite3.Connection, document: int) -> Message:
    """A stored message."""
    found, parts, texts, at = Message(document), list[tuple[PartKind, int, int]](), list[str](), 0
    query = "SELECT number, text, parts FROM pages WHERE document_id = ? ORDER BY number"
    for row in connection.execute(query, (document,)):
        found.pages.append((row["number"], at))
        for name, start, end in json.loads(row["parts"]):
            kind = PartKind(name)
            if parts and parts[-1][0] is kind and parts[-1][2] == at + start:  # goes on from the page before
                parts[-1] = (kind, parts[-1][1], at + end)
            else:
                parts.append((kind, at + start, at + end))
        texts.append(row["text"])
        at += len(row["text"])
    found.text = "".join(texts)
    found.no_source = [(start, end) for kind, start, end in parts if kind in _NO_SOURCE]
    answered = {index for index, part in enumerate(parts) if part[0] in _QUOTED and _answered(found.text, parts, index)}
    for index, (kind, start, end) in enumerate(parts):
        if kind in _QUOTED:
            lines = list(_lines(found.text, start, end))
            found.quotes.append(Quote(lines, len(answered) > 1 and index in answered))
    return found


def _answered(text: str, parts: list[tuple[PartKind, int, int]], index: int) -> bool:
    """Whether something of the writer's own follows the part."""
    behind = parts[index + 1][1] if index + 1 < len(parts) else len(text)
    return bool(text[parts[index][2] : behind].strip())


def _lines(text: str, start: int, end: int) -> Iterator[Line]:
    at = start
    for line in text[start:end].split("\n"):
        bare = line.lstrip(_MARKS)
        depth = sum(mark in ">|›»" for mark in line[: len(line) - len(bare)])
        names = bare.rstrip()[-1:] in (":", "：") and attributes(bare)
        yield Line(at, at + len(line), depth, _words(bare), bool(bare) and bool(names))
        at += len(line) + 1


def _words(text: str) -> list[str]:
    words: list[str] = []
    for word in text.translate(_STRAIGHT).split():
        if word.isascii() and "-" not in word:
            words.append(word)
        else:
            words += filter(None, _BREAK.split(word))
    return words


def last_words(text: str, count: int) -> int:
    """How many characters at the end of a text hold so many of its words: whole lines, unless they are long."""
    kept = words = 0
    for line in reversed(text.split("\n")):
        here = len(_words(line.lstrip(_MARKS)))
        if words and words + here > 2 * count:
            break
        if here > 2 * count:
            return kept + len("".join(re.findall(r"\S+\s*", line)[-count:])) + (1 if kept else 0)
        kept, words = kept + len(line) + (1 if kept else 0), words + here
        if words >= count:
            break
    return min(kept, len(text))
