"""Comparing texts as a careful reader would: words, numbers and names, whatever the line breaks and the typography.

Pure functions on strings. `terms` reduces a sentence to what it claims; `fold` makes a text comparable letter by letter
and keeps the way back to the original.
"""

import re
import unicodedata
from array import array
from dataclasses import dataclass

_EMPTY_WORDS = """
    a about above after again all also although am an and any are as at be became because been before being below
    between both but by can could did do does doing done down during each either else ever few for from further had has
    have having he her here hers herself him himself his how however i if in into is it its itself just may me might
    more most much must my myself neither no nor not of off on once only onto or other our ours out over own per same
    shall she should since so some such than that the their theirs them themselves then there these they this those
    through thus to too under until up upon us very via was we were what when where which while who whom whose why will
    with within without would yes yet you your yours
    according answer answers based called context document documents describe described file following given mail
    mention mentioned mentions message page passage provided question refer refers said say says sentence state stated
    states text titled
    aber als am an auch auf aus bei bin bis da dann das dass dem den der des die dies diese doch du ein eine einem einen
    einer es für hat ich ihr im in ist ja kann mit nach nicht noch nur oder sein sich sie sind so über um und uns von
    war was wenn wer wie wir wird zu zum zur
    au aux avec ce ces cette dans de des du elle en est et il ils la le les leur mais ne nous on ou par pas pour que
    qui sa se ses son sur un une vous"""
_STOPWORDS = frozenset(_EMPTY_WORDS.split())
_TO_TWENTY = """
    zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen
    eighteen nineteen twenty"""
_NUMBER_WORDS = {
    **{word: str(value) for value, word in enumerate(_TO_TWENTY.split())},
    **{"thirty": "30", "forty": "40", "fifty": "50", "sixty": "60", "seventy": "70", "eighty": "80", "ninety": "90"},
}

# Digits with their separators, or letters with inner apostrophes: "3,500.25", "don't", "XK" and "204" of "XK-204".
_TERM = re.compile(r"\d+(?:[.,:'’\u00a0\u202f]\d+)*|[^\W\d_]+(?:['’][^\W\d_]+)*")
_CJK = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_BROKEN_WORD = re.compile(r"(?<=[^\W\d_])[-\u2010\u00ad][ \t]*\n[ \t]*(?=[a-zß-ÿ])")
_NARROW = re.compile(r"(?<=\d)[\u00a0\u2009\u202f](?=\d{3}(?!\d))")
_THOUSANDS = re.compile(r"(?<=\d)[,'’\u00a0\u202f](?=\d{3}(?!\d))")
_QUOTES = str.maketrans({**dict.fromkeys("“”„‟«»″", '"'), **dict.fromkeys("‘’‚‛′", "'")})
_DASHES = "-\u2010\u2011\u2012\u2013\u2014\u2212"
_INVISIBLE = "\u00ad\u200b\u200c\u200d\u2060\ufeff"


@dataclass(frozen=True)
class Terms:
    """What a stretch of text is about. Words are stemmed lightly and lower-cased."""

    words: frozenset[str]
    """Content words, names among them."""
    names: frozenset[str]
    """The words that are written with a capital."""
    numbers: frozenset[str]
    """Numbers in one spelling: no thousands separators, no trailing decimal zeros."""
    spelled: frozenset[str]
    """Numbers that are written as words."""

    @property
    def empty(self) -> bool:
        """Whether there is nothing to compare."""
        return not (self.words or self.numbers)


def terms(text: str) -> Terms:
    """The content words, names and numbers of `text`."""
    words: set[str] = set()
    names: set[str] = set()
    numbers: set[str] = set()
    spelled: set[str] = set()
    for found in _TERM.findall(unicodedata.normalize("NFKC", joined(text))):
        if found[0].isdigit():
            numbers.add(number(found))
            continue
        lower = plain(found)
        if lower in _NUMBER_WORDS:
            spelled.add(_NUMBER_WORDS[lower])
        if lower in _STOPWORDS or (len(lower) == 1 and not found.isupper() and not _CJK.match(lower)):
            continue
        pieces = _bigrams(lower) if _CJK.match(lower) else [stem(lower)]
        words.update(pieces)
        if found[0].isupper():
            names.update(pieces)
    return Terms(frozenset(words), frozenset(names), frozenset(numbers), frozenset(spelled))


def joined(text: str) -> str:
    """`text` with words that were broken at a line's end put together, without soft hyphens and thousands' spaces."""
    return _NARROW.sub("", _BROKEN_WORD.sub("", text)).replace("\u00ad", "")


def number(text: str) -> str:
    """One spelling for a number: "1,500.00" and "1500" are the same; "007" stays as it is."""
    bare = _THOUSANDS.sub("", text)
    _, dot, decimals = bare.partition(".")
    if dot and decimals.isdigit():
        return bare.rstrip("0").rstrip(".")
    # Days and months come as 3 and as 03; longer numbers with zeros in front are codes.
    return (bare.lstrip("0") or "0") if bare.isdigit() and len(bare) <= 2 else bare


def plain(word: str) -> str:
    """Lower case without accents and without a possessive ending."""
    lower = word.casefold().replace("’", "'")
    bare = "".join(char for char in unicodedata.normalize("NFD", lower) if not unicodedata.combining(char))
    return bare.removesuffix("'s").replace("'", "")


def stem(word: str) -> str:
    """A light stem: endings that English adds to the same word, so that "notices" and "notice" meet."""
    for ending in (
        "ations",
        "ation",
        "ingly",
        "ings",
        "edly",
        "ing",
        "ies",
        "ied",
        "ers",
        "est",
        "ed",
        "es",
        "er",
        "ly",
    ):
        if word.endswith(ending) and len(word) - len(ending) >= 4:
            return word[: -len(ending)].rstrip("ey")
    if word.endswith("s") and not word.endswith("ss") and len(word) > 3:
        word = word[:-1]
    return word.rstrip("ey") if len(word) > 4 else word


def _bigrams(word: str) -> list[str]:
    return [word[i : i + 2] for i in range(len(word) - 1)] or [word]


@dataclass(frozen=True)
class Folded:
    """A text made comparable, with the way back: `origin[i]` is where character i of `text` stands in the original."""

    text: str
    origin: "array[int]"

    def span(self, start: int, end: int) -> tuple[int, int]:
        """The original span of `text[start:end]`, which is not empty."""
        return self.origin[start], self.origin[end - 1] + 1


def fold(text: str) -> Folded:
    """Lower case, one kind of quotes, single spaces, no hyphens inside words (line breaks there included).

    Differences that remain are differences of letters, digits and punctuation.
    """
    out: list[str] = []
    origin: array[int] = array("l")
    for position, char in enumerate(text):
        if char in _INVISIBLE:
            continue
        if char.isspace():
            if not out or out[-1] == " " or (out[-1] == "-" and _hangs(out)):
                continue
            folded = " "
        else:
            folded = unicodedata.normalize("NFKC", char).casefold().translate(_QUOTES)
            folded = "-" if folded in _DASHES else folded
        if len(out) > 1 and out[-1] == "-" and folded.isalpha() and out[-2].isalpha():
            out.pop()
            origin.pop()
        out.extend(folded)
        origin.extend([position] * len(folded))
    return Folded("".join(out), origin)


def _hangs(out: list[str]) -> bool:
    """A hyphen at the end that follows a letter: a space behind it is a line break's, or the dash stays apart."""
    return len(out) > 1 and out[-2].isalpha()
