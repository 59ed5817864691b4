"""How much a page's text looks like text: the gate between one extractor and the next. Pure function of a string.

It tells broken text layers (glyph names, glyph ids, unmapped glyphs, shifted alphabets, words without spaces) from
text of any language; it is no spelling checker. Pages of figures and formulas must pass.
"""

import re

GOOD = 0.75  # below it a second extractor is asked
BAD = 0.5  # below it the page is flagged as garbled

_GLYPHS = re.compile(r"/g\d+|/[A-Z]?\d{2,}(?=/)|\(cid:\d+\)|/(?:uni|glyph|gid)[0-9A-Fa-f]+")
_BROKEN = re.compile("[\x00-\x08\x0e-\x1f\x7f-\x9f\ue000-\uf8ff\ufffd-\uffff\ud800-\udfff\U000f0000-\U0010fffd]")
_LETTERS = re.compile(r"[A-Za-z]+")
_VOWELS = re.compile(r"[AEIOUYaeiouy]+")
_RTL = re.compile("[\u0590-\u07ff]")
_GREEK = re.compile("[\u0370-\u03ff]")


def score(text: str) -> float:
    """1.0 for plain text down to 0.0 for none that can be read. Text too short to judge passes."""
    size = len(text)
    if size == 0:
        return 1.0
    glyphs = sum(len(name) for name in _GLYPHS.findall(text)) / size
    broken = len(_BROKEN.findall(text)) / size
    return (
        max(0.0, 1.0 - 2.0 * glyphs) * max(0.0, 1.0 - 3.0 * broken) * _spacing(text) * _alphabet(text) * _scripts(text)
    )


def _spacing(text: str) -> float:
    """Latin words have a length; a run of hundreds of letters is many words glued together."""
    pieces = text.split()
    if sum(map(len, pieces)) <= 12 * len(pieces):
        return 1.0
    letters = sum(map(len, _LETTERS.findall(text)))
    if letters < 60 or letters < 0.5 * len(text):
        return 1.0
    words = [word for word in pieces if _LETTERS.search(word) and not _address(word)]
    if not words:
        return 1.0
    mean = sum(map(len, words)) / len(words)
    return 1.0 if mean <= 12 else max(0.3, 1.0 - (mean - 12) / 20)


def _address(word: str) -> bool:
    """Web addresses, paths and leaders ("....") are long and right."""
    return "://" in word or "www." in word or "...." in word or word.count("/") > 2 or "@" in word


def _alphabet(text: str) -> float:
    """Latin text has vowels. A font without a map gives the alphabet shifted, which loses most of them."""
    letters = sum(map(len, _LETTERS.findall(text)))
    if letters < 60:
        return 1.0
    vowels = sum(map(len, _VOWELS.findall(text))) / letters
    return 1.0 if vowels >= 0.22 else max(0.3, vowels / 0.22)


def _scripts(text: str) -> float:
    """Greek or Coptic letters on a page of Arabic or Hebrew: glyphs of its font that were mapped at random."""
    if text.isascii() or not (rtl := len(_RTL.findall(text))):
        return 1.0
    greek = len(_GREEK.findall(text))
    return 0.6 if greek * 20 > rtl else 1.0
