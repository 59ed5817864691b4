"""What a person typed, as words to look for and expressions of FTS5. Never fails on any punctuation.

"Quoted words" must stand together on a page that is found; the other words add up. A word that holds punctuation
(ABC-123) is looked for whole and in its pieces; a number (27,315) by people only whole, since its pieces stand in
others too. terminat* is the beginning of a word.
"""

import math
import re
import unicodedata
from dataclasses import dataclass

from unabridged.ingest.catalog.index_text import begins_pair, fold, joined, words

_QUOTES = str.maketrans(dict.fromkeys("“”„‟«»″", '"'))
_IN_HEBREW = re.compile('(?<=[\u05d0-\u05ea])"(?=[\u05d0-\u05ea])')  # part of an abbreviation, no quotation
_QUOTED = re.compile(r'"([^"]*)"?')
_BEGINNING = re.compile(r"(?<!\S)([^\W_]{2,})\*(?!\S)")
_OPERATOR = re.compile(r"(?<!\S)(?:(?:AND|OR|NOT|NEAR)(?!\S)|-[^\W\d_]\S*)")
_FIELD = re.compile(r"(?<!\S)(from|to|since|until|tag|kind|doc|thread):(?=[^\s/])")

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
class Unit:
    """One thing that was typed. A page has it where it has one of `terms`, `pieces` behind each other, or a word that
    begins with `beginning`."""

    terms: tuple[str, ...] = ()
    pieces: tuple[str, ...] = ()
    beginning: str = ""

    @property
    def name(self) -> str:
        """What it is called among the words that are weighed."""
        return f"{self.beginning}*" if self.beginning else " ".join(self.pieces or self.terms)

    @property
    def is_number(self) -> bool:
        """Whether it is a number that punctuation holds together."""
        return len(self.pieces) > 1 and all(piece.isdecimal() for piece in self.pieces)

    def expression(self) -> str:
        """An FTS5 expression for the pages that have it."""
        if self.beginning:
            return f'"{self.beginning}" *'
        return f"({' OR '.join((*map(_quoted, self.terms), *([_phrase(self.pieces)] if self.pieces else [])))})"


@dataclass(frozen=True)
class Query:
    """`terms` and `wholes` add up; each of `phrases` (runs of words, which are among the terms too) is required.
    `units` are all things that were typed."""

    terms: tuple[str, ...]
    phrases: tuple[tuple[str, ...], ...] = ()
    wholes: tuple[Unit, ...] = ()
    units: tuple[Unit, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.terms or self.wholes)

    def any_word(self) -> str:
        """An FTS5 expression: all phrases, and whatever words there are."""
        some = " OR ".join((*map(_quoted, self.terms), *(unit.expression() for unit in self.wholes)))
        return " AND ".join((*map(_phrase, self.phrases), f"({some})"))

    def all_words(self) -> str:
        """An FTS5 expression: all phrases and all words."""
        return " AND ".join((*map(_phrase, self.phrases), *(unit.expression() for unit in self.units)))

    def without_stop_words(self) -> "Query":
        """Without the words that questions are made of, unless nothing else is left."""
        kept = tuple(term for term in self.terms if term not in _STOP_WORDS)
        if not kept and not self.wholes:
            return self
        units = tuple(unit for unit in self.units if not unit.terms or not set(unit.terms) <= _STOP_WORDS)
        return Query(kept, self.phrases, self.wholes, units)


def weight(pages: int, total: int) -> float:
    """How much a word counts that stands on `pages` of `total` pages; a word that occurs nowhere counts nothing."""
    return math.log(1.0 + (total - pages + 0.5) / (pages + 0.5)) if pages else 0.0


def parse(text: str, whole_numbers: bool = False) -> Query:
    """The words and phrases of what was typed. `whole_numbers`: not in their pieces."""
    text = _normal(text)
    phrases = tuple(filter(None, map(_run, _QUOTED.findall(text))))
    rest = _QUOTED.sub(" ", text)
    wholes = [Unit(beginning=fold(found)) for found in _BEGINNING.findall(rest)]
    rest = _BEGINNING.sub(" ", rest)
    units = [unit for word in rest.split() if (unit := _unit(word))]
    if whole_numbers and (numbers := [unit for unit in units if unit.is_number]):
        wholes += numbers
        rest = " ".join(word for word in rest.split() if (unit := _unit(word)) and not unit.is_number)
    terms = [*_run(rest), *(word.term for word in joined(rest, humps=False))]
    units += [*(Unit(pieces=phrase) for phrase in phrases), *(whole for whole in wholes if whole.beginning)]
    every = dict.fromkeys((*terms, *(word for phrase in phrases for word in phrase)))
    return Query(tuple(every), phrases, tuple(wholes), tuple(units))


def not_understood(text: str) -> str:
    """A sentence about what of the query is taken for words though it looks like more; "" for nothing."""
    text = _QUOTED.sub(" ", _normal(text))
    if found := _FIELD.search(text):
        return f"{found[0]} is no part of a search, it was looked for as a word: use --{found[1]}"
    if found := _OPERATOR.search(text):
        return (
            f"{found[0]} is no part of a search, it was taken as a word: "
            'there are words, "quoted words" and beginnings such as terminat*'
        )
    return ""


def _normal(text: str) -> str:
    return _IN_HEBREW.sub("״", unicodedata.normalize("NFC", text)).translate(_QUOTES)


def _unit(word: str) -> Unit | None:
    run, held = _run(word), tuple(dict.fromkeys(one.term for one in joined(word, humps=False)))
    if len(run) > 1:
        return Unit(held, run)
    return Unit((*run, *held)) if run else None


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
