"""Text as the search index sees it: words cut, folded and stemmed, each with the characters it came from.

The same cutting serves pages and queries, so both always agree. Two streams come of a text:
  main    every word in order. "The ﬁle ABC-123" -> the file abc 123; a run of CJK gives overlapping pairs and its last
          character (会議室 -> 会議 議室 室), so that any stretch of it is found as a phrase;
  joined  what punctuation holds together, as one word: abc123, wellknown (also across a line end or a page's end), 3.5,
          2024-03-01; and what is spelled otherwise elsewhere (`spellings`).
It knows nothing of SQLite. Whatever changes the words of a given text must change `INDEX_VERSION`.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator
from functools import cache, lru_cache
from itertools import pairwise
from typing import NamedTuple

from unabridged.ingest.catalog.spellings import others
from unabridged.ingest.document import Part, PartKind

# The tables of Unicode differ between Python versions, and with them a few words.
INDEX_VERSION = f"2/{unicodedata.unidata_version}"

_CJK = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"  # Thai, Lao, Burmese, Khmer: written without spaces too
    "\u3005-\u3007\u3040-\u30ff\u3131-\u318e\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97f"
    "\uac00-\ud7ff\uf900-\ufaff\uff66-\uffdc\U00020000-\U0003ffff"
)
_VARIANTS = "\ufe00-\ufe0f\U000e0100-\U000e01ef"  # choose a form of the character before
_CJK_RUN = re.compile(f"[{_CJK}][{_CJK}{_VARIANTS}]*")
_INVISIBLE = "\u00ad\u200b-\u200d\u2060\ufeff" + _VARIANTS
_DROPPED = re.compile(f"[{_INVISIBLE}\u0300-\u036f\u0591-\u05c7\u0640\u064b-\u065f\u0670]")
_SPELLED = str.maketrans(
    {"ø": "o", "ł": "l", "đ": "d", "æ": "ae", "œ": "oe", "ı": "i", "ð": "d", "þ": "th"}
    | {"ى": "ي", "ی": "ي", "ک": "ك", "ة": "ه", "ہ": "ه", "ھ": "ه", "ٱ": "ا"}  # Arabic and Persian keyboards
    | {chr(code): str(unicodedata.decimal(chr(code))) for code in range(0x660, 0x10000) if chr(code).isdecimal()}
)
_NASAL = re.compile("[ङञणनम]\u094d(?=[क-ह])")  # written as a dot as well: हिन्दी, हिंदी
_GROUPED = re.compile(r"\d{1,3}(?:[.,'’ ]\d{3})+(?:[.,]\d+)?")
_LAKHS = re.compile(r"\d{1,2}(?:,\d{2})+,\d{3}(?:\.\d+)?")
_LONGEST_JOINED = 64
_UNDERSCORE = "\x1f"  # stands in for "_", which regular expressions count as a letter
_ASCII_WORD = re.compile("[0-9A-Za-z]+")
_LINE_END = r"[ \t]*\n[ \t]*(?:\n[ \t]*)?"
_ASCII_JOINED = re.compile(
    rf"(?<![0-9A-Za-z])[0-9A-Za-z]++(?:(?:-{_LINE_END}|[-'{_UNDERSCORE}./@:,&+#])[0-9A-Za-z]++)+"
)
_BROKEN_OFF = re.compile(rf"(\w[\w{_INVISIBLE}]*)[-‐‑¬\u00ad]\s*(?:\n\s*\d{{1,4}}\s*)?\Z")  # a page number may follow
_GOES_ON = re.compile(r"\s*(\w+)")
LONGEST_END = 100


_SIBILANTS = ("xe", "xes", "che", "ches", "she", "shes", "sse", "sses")


class Word(NamedTuple):
    """A word of the index and `text[start:end]` that it stands for."""

    term: str
    start: int
    end: int


def words(text: str) -> Iterator[Word]:
    """The main stream."""
    for found in _word_pattern().finditer(text.replace("_", " ")):
        run, start = found.group(), found.start()
        if run.isascii():
            yield Word(fold(run), start, found.end())
        else:
            yield from _split_scripts(run, start)


def joined(text: str, humps: bool = True) -> Iterator[Word]:
    """The joined stream. `humps`: with the pieces of names in mixed case, which a query is not meant to be cut into."""
    yield from _held_together(text)
    for spelling, start, end in others(text, humps):
        if (term := fold(spelling)) and end - start <= _LONGEST_JOINED:
            yield Word(term, start, end)


def _held_together(text: str) -> Iterator[Word]:
    pattern = _ASCII_JOINED if text.isascii() else _joined_pattern()
    for found in pattern.finditer(text.replace("_", _UNDERSCORE)):
        if found.end() - found.start() <= _LONGEST_JOINED and (term := _join(found.group())):
            yield Word(term, found.start(), found.end())


def index_text(text: str, parts: Iterable[Part] = (), before: str = "") -> tuple[str, str]:
    """The two streams of a page, words separated by spaces. Hidden parts are left out: nobody sees them on the page.
    `before`: `page_end` of the page before; a word that is broken between the two is found on this one."""
    visible = blank_hidden(text, parts)
    whole = [word.term for word in joined(visible)]
    if before and (broken := _BROKEN_OFF.search(before)) and (rest := _GOES_ON.match(visible)):
        whole.append(fold(broken[1] + rest[1]))
    return " ".join(terms(visible)), " ".join(whole)


def page_end(text: str, parts: Iterable[Part]) -> str:
    """The end of a page as far as a word that is broken there can reach; "" where hidden text may stand there."""
    return "" if any(part.kind is PartKind.HIDDEN for part in parts) else text[-LONGEST_END:]


def terms(text: str) -> Iterable[str]:
    """The words of the main stream without their places: three times as fast, and most of what adding costs."""
    if text.isascii():
        return map(fold, _ASCII_WORD.findall(text))
    if _CJK_RUN.search(text) is None:
        return filter(None, map(fold, _word_pattern().findall(text.replace("_", " "))))
    return (word.term for word in words(text))


def blank_hidden(text: str, parts: Iterable[Part]) -> str:
    """`text` with every hidden part replaced by as many line ends: positions stay, words do not run together."""
    for part in parts:
        if part.kind is PartKind.HIDDEN:
            text = text[: part.start] + "\n" * (part.end - part.start) + text[part.end :]
    return text


def begins_pair(term: str) -> bool:
    """Whether a query's term is one character of a script without spaces: it is sought as the beginning of a pair."""
    return len(term) == 1 and _CJK_RUN.match(term) is not None


@lru_cache(maxsize=1 << 16)
def fold(word: str) -> str:
    """A word without case, accents, ligatures, widths, soft hyphens and the English plural s."""
    if not word.isascii():
        word = unicodedata.normalize("NFKC", _DROPPED.sub("", word)).casefold().translate(_SPELLED)
        word = unicodedata.normalize("NFC", _DROPPED.sub("", unicodedata.normalize("NFD", word)))
        word = _NASAL.sub("\u0902", word.translate(_SPELLED))
        word = "".join(character for character in word if not character.isspace())
    return _singular(word.lower())


def _singular(word: str) -> str:
    """Harman's three rules, and boxes, losses, branches (box, loss, branch; cache and caches both end up as cach): what
    they do to a name they do to it everywhere, so it is still found."""
    if len(word) < 4 or word[-1] not in "es" or not word.isalpha() or not word.isascii():
        return word
    if word.endswith(_SIBILANTS):
        return word.removesuffix("s").removesuffix("e")
    if word[-1] == "e":
        return word
    if word.endswith("ies") and not word.endswith(("eies", "aies")):
        return word[:-3] + "y"
    return word if word.endswith(("us", "ss", "aes", "ees", "oes")) else word[:-1]


def _split_scripts(run: str, start: int) -> Iterator[Word]:
    """The words of a run that may mix scripts that use spaces with scripts that do not."""
    at = 0
    for found in _CJK_RUN.finditer(run):
        yield from _plain(run[at : found.start()], start + at)
        yield from _pairs(found.group(), start + found.start())
        at = found.end()
    yield from _plain(run[at:], start + at)


def _plain(run: str, start: int) -> Iterator[Word]:
    if run and (term := fold(run)):
        yield Word(term, start, start + len(run))


def _pairs(run: str, start: int) -> Iterator[Word]:
    characters = [(at, term) for at, character in enumerate(run) if (term := fold(character))]
    for (at, first), (after, second) in pairwise([*characters, (len(run) - 1, "")]):
        yield Word(first + second, start + at, start + after + 1)


def _join(run: str) -> str:
    if _GROUPED.fullmatch(run):
        return re.sub(r"[.,'’ ](?=\d{3})", "", run).translate(_SPELLED)
    if _LAKHS.fullmatch(run):
        return run.replace(",", "").translate(_SPELLED)
    if run[0].isdigit() and not any(character.isalpha() for character in run):
        return re.sub(r"\s", "", run.replace(_UNDERSCORE, "_")).translate(_SPELLED)
    return fold("".join((_ASCII_WORD if run.isascii() else _word_pattern()).findall(run)))


@cache
def _word_pattern() -> re.Pattern[str]:
    """Letters and digits with the marks that stand on them. Underscores are spaces by then."""
    return re.compile(rf"\w[\w{_marks()}{_INVISIBLE}]*+")


@cache
def _joined_pattern() -> re.Pattern[str]:
    """At least two words with single punctuation between them; a hyphen may stand at a line end. Never tries a word
    twice: possessive, and only from its beginning."""
    word = rf"\w[\w{_marks()}{_INVISIBLE}]*+"
    broken = rf"[-‐‑¬]{_LINE_END}|(?<=\u00ad)(?:{_LINE_END}|[ \t])"
    return re.compile(rf"(?<![\w{_marks()}{_INVISIBLE}]){word}(?:(?:{broken}|[-‐‑‒–'’{_UNDERSCORE}./@:,&+#]){word})+")


@cache
def _marks() -> str:
    """All combining marks of the basic plane as ranges of a character class: `\\w` knows none of them."""
    ranges: list[list[int]] = []
    for code in range(0x300, 0xFE30):
        if unicodedata.category(chr(code))[0] == "M":
            if ranges and ranges[-1][1] == code - 1:
                ranges[-1][1] = code
            else:
                ranges.append([code, code])
    return "".join(f"{chr(first)}-{chr(last)}" for first, last in ranges)
