"""What stands at the end of a message and is not written for it: signatures, the line of a telephone, the footer of a
mailing list, the notice of a gateway.

Works on lines and the kind of each. Footers are sought from the end before anything else is labelled; signatures in
what no other label has taken.
"""

import re

from unabridged.ingest.document import PartKind
from unabridged.ingest.mail.label_quotes import Kinds
from unabridged.ingest.mail.label_words import DEVICE, GATEWAY, LIST, SECRET

_RULE = re.compile(r"[ \t]*(?:[-_=*~.+#]{10,}|--[ \t]*)[ \t]*$")
# What Mailman puts in the place of what it took away.
_SCRUBBED = re.compile(r"\[\[.{1,60} version deleted\]\]$|-{8,} next part -{8,}$")
_BEGINNINGS = frozenset(" \t-_=*~.+#—")
_DASHES = ("-- ", "--", "--\u00a0", "—", "- --")
_LONG_RULE = 20
_FOOTER_LINES = 14
_SIGNATURE_LINES = 15
_NOTICE_LINES = 40
_DEVICE_LINE = 120  # characters


def footers(lines: list[str], kinds: Kinds) -> None:
    """Footers of lists and notices of gateways at the end, also several."""
    end = stop = len(lines)
    while True:
        while end and not lines[end - 1].strip():
            end -= 1
        begin = _footer(lines, end)
        if begin is None or begin >= end:
            return
        kinds[begin:stop] = [PartKind.FOOTER] * (stop - begin)
        end = stop = begin


def _footer(lines: list[str], end: int) -> int | None:
    """Where the footer begins that ends in front of line `end`; None for none."""
    for index in range(end - 1, max(-1, end - 1 - _FOOTER_LINES), -1):
        if lines[index].lstrip().startswith(">"):
            break
        if _SCRUBBED.match(lines[index].strip()):
            return index
        if _RULE.match(lines[index]):
            below = "\n".join(lines[index + 1 : end])
            if below.strip():
                return index if LIST.search(below) else _notice(lines, end)
    return _notice(lines, end)


def _notice(lines: list[str], end: int) -> int | None:
    """Where a gateway's notice begins: the last paragraphs, from one that begins and speaks as notices do."""
    begin = end
    for _ in range(3):
        top = begin
        while top and lines[top - 1].strip() and end - top < _NOTICE_LINES:
            top -= 1
        if top and lines[top - 1].strip():
            return None
        paragraph = " ".join(line.strip() for line in lines[top:end]).strip("*_-[]( \t")
        if lines[top].lstrip().startswith(">"):
            return None
        if GATEWAY.match(paragraph) and SECRET.search(paragraph):
            # Somebody wrote something above it, or it is what they wrote.
            return top if any(line.strip() for line in lines[:top]) else None
        begin = top
        while begin and not lines[begin - 1].strip():
            begin -= 1
        if not begin:
            return None
    return None


def signatures(lines: list[str], kinds: Kinds) -> None:
    """What follows "-- ", and the line that a telephone adds."""
    for index, line in enumerate(lines):
        if kinds[index] is not None or not line or line.isspace():
            continue
        if line[0] in _BEGINNINGS:
            if line.rstrip("\r") in _DASHES:
                _signature(lines, kinds, index)
                continue
            if len(line) >= _LONG_RULE and _RULE.match(line) and _short_end(lines, kinds, index + 1):
                kinds[index:] = [PartKind.SIGNATURE] * (len(lines) - index)
                return
        if len(line) <= _DEVICE_LINE and _ends(lines, kinds, index + 1) and DEVICE.match(line):
            kinds[index] = PartKind.SIGNATURE


def _signature(lines: list[str], kinds: Kinds, index: int) -> None:
    end = _own_end(kinds, index)
    if end - index <= _SIGNATURE_LINES:
        kinds[index:end] = [PartKind.SIGNATURE] * (end - index)


def _short_end(lines: list[str], kinds: Kinds, index: int) -> bool:
    """Whether few lines follow, none of them labelled, and something is in them."""
    end = _own_end(kinds, index)
    return end == len(lines) and end - index <= _SIGNATURE_LINES and any(line.strip() for line in lines[index:])


def _own_end(kinds: Kinds, index: int) -> int:
    """Where the lines from `index` on that have no label end; not sought further than a signature is long."""
    end = index
    while end < len(kinds) and kinds[end] is None and end - index <= _SIGNATURE_LINES:
        end += 1
    return end


def _ends(lines: list[str], kinds: Kinds, index: int) -> bool:
    """Whether the writer's own text ends in front of line `index`."""
    while index < len(lines) and kinds[index] is None:
        if line := lines[index].strip():
            return line == "--"
        index += 1
    return True
