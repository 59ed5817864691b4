"""Where sentences begin and end: in answers, and in page text with its hard line breaks, lists and mail headers.

Pure functions: text in, character spans out. Spans cover all non-space text, in order, without overlap.
"""

import re

Span = tuple[int, int]

_LONGEST = 600
_ABBREVIATED = """
    al approx art bzw ca cf ch co corp dept dr ed eds eq esp est etc exp fig figs gen gov hon inc jr lt ltd max messrs
    min mr mrs ms mt no nos nr op p par pg pp prof rep rev sec sect sen sgt sr st str tel univ usw vgl vol vols vs z"""
_ABBREVIATIONS = frozenset(_ABBREVIATED.split())
# A full stop, possibly several, closing quotes and brackets behind it; CJK needs no space after it.
_END = re.compile(r"""(?:[.!?…]+["'”’»)\]]*(?=\s|$)|[。！？]+[」』”）]*)""")
_ITEM = re.compile(r"[ \t]*(?:[-*•‣◦▪–]|\(?\d{1,3}[.)]|\(?[a-zA-Z][.)]|#{1,6}|[>|]|[A-Z][\w-]{0,20}:)[ \t]")
# "J" of "J. R. Smith", "e.g", "U.S", but neither "I" nor the unit of "3.5 m".
_INITIALS = re.compile(r"(?:[^\W\d_]\.)+[^\W\d_]|[A-HJ-Z]")
_SHORT_LINE = 0.6


def answer_sentences(text: str) -> list[Span]:
    """The sentences of a generated answer: every line break ends one."""
    spans: list[Span] = []
    for start, end in _lines(text):
        spans += _sentences(text, start, end)
    return spans


def passages(text: str) -> list[Span]:
    """The sentences of a page. Lines are joined where they are one paragraph's; table rows, list items and header lines
    stand alone. None is longer than a short paragraph."""
    spans: list[Span] = []
    for start, end in _paragraphs(text):
        for sentence in _sentences(text, start, end):
            spans += _cut(text, *sentence)
    return spans


def _lines(text: str) -> list[Span]:
    return [(m.start(), m.end()) for m in re.finditer(r"[^\n]+", text) if m.group().strip()]


def _paragraphs(text: str) -> list[Span]:
    """Runs of lines that belong together."""
    lines = _lines(text)
    widest = max((end - start for start, end in lines), default=0)
    spans: list[Span] = []
    for start, end in lines:
        if spans and not _begins(text, spans[-1], start, end, widest):
            spans[-1] = (spans[-1][0], end)
        else:
            spans.append((start, end))
    return spans


def _begins(text: str, before: Span, start: int, end: int, widest: int) -> bool:
    """Whether the line starts something new: after a blank line, at an item, or after a line that ended early."""
    gap = text[before[1] : start]
    if gap.count("\n") > 1 or _ITEM.match(text, start, end):
        return True
    last = text.rfind("\n", before[0], before[1]) + 1
    return before[1] - max(last, before[0]) < _SHORT_LINE * widest and not text[start].islower()


def _sentences(text: str, start: int, end: int) -> list[Span]:
    spans: list[Span] = []
    begin = start
    for match in _END.finditer(text, start, end):
        if not _abbreviated(text, begin, match):
            spans.append(_stripped(text, begin, match.end()))
            begin = match.end()
    if text[begin:end].strip():
        spans.append(_stripped(text, begin, end))
    return spans


def _abbreviated(text: str, begin: int, match: "re.Match[str]") -> bool:
    """A full stop that ends no sentence: "Mr.", "J.", "e.g.", "1." at the front of an item, or a small letter after."""
    follows = text[match.end() : match.end() + 40].lstrip()
    if len(match.group()) > 1:
        return follows[:1].islower()
    if match.group() != ".":
        return False
    word = re.split(r"[\s(\[]", text[begin : match.start()])[-1]
    numbered = text[begin : match.start()].strip() == word and re.fullmatch(r"\d{1,3}", word) and follows
    return bool(
        word.lower().lstrip("\"'“‘") in _ABBREVIATIONS or _INITIALS.fullmatch(word) or numbered or follows[:1].islower()
    )


def _cut(text: str, start: int, end: int) -> list[Span]:
    """Text that no full stop divides, such as a table, is cut at line ends, or else at spaces."""
    spans: list[Span] = []
    while end - start > _LONGEST:
        at = max(text.rfind("\n", start + 1, start + _LONGEST), start)
        if at == start:
            at = max(text.rfind(" ", start + 1, start + _LONGEST), start)
        at = at if at > start else start + _LONGEST
        spans.append(_stripped(text, start, at))
        start = at
    spans.append(_stripped(text, start, end))
    return [span for span in spans if span[0] < span[1]]


def _stripped(text: str, start: int, end: int) -> Span:
    piece = text[start:end]
    return start + len(piece) - len(piece.lstrip()), end - (len(piece) - len(piece.rstrip()))
