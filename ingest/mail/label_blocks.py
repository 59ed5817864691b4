"""Messages that stand whole below an answer or were passed on: Outlook's rule and header lines, "Forwarded message",
Apple's "Begin forwarded message".

The rule and the header lines are an attribution. What follows to the end of the text was passed on where the rule says
so or nothing was written above it, else it is quoted.
"""

from unabridged.ingest.document import PartKind
from unabridged.ingest.mail.label_quotes import Kinds
from unabridged.ingest.mail.label_words import BEGIN_FORWARDED, FIELD, FORWARDED, ORIGINAL

_RULE = "_-—–=*"
_BEGINNINGS = _RULE + " \t"
_SHORT_RULE = 5
_LINE = 300  # characters
_NAME = 40  # characters of a field's name with its marks
_HEAD = 24  # lines that a block's header may take: long lists of recipients wrap


def passed_on(lines: list[str], kinds: Kinds) -> None:
    """Labels the first such block and all below it; further blocks in it are attributions."""
    kind: PartKind | None = None
    above = False  # something was written above
    index = 0
    while index < len(lines):
        line = lines[index]
        end, forwarded = index, False
        if line and kinds[index] is None and (line[0] in _BEGINNINGS or ":" in line or "：" in line):
            end, forwarded = _block(lines, index)
        if end > index:
            if kind is None or forwarded:
                kind = PartKind.FORWARDED if forwarded or not above else PartKind.QUOTED
            kinds[index:end] = [PartKind.ATTRIBUTION] * (end - index)
            index = end
        else:
            above = above or (kinds[index] is None and bool(line.strip()))
            kinds[index] = kinds[index] or kind
            index += 1


def _block(lines: list[str], index: int) -> tuple[int, bool]:
    """Where a block's header that begins at `index` ends (`index` for none), and whether it says that it is passed
    on."""
    line = lines[index]
    first = index
    bare = line.strip()
    if not bare or len(line) > _LINE:
        return index, False
    if bare[0] in _RULE:
        forwarded = FORWARDED.match(line) is not None
        if forwarded or ORIGINAL.match(line):
            return _header(lines, _skip_blank(lines, index + 1), need=0), forwarded
        if bare.strip(_RULE) == "" and len(bare) >= _SHORT_RULE:
            first = _skip_blank(lines, index + 1)
    elif bare[-1] in ":：" and BEGIN_FORWARDED.match(line):
        return _header(lines, _skip_blank(lines, index + 1), need=0), True
    if first == index and index and lines[index - 1].strip():
        return index, False
    end = _header(lines, first, need=3)
    return (end, False) if end > first else (index, False)


def _skip_blank(lines: list[str], index: int) -> int:
    """The next line with text, if it is near."""
    for other in range(index, min(index + 3, len(lines))):
        if lines[other].strip():
            return other
    return index


def _header(lines: list[str], first: int, need: int) -> int:
    """Where the header lines that begin at `first` end; `first` where there are fewer than `need` different ones, or
    they do not begin with a sender."""
    seen: set[str] = set()
    index, value_below = first, False
    while index < min(first + _HEAD, len(lines)):
        line = lines[index]
        named = ":" in line[:_NAME] or "：" in line[:_NAME]
        found = FIELD.match(line) if named else None
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
