"""Quotations: lines that carry a mark, the line over them that says who is quoted, and what stands unmarked below such
a line at the end of a message.

Works on lines and the kind of each; only lines without a kind get one.
"""

import re

from unabridged.ingest.document import PartKind
from unabridged.ingest.mail.label_words import ADDRESSED, DATED, OPENS, WROTE

Kinds = list[PartKind | None]

# Marks other than ">" also draw tables: they count where an attribution stands over the first of them.
_OTHER = re.compile(r"[ \t]{0,3}(?P<mark>[|›»]|[A-Z]{2,4}>)(?=[ \t]|$)")
# Emacs names whom a mark stands for: >>>>> "Robert" == Robert Denham <r@x> writes:
_NAMED = re.compile(r'[> \t]{0,20}"(?P<name>[^\W\d_][\w.-]{0,20})" == [^\n]{0,200}:\s*$')
_OTHER_BEGINNINGS = frozenset("|›» \tABCDEFGHIJKLMNOPQRSTUVWXYZ")
_COLONS = (":", "：")
_ENDINGS = ":： \t*_"
_ATTRIBUTION = 400  # characters of a line that may say who is quoted
_NAMES = 20  # that are marks in a message
_OVER = 4  # lines that it may take


def marked(lines: list[str], kinds: Kinds) -> None:
    """Lines with a mark and the blank ones between them; attributions over them."""
    for index, line in enumerate(lines):
        if ">" in line[:4] and kinds[index] is None and _quotes(lines, index):
            kinds[index] = PartKind.QUOTED
    _named_marks(lines, kinds)
    _other_marks(lines, kinds)
    _bridge(lines, kinds)
    for index in range(1, len(lines)):
        if kinds[index] is PartKind.QUOTED and kinds[index - 1] is not PartKind.QUOTED:
            _attribute(lines, kinds, index)


def _quotes(lines: list[str], index: int) -> bool:
    """Whether a line begins with ">". ">From " alone is a mailbox's escape."""
    line = lines[index].lstrip(" \t")
    if not line.startswith(">From "):
        return line.startswith(">")
    return any(lines[other].startswith(">") for other in (index - 1, index + 1) if 0 <= other < len(lines))


def _named_marks(lines: list[str], kinds: Kinds) -> None:
    """Names that an attribution over them gives as marks ("Robert> ...")."""
    marks: tuple[str, ...] = ()
    for index, line in enumerate(lines):
        if '" == ' in line and len(marks) < _NAMES and (found := _NAMED.match(line)):
            marks = (*marks, f"{found['name']}>")
        elif marks and kinds[index] is None and line.startswith(marks):
            kinds[index] = PartKind.QUOTED


def _other_marks(lines: list[str], kinds: Kinds) -> None:
    """Bars and initials ("IV> ...")."""
    known: dict[str, bool] = {}
    for index, line in enumerate(lines):
        if kinds[index] is not None or line[:1] not in _OTHER_BEGINNINGS or not (found := _OTHER.match(line)):
            continue
        mark = found["mark"]
        if mark not in known:
            end = index - 1 if index and not lines[index - 1].strip() else index
            known[mark] = attribution(lines, kinds, end) is not None
        if known[mark]:
            kinds[index] = PartKind.QUOTED


def _bridge(lines: list[str], kinds: Kinds) -> None:
    """Blank lines between two quoted lines belong to the quotation."""
    last = None
    for index, line in enumerate(lines):
        if kinds[index] is PartKind.QUOTED:
            if last is not None:
                kinds[last + 1 : index] = [PartKind.QUOTED] * (index - last - 1)
            last = index
        elif line.strip() or kinds[index] is not None:
            last = None


def _attribute(lines: list[str], kinds: Kinds, index: int) -> None:
    """ "On Monday X wrote:" in the lines over the quotation that begins at `index`."""
    end = index
    while end > 0 and end > index - 3 and not lines[end - 1].strip():
        end -= 1
    if (begin := attribution(lines, kinds, end)) is not None:
        kinds[begin:end] = [PartKind.ATTRIBUTION] * (end - begin)


def attribution(lines: list[str], kinds: Kinds, end: int) -> int | None:
    """Where an attribution begins that ends in front of line `end`; None where there is none."""
    if not end or lines[end - 1].rstrip(" \t*_")[-1:] not in _COLONS:
        return None
    for count in range(1, _OVER + 1):
        begin = end - count
        if begin < 0 or kinds[begin] is not None or not 0 < len(lines[begin].strip()) <= _ATTRIBUTION:
            return None
        whole = " ".join(line.strip() for line in lines[begin:end])
        if attributes(whole):
            return _opening(lines, kinds, begin)
    return None


def attributes(text: str) -> bool:
    """Whether a text of one line says who is quoted below it."""
    said = bool(WROTE.search(text))
    return (said and (bool(DATED.search(text) or ADDRESSED.search(text)) or len(text) < 60)) or bool(
        ADDRESSED.search(text) and (DATED.search(text) or OPENS.match(text) or len(text) < 80)
    )


def _opening(lines: list[str], kinds: Kinds, begin: int) -> int:
    """The first line of an attribution of which `begin` may be the second or third: "On 3 March 2026 at 10:00," / "Ines
    Vega <ines@harbour.example> wrote:"."""
    if OPENS.match(lines[begin]) and DATED.search(lines[begin]):
        return begin
    for first in (begin - 1, begin - 2):
        if first < 0 or kinds[first] is not None or not lines[first].strip():
            break
        if OPENS.match(lines[first]) and DATED.search(lines[first]) and len(lines[first]) <= _ATTRIBUTION:
            return first
    return begin


def unmarked(lines: list[str], kinds: Kinds) -> None:
    """Yahoo and others put what they answer below an attribution without marking it. Only where it has a date and the
    end of a sentence's verb, something was written above it, and nothing below it is labelled."""
    own = False
    for index, line in enumerate(lines):
        if kinds[index] is not None or not line:
            continue
        if own and line[-1] in _ENDINGS and (begin := _alone(lines, kinds, index)) is not None:
            if any(kind is PartKind.QUOTED for kind in kinds[index:]) or not any(map(str.strip, lines[:begin])):
                return
            kinds[begin : index + 1] = [PartKind.ATTRIBUTION] * (index + 1 - begin)
            for below in range(index + 1, len(lines)):
                kinds[below] = kinds[below] or PartKind.QUOTED
            return
        own = own or bool(line.strip())


def _alone(lines: list[str], kinds: Kinds, index: int) -> int | None:
    """Where an attribution begins that ends with line `index` and stands by itself; None where there is none."""
    line = lines[index]
    if not 10 < len(line) <= _ATTRIBUTION or line.rstrip(" \t*_")[-1:] not in _COLONS:
        return None
    if not WROTE.search(line) or not any(below.strip() for below in lines[index + 1 : index + 4]):
        return None
    begin = _opening(lines, kinds, index)
    whole = " ".join(lines[begin : index + 1])
    over = lines[begin - 1] if begin else ""
    return begin if OPENS.match(whole) and DATED.search(whole) and not over.strip() else None
