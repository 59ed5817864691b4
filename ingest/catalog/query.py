"""What a person typed, as words to look for and expressions of FTS5. Never fails on any punctuation.

"Quoted words" must stand together on a page that is found; the other words add up. A word that holds punctuation
(ABC-123) is looked for whole and in its pieces.
"""

import math
import re
import unicodedata
from dataclasses import dataclass

from unabridged.ingest.catalog.index_text import begins_pair, fold, joined, words

_QUOTES = str.maketrans(dict.fromkeys("“”„‟«»″", '"'))
_IN_HEBREW = re.compile('(?<=[\u05d0-\u05ea])"(?=[\u05d0-\u05ea])')  # part of an abbreviation, no quotation
_QUOTED = re.compile(r'"([^"]*)"?')

# Words that questions are made of, in the languages most archives are written in. Folded as the index folds.
_STOP_WORDS = frozenset(
    fold(word)
    for line in (
        "a about above after all also am an and any are as at be been before being between both but by can could d",
        "did do does doing down during each few for from further had has have having he her here hers him his how i",
        "if in into is it its just know ll me more most my no nor not of off on once only or other our out over own",
        "please re s same she should so some such t tell than that the their them then there these they this those",
        "through to too under until up upon us ve very was we were what when where which while who whom whose why",
        "will with would you your der die das den dem des ein eine einer eines einem einen und oder ist sind war",
        "waren wird werden wer wie wo wann warum welche welcher welches im auf aus bei mit nach von vom zu zum zur",
        "fur es sie er wir ich nicht le la les un une du de et ou est sont etait quel quelle quels quelles qui que",
        "quoi dans sur pour par avec au aux el los las una y o son fue cual cuales quien como donde cuando por para",
        "con del al en se su il lo gli di da che e chi come dove quando per nel nella het een van zijn",
    )
    for word in line.split()
)


@dataclass(frozen=True)
class Query:
    """`terms` add up; each of `phrases` (runs of words, which are among the terms too) is required."""

    terms: tuple[str, ...]
    phrases: tuple[tuple[str, ...], ...] = ()

    def any_word(self) -> str:
        """An FTS5 expression: all phrases, and whatever words there are."""
        some = " OR ".join(_quoted(word) for word in self.terms)
        return " AND ".join((*map(_phrase, self.phrases), f"({some})"))

    def all_words(self) -> str:
        """An FTS5 expression: all phrases and all words."""
        return " AND ".join((*map(_phrase, self.phrases), *map(_quoted, self.terms)))

    def without_stop_words(self) -> "Query":
        """Without the words that questions are made of, unless nothing else is left."""
        kept = tuple(term for term in self.terms if term not in _STOP_WORDS)
        return Query(kept, self.phrases) if kept else self


def weight(pages: int, total: int) -> float:
    """How much a word counts that stands on `pages` of `total` pages; a word that occurs nowhere counts nothing."""
    return math.log(1.0 + (total - pages + 0.5) / (pages + 0.5)) if pages else 0.0


def parse(text: str) -> Query:
    """The words and phrases of what was typed."""
    text = _IN_HEBREW.sub("״", unicodedata.normalize("NFC", text)).translate(_QUOTES)
    phrases = [_run(quoted) for quoted in _QUOTED.findall(text)]
    rest = _QUOTED.sub(" ", text)
    terms = [*_run(rest), *(word.term for word in joined(rest, humps=False))]
    found = tuple(phrase for phrase in phrases if phrase)
    return Query(tuple(dict.fromkeys((*terms, *(word for phrase in found for word in phrase)))), found)


def _run(text: str) -> tuple[str, ...]:
    """The words of a run of text; the last character of a CJK run is in the pair before it."""
    found = list(words(text))
    return tuple(
        word.term
        for before, word in zip((None, *found), found, strict=False)
        if not (before and before.end == word.end and before.start < word.start)
    )


def _phrase(run: tuple[str, ...]) -> str:
    return _quoted(" ".join(run))


def _quoted(word: str) -> str:
    return '"' + word.replace('"', '""') + ('"*' if begins_pair(word) else '"')
