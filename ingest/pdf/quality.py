"""How much a page's text looks like text: the gate between one extractor and the next. Pure function of a string.

It tells broken text layers (glyph names, glyph ids, unmapped glyphs, shifted alphabets, words without spaces) from
text of any language; it is no spelling checker. Pages of figures and formulas must pass.
"""

import re

GOOD = 0.75  # below it a second extractor is asked
BAD = 0.5  # below it the page is flagged as garbled

_GLYPHS = re.compile(r"/[cg]\d+|/[A-Z]?\d{2,}(?=/)|\(cid:\d+\)|/(?:uni|glyph|gid)[0-9A-Fa-f]+")
_BROKEN = re.compile("[\x00-\x08\x0e-\x1f\x7f-\x9f\ue000-\uf8ff\ufffd-\uffff\ud800-\udfff\U000f0000-\U0010fffd]")
_CODE = re.compile(r"://|www\.|[@{}=_<>|]")
_LETTER = re.compile("[A-Za-z]")
_NO_LETTERS = bytes(code for code in range(256) if not chr(code).isalpha() or code > 127)
_NO_VOWELS = bytes(code for code in range(256) if chr(code) not in "AEIOUYaeiouy")
_CONTROLS = bytes(code for code in range(32, 127)) + b"\t\n\x0b\x0c\r"  # all that is none
# Scripts of which a word has one, if its letters are right. Latin and Greek stand together in formulas.
_SCRIPTS = (
    "A-Za-z\u00c0-\u024f\u0370-\u03ff\u1f00-\u1fff",
    "\u0400-\u052f",
    "\u0530-\u058f",
    "\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc",
    "\u0900-\u0dff",
    "\u0e00-\u0fff",
    "\u1000-\u109f",
    "\u10a0-\u10ff",
    "\u1200-\u139f",
    "\u13a0-\u1aff",
)
_OTHER = re.compile(f"[{''.join(_SCRIPTS[1:])}]")
_CHANGE = re.compile(
    "|".join(f"[{one}](?=[{''.join(other for other in _SCRIPTS if other != one)}])" for one in _SCRIPTS)
)
_GREEK_WORD = re.compile("[\u0590-\u08ff](?=[\u0370-\u03ff])|[\u0370-\u03ff](?=[\u0590-\u08ffA-Za-z])")
_RTL = re.compile("[\u0590-\u08ff]")


def score(text: str) -> float:
    """1.0 for plain text down to 0.0 for none that can be read. Text too short to judge passes."""
    size = len(text)
    if size == 0:
        return 1.0
    latin = text.encode("ascii", "ignore")
    letters = len(latin.translate(None, _NO_LETTERS))
    glyphs = sum(map(len, _GLYPHS.findall(text))) / size if "/" in text or "(cid:" in text else 0.0
    broken = len(latin.translate(None, _CONTROLS)) if text.isascii() else len(_BROKEN.findall(text))
    return (
        max(0.0, 1.0 - 2.0 * glyphs)
        * max(0.0, 1.0 - 3.0 * broken / size)
        * _spacing(text, letters)
        * (_alphabet(latin, letters) if 2 * letters > size - text.count(" ") else 1.0)
        * _scripts(text)
    )


def _spacing(text: str, letters: int) -> float:
    """Latin words have a length; a run of hundreds of letters is many words glued together."""
    pieces = text.split()
    if sum(map(len, pieces)) <= 12 * len(pieces):
        return 1.0
    if letters < 60 or letters < 0.5 * len(text):
        return 1.0
    words = [word for word in pieces if _LETTER.search(word) and not _address(word)]
    if not words:
        return 1.0
    mean = sum(map(len, words)) / len(words)
    return 1.0 if mean <= 12 else max(0.3, 1.0 - (mean - 12) / 20)


def _address(word: str) -> bool:
    """Web addresses, paths, code and leaders ("....") are long and right."""
    return word.count("/") > 2 or "...." in word or _CODE.search(word) is not None


def _alphabet(latin: bytes, letters: int) -> float:
    """Latin text has vowels. A font without a map gives the alphabet shifted, which loses most of them."""
    if letters < 60:
        return 1.0
    vowels = len(latin.translate(None, _NO_VOWELS)) / letters
    return 1.0 if vowels >= 0.22 else max(0.3, vowels / 0.22)


def _scripts(text: str) -> float:
    """Words of several scripts are glyphs that were mapped at random, as are Greek letters in words on a page of Arabic
    or Hebrew."""
    if text.isascii() or not _OTHER.search(text):
        return 1.0
    changes = len(_CHANGE.findall(text))
    if _RTL.search(text):
        changes += len(_GREEK_WORD.findall(text))
    return max(0.3, 1.0 - 6.0 * changes / len(text))
