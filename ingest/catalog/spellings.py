"""Other ways to write what a text says, so that whoever searches for one of them finds the other. Pure functions.

    Müller -> mueller     1 234 567 -> 1234567     DE89 3704 0044 -> de8937040044     V E R T R A G -> vertrag
    getUserName -> get user name     צה״ל, צה"ל -> צהל

Each finds its stretch of the text; the search index folds what is yielded.
"""

import re
from collections.abc import Iterator

_UMLAUT = re.compile("[äöüåøđÄÖÜÅØĐ]")
_UMLAUTS = str.maketrans(
    {"ä": "ae", "ö": "oe", "ü": "ue", "å": "aa", "ø": "oe", "đ": "dj"}
    | {"Ä": "Ae", "Ö": "Oe", "Ü": "Ue", "Å": "Aa", "Ø": "Oe", "Đ": "Dj"}
)
_WORD = re.compile(r"\w++")
_CAMEL = re.compile("[a-z][A-Z]")
_CAMELS = re.compile("(?<![A-Za-z])[A-Za-z]++")
_HUMPS = re.compile("[A-Z]++(?![a-z])|[A-Z]?[a-z]++|[A-Z]")
_SPACE = " \u00a0\u2009\u202f"
# Groups of three digits; groups of four letters or digits, as of account and card numbers; single letters.
_SPACED = re.compile(
    rf"(?<![\w.,])\d{{1,3}}(?:[{_SPACE}]\d{{3}})++(?:[.,]\d+)?(?!\w)"
    rf"|(?<!\w)(?:[A-Z]{{2}}\d{{2}}|\d{{4}})(?:[{_SPACE}][0-9A-Z]{{4}}){{2,7}}(?:[{_SPACE}][0-9A-Z]{{1,3}})?(?!\w)"
    r"|(?<!\w)[^\W\d_](?: [^\W\d_]){3,40}(?!\w)"
)
_MAYBE_SPACED = re.compile(rf"\d[{_SPACE}]\d|[0-9A-Z][{_SPACE}]\w[{_SPACE}]|\w \w \w \w\b")
_HEBREW_QUOTED = re.compile("[\u05d0-\u05ea\u0591-\u05c7]+(?:[\"״'׳’][\u05d0-\u05ea\u0591-\u05c7]+)+")
_DIGITS_AND_DASHES = re.compile(r"(?<![\w.-])\d++(?:-\d++)+(?![\w-])")
_NOT_WORD = re.compile(r"[\W_]")
_LONGEST = 80


def others(text: str, humps: bool = True) -> Iterator[tuple[str, int, int]]:
    """Each other spelling with the stretch of `text` that it stands for. `humps`: the pieces of names in mixed case."""
    if not text.isascii():
        yield from _umlauts(text)
        yield from ((_NOT_WORD.sub("", found.group()), *found.span()) for found in _HEBREW_QUOTED.finditer(text))
    if _MAYBE_SPACED.search(text):
        yield from (_closed_up(found) for found in _SPACED.finditer(text))
    yield from (
        (found.group().replace("-", ""), *found.span())
        for found in _DIGITS_AND_DASHES.finditer(text)
        if found.end() - found.start() <= _LONGEST
    )
    if humps and _CAMEL.search(text):
        yield from _humps(text)


def _umlauts(text: str) -> Iterator[tuple[str, int, int]]:
    if _UMLAUT.search(text):
        for found in _WORD.finditer(text):
            word = found.group()
            if _UMLAUT.search(word):
                yield word.translate(_UMLAUTS), *found.span()


def _closed_up(found: re.Match[str]) -> tuple[str, int, int]:
    decimals = re.search(r"[.,]\d+$", found.group())
    kept = decimals.group() if decimals else ""
    body = found.group()[: len(found.group()) - len(kept)]
    return _NOT_WORD.sub("", body) + kept, *found.span()


def _humps(text: str) -> Iterator[tuple[str, int, int]]:
    for word in _CAMELS.finditer(text):
        if _CAMEL.search(word.group()) and word.end() - word.start() <= _LONGEST:
            for hump in _HUMPS.finditer(word.group()):
                yield hump.group(), word.start() + hump.start(), word.start() + hump.end()
