"""What stands at the end of a message and is not written for it: signatures, the line of a telephone, the footer of a
mailing list, the notice of a gateway.

Works on lines and the kind of each. Footers are sought from the end before anything else is labelled; signatures in
what no other label has taken.
"""

import re

from unabridged.ingest.document import PartKind
from unabridged.ingest.label_quotes import Kinds
from unabridged.ingest.label_words import DEVICE, GATEWAY, LIST, SECRET

_RULE = re.compile(r"[ \t]*(?:_{10,}|-{10,}|={10,}|\*{10,}|~{10,}|--[ \t]*|-~-~[-~]*)[ \t]*$")
_FOOTER_LINES = 14
_SIGNATURE_LINES = 15
_NOTICE_LINES = 40
_DEVICE_LINE = 120  # characters


def footers(lines: list[str], kinds: Kinds) -> None:
    """Footers of lists and notices of gateways at the end, also several."""
    end = len(lines)
    while True:
        while end and not lines[end - 1].strip():
            end -= 1
        begin = _footer(lines, end)
        if begin is None or begin >= end:
            return
        kinds[begin:] = [PartKind.FOOTER] * (len(lines) - begin)
        end = begin


def _footer(lines: list[str], end: int) -> int | None:
    """Where the footer begins that ends in front of line `end`; None for none."""
    for index in range(end - 1, max(-1, end - 1 - _FOOTER_LINES), -1):
        if lines[index].lstrip().startswith(">"):
            break
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
        if kinds[index] is not None:
            continue
        if line.rstrip("\r") in ("-- ", "--", "--\u00a0", "—", "- --"):
            _signature(lines, kinds, index)
        elif len(line) <= _DEVICE_LINE and DEVICE.match(line) and _ends(lines, kinds, index + 1):
            kinds[index] = PartKind.SIGNATURE
        elif (
            len(line) >= 20 and _RULE.match(line) and not any(below.strip() for below in _own(lines, kinds, index)[15:])
        ):
            below = _own(lines, kinds, index + 1)
            if 0 < len(below) <= _SIGNATURE_LINES and index + 1 + len(below) == len(lines):
                kinds[index:] = [PartKind.SIGNATURE] * (len(lines) - index)


def _signature(lines: list[str], kinds: Kinds, index: int) -> None:
    own = _own(lines, kinds, index)
    if len(own) <= _SIGNATURE_LINES:
        kinds[index : index + len(own)] = [PartKind.SIGNATURE] * len(own)


def _own(lines: list[str], kinds: Kinds, index: int) -> list[str]:
    """The lines from `index` on that have no label, at most some more than a signature may have."""
    end = index
    while end < len(lines) and kinds[end] is None and end - index <= 2 * _SIGNATURE_LINES:
        end += 1
    return lines[index:end]


def _ends(lines: list[str], kinds: Kinds, index: int) -> bool:
    """Whether the writer's own text ends in front of line `index`."""
    while index < len(lines) and not lines[index].strip() and kinds[index] is None:
        index += 1
    return index == len(lines) or kinds[index] is not None or lines[index].rstrip() == "--"
