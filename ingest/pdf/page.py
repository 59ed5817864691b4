"""The text of one PDF page through pdfium, in the order in which it is read: what a reader sees, and what is hidden
from him, apart. Knows nothing of documents and items.
"""

import re
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from unabridged.ingest.pdf import bidi as pdf_bidi
from unabridged.ingest.pdf import columns as pdf_columns
from unabridged.ingest.pdf import hidden as pdf_hidden
from unabridged.ingest.pdf import raised as pdf_raised
from unabridged.ingest.pdf.columns import HYPHEN
from unabridged.ingest.pdf.glyphs import Glyphs
from unabridged.ingest.pdf.walk import Seen, Walk
from unabridged.ingest.texts.normalise import mend_surrogates

_LINE_END = re.compile(HYPHEN + "(?=[A-ZÄÖÜ0-9])")
_LETTERS = re.compile(r"[^\W\d_]+")
_FIRST = frozenset({"self", "well"})  # are words by themselves far more often than they begin one
_EITHER = re.compile("\ufffe")
_OUT = "\n"  # stands where hidden text was taken out; pdfium ends lines with "\r\n"
_OUTS = re.compile(r"[ \r\n]*(?<!\r)\n[ \r\n]*")


@dataclass(frozen=True)
class PageText:
    """`objects` counts what is on the page, `covered` is the share of the page under images, `columns` says that the
    order of its columns was restored. Text is not yet normalised."""

    visible: str
    hidden: str
    objects: int
    images: int
    covered: float
    columns: bool = False


def page_text(page: Any, layers: bool = False, drawn: bool = True) -> PageText:
    """The text of a pypdfium2 page, of a document with or without layers, `drawn` where it may be. Turned pages are
    read as if upright, else their lines come in the wrong order."""
    turned = page.get_rotation()
    if turned:
        page.set_rotation(0)
    try:
        return _upright(page, layers, drawn)
    finally:
        if turned:
            page.set_rotation(turned)


def _upright(page: Any, layers: bool, drawn: bool) -> PageText:
    seen = Walk(layers).over(page)
    textpage = page.get_textpage()
    try:
        raw = _units(textpage.get_text_range())
        glyphs = Glyphs(textpage, raw)
        text = _told_apart(glyphs, raw)
        visible, apart = _split(glyphs, text, pdf_hidden.hidden(page, seen, drawn)) if seen.suspects else (text, "")
        columns = None
        if pdf_bidi.RTL.search(visible):
            visible = pdf_bidi.logical(glyphs, visible)
        else:
            visible = pdf_raised.marked(glyphs, visible)
            columns = pdf_columns.in_columns(glyphs, visible)
    finally:
        textpage.close()
    if apart or columns:
        visible = _OUTS.sub("\n", columns or visible)
    visible = mend_surrogates(pdf_raised.spaced(_joined(visible)))
    covered = _covered(seen)
    return PageText(
        visible,
        mend_surrogates(_joined(apart)),
        seen.objects,
        len(seen.images),
        covered,
        columns=columns is not None,
    )


def _covered(seen: Seen) -> float:
    left, bottom, right, top = seen.page
    area = max(1.0, (right - left) * (top - bottom))
    return min(1.0, sum(max(0.0, r - x) * max(0.0, t - y) for x, y, r, t in seen.images[:200]) / area)


def _split(glyphs: Glyphs, text: str, hidden: set[int]) -> tuple[str, str]:
    """The text with what is hidden blanked, so that the places of the rest stay, and that apart."""
    if not hidden:
        return text, ""
    visible: list[str] = []
    apart: list[str] = []
    gone = False
    for at, character in enumerate(text):
        # Spaces and line ends that pdfium made up go with what is before.
        if item := glyphs.item(at):
            if item in hidden and not gone and apart:
                apart.append("\n")
            gone = item in hidden
        visible.append(_OUT if gone else character)
        if gone:
            apart.append(character)
    return "".join(visible), "".join(apart).strip()


def _units(text: str) -> str:
    """The text as UTF-16 units, which is how pdfium counts: characters beyond U+FFFF become surrogate pairs."""
    if text.isascii():
        return text
    data = text.encode("utf-16-le")
    return text if len(data) == 2 * len(text) else "".join(map(chr, memoryview(data).cast("H")))


def _told_apart(glyphs: Glyphs, text: str) -> str:
    """U+FFFE stands for a hyphen at a line's end, where pdfium joins the word, or for a glyph without a character.
    The first becomes HYPHEN, the second U+FFFD; the length stays."""
    if text.isascii() or "\ufffe" not in text:
        return text
    return _EITHER.sub(lambda found: HYPHEN if glyphs.hyphen(found.start()) else "\ufffd", text)


def _joined(text: str) -> str:
    """The hyphen goes, but stays before a capital or a digit ("Navier-Stokes"), and in a compound: one that the page
    has elsewhere within a line, or of a word that makes them."""
    if HYPHEN not in text:
        return text
    pieces = _LINE_END.sub("-", text).split(HYPHEN)
    folded = text.casefold()
    out = [pieces[0]]
    for before, after in pairwise(pieces):
        first, second = _LETTERS.findall(before[-40:])[-1:], _LETTERS.match(after)
        if first and second:
            start, end = first[0].casefold(), second.group().casefold()
            out.append("-" if start in _FIRST or f"{start}-{end}" in folded else "")
        out.append(after)
    return "".join(out)
