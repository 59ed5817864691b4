"""Marks of footnotes and affiliations, set small and raised, told apart from the word that they are set against, so
that a search finds the word: "1Department" is "1 Department", "Foroutan1" is "Foroutan 1".

Formulas stay: what is lowered ("H2O"), stands behind a short word ("km2", "cos2", "x2"), has digits of both sizes
("103m") or belongs to a short name within a line ("14C", "3He"). Text keeps its length until `spaced`, because places
in it are pdfium's: a digit and the space beside it are one noncharacter until then.
"""

import re

from unabridged.ingest.pdf.glyphs import Glyphs

# Ten each for the digits, before a word and behind one: Unicode has no characters there.
_BEFORE, _BEHIND = 0xFDD0, 0xFDDA
_KEPT = re.compile("[\ufdd0-\ufde3]")
_MARK = re.compile(  # a digit first, which is what is looked for quickly
    r"[0-9](?:(?<![^\r\n][0-9])[0-9]{0,2}(?=[^\W\d_]{2}|[AI] )"  # begins a footnote
    r"|(?<!\w[0-9])[0-9]{0,2}(?=[^\W\d_]{3})"
    r"|(?<=[^\W\d_]{4}[0-9])[0-9]{0,2}(?!\w))"
)
_SMALL = 0.85  # of the letter's height
_RAISED = 0.15  # of the letter's height, from baseline to baseline
_SPACED = {
    **{_BEFORE + digit: f"{digit} " for digit in range(10)},
    **{_BEHIND + digit: f" {digit}" for digit in range(10)},
}


def marked(glyphs: Glyphs, text: str) -> str:
    """The text of a page with its marks kept apart, as long as it was."""
    out: list[str] = []
    last = 0
    for found in _MARK.finditer(text):
        start, end = found.span()
        before = text[end : end + 1].isalpha()
        if not _raised(glyphs, start, end, end if before else start - 1):
            continue
        at, base = (end - 1, _BEFORE) if before else (start, _BEHIND)
        out += [text[last:at], chr(base + int(text[at]))]
        last = at + 1
    return "".join([*out, text[last:]]) if out and not _KEPT.search(text) else text


def spaced(text: str) -> str:
    """The text with a space at each mark."""
    return text.translate(_SPACED) if _KEPT.search(text) else text


def _raised(glyphs: Glyphs, start: int, end: int, letter: int) -> bool:
    """All digits are smaller than the letter beside them, and stand above its baseline."""
    base = glyphs.box(letter)
    marks = [glyphs.box(at) for at in {start, end - 1}]
    return all(0 < mark.height < _SMALL * base.height and mark.y - base.y > _RAISED * base.height for mark in marks)
