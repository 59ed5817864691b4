"""Messages that stand whole below an answer or were passed on: Outlook's rule and header lines, "Forwarded message",
Apple's "Begin forwarded message".

The rule and the header lines are an attribution. What follows to the end of the text was passed on where the rule says
so or nothing was written above it, else it is quoted.
"""

from unabridged.ingest.document import PartKind
from unabridged.ingest.label_quotes import Kinds
from unabridged.ingest.label_words import BEGIN_FORWARDED, FIELD, FORWARDED, ORIGINAL

_RULE = "_-—–=* \t"
_HEAD = 24  # lines that a block's header may take: long lists of recipients wrap


def passed_on(lines: list[str], kinds: Kinds) -> None:
    """Labels the first such block and all below it; further blocks in it are attributions."""
    kind: PartKind | None = None
    index = 0
    while index < len(lines):
        end, forwarded = _block(lines, kinds, index)
        if end > index:
            if kind is None or forwarded:
                above = any(line.strip() for line, own in zip(lines[:index], kinds[:index], strict=True) if own is None)
                kind = PartKind.FORWARDED if forwarded or not above else PartKind.QUOTED
            kinds[index:end] = [PartKind.ATTRIBUTION] * (end - index)
            index = end
        else:
            kinds[index] = kinds[index] or kind
            index += 1


def _block(lines: list[str], kinds: Kinds, index: int) -> tuple[int, bool]:
    """Where a block's header that begins at `index` ends (`index` for none), and whether it says that it is passed
    on."""
    line = lines[index]
    if kinds[index] is not None or not line.strip() or len(line) > 300:
        return index, False
    if BEGIN_FORWARDED.match(line) or FORWARDED.match(line):
        return _header(lines, kinds, _skip_blank(lines, index + 1), need=0), True
    if ORIGINAL.match(line):
        return _header(lines, kinds, _skip_blank(lines, index + 1), need=0), False
    first = index
    if not line.strip(_RULE) and len(line.strip()) >= 5:
        first = _skip_blank(lines, index + 1)
    elif index and lines[index - 1].strip():
        return index, False
    end = _header(lines, kinds, first, need=3)
    return (end, False) if end > first else (index, False)


def _skip_blank(lines: list[str], index: int) -> int:
    """The next line with text, if it is near."""
    for other in range(index, min(index + 3, len(lines))):
        if lines[other].strip():
            return other
    return index


def _header(lines: list[str], kinds: Kinds, first: int, need: int) -> int:
    """Where the header lines that begin at `first` end; `first` where there are fewer than `need` different ones, or
    they do not begin with a sender."""
    seen: set[str] = set()
    index, value_below = first, False
    while index < min(first + _HEAD, len(lines)):
        line, found = lines[index], FIELD.match(lines[index])
        if found is None and not (seen and line.strip() and (line[:1] in " \t" or value_below)):
            break
        if found is not None:
            name = found.lastgroup or ""
            if need and not seen and name != "from":
                return first
            seen.add(name)
            value_below = not line[found.end() :].strip()
        else:
            value_below = False
        index += 1
    if len(seen - {"cc"}) >= max(need, 1) and (not need or "sent" in seen or "subject" in seen):
        return index
    return first
