"""Citations that do not depend on the model's goodwill: every sentence of an answer is given the passage that supports
it, or a mark that none does; every quotation is looked up.

Pure function from the answer, the pages that were in view and where attention looked to marked text and citations.
Knows no engine and no library. Marks stand behind the sentence's punctuation: "It is 30 days. [1]".
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from unabridged.app.events import Citation, Sentence
from unabridged.app.quotes import Finder, quotations, stands_in
from unabridged.app.sentences import answer_sentences
from unabridged.app.sources import Look, Source
from unabridged.app.support import Evidence, Passage
from unabridged.app.words import terms

UNSUPPORTED = "[unsupported]"
NOT_FOUND = "[not found in the documents]"

# A number in brackets that the model wrote itself would pass for one of ours.
_OWN_MARK = re.compile(r"\[(\d{1,3}(?:\s*[,–-]\s*\d{1,3})*)\]")
# What claims nothing about the documents: that they say nothing, courtesies, offers and announcements.
_NO_CLAIM = re.compile(
    r"""\b(?:
        (?:do|does|did|is|are|was|were|could|can)(?:\s+not|n['’]t)\s+(?:\w+\s+){0,3}?
            (?:know|say|mention\w*|contain|specif\w+|stat\w+|provid\w+|find|found|includ\w+|giv\w+|answer|clear|enough)
        | cannot\s+(?:\w+\s+)?(?:answer|find|say|tell|determine) | unable\s+to
        | not\s+(?:enough|sufficient)\s+information
        | no\s+(?:information|mention|answer|details?|data|document)\b | i['’]?m?\s+(?:am\s+)?sorry | i\s+apologi[sz]e
    )""",
    re.IGNORECASE | re.VERBOSE,
)
# These claim something though no word of theirs can be found in a document.
_VERDICT = re.compile(r"^\W*(?:yes|no|true|false|correct|incorrect|ja|nein|oui|non)\b", re.IGNORECASE)
_COURTESY = re.compile(
    r"^\W*(?:hello|hi|hey|thanks?(?:\s+you)?|thank\s+you|you['’]?re\s+welcome|sure|certainly|of\s+course|goodbye|please\s+let"
    r"|let\s+me\s+know|(?:i\s+)?hope\s+this|feel\s+free|here\s+(?:is|are)\b.*:$|how\s+can\s+i|what\s+(?:else|can))",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Cited:
    """An answer with its marks. Spans of `sentences` count characters of `answer`."""

    answer: str
    citations: tuple[Citation, ...]
    sentences: tuple[Sentence, ...]


def cite(text: str, question: str, sources: Sequence[Source], looks: Sequence[Look] = ()) -> Cited:
    """Mark `text`, the answer to `question`, against what was in view. `looks` count characters of `text`."""
    text = _OWN_MARK.sub(r"(\1)", text)
    evidence = Evidence(sources, question, looks)
    numbers = _Numbers()
    finder = Finder(sources)
    out: list[str] = []
    length = written = 0
    sentences: list[Sentence] = []
    for start, end in answer_sentences(text):
        body, quoted = _quotations(text, start, end, question, finder, numbers)
        used, supported = _support(text, start, end, evidence, numbers)
        used = tuple(dict.fromkeys((*used, *quoted)))
        marks = "".join(f"[{n}]" for n in used) + ("" if supported else f"{' ' if used else ''}{UNSUPPORTED}")
        gap = text[written:start]
        body += f" {marks}" if marks else ""
        begin = length + len(gap)
        out += [gap, body]
        length = begin + len(body)
        written = end
        sentences.append(Sentence(start=begin, end=length, citations=used, supported=supported))
    out.append(text[written:])
    return Cited("".join(out), numbers.citations(), tuple(sentences))


def unmarked(text: str) -> Cited:
    """An answer that no documents stand behind, as it is."""
    return Cited(text, (), ())


class _Numbers:
    """Gives every passage its number, the same one each time."""

    def __init__(self) -> None:
        self._known: list[Citation] = []

    def number(self, source: Source, start: int, end: int, verified: bool) -> int:
        for known in self._known:
            same = (known.document_id, known.page, known.verified) == (source.document_id, source.page, verified)
            if same and known.start <= start and end <= known.end:
                return known.n
        self._known.append(
            Citation(
                n=len(self._known) + 1,
                document=source.document,
                document_id=source.document_id,
                page=source.page,
                label=source.label,
                quote=source.text[start:end],
                start=start,
                end=end,
                verified=verified,
            )
        )
        return len(self._known)

    def of(self, passage: Passage, verified: bool) -> int:
        return self.number(passage.source, passage.start, passage.end, verified)

    def citations(self) -> tuple[Citation, ...]:
        return tuple(self._known)


def _quotations(
    text: str, start: int, end: int, question: str, finder: Finder, numbers: _Numbers
) -> tuple[str, tuple[int, ...]]:
    """The sentence with a mark behind each quotation that is nowhere, and the numbers of those that are somewhere."""
    out: list[str] = []
    used: list[int] = []
    written = start
    for quotation in quotations(text[start:end]):
        if found := finder.find(quotation.text):
            used.append(numbers.number(found.source, found.start, found.end, True))
        elif not stands_in(quotation.text, question):
            out += [text[written : start + quotation.outer_end], f" {NOT_FOUND}"]
            written = start + quotation.outer_end
    return "".join([*out, text[written:end]]), tuple(used)


def _support(text: str, start: int, end: int, evidence: Evidence, numbers: _Numbers) -> tuple[tuple[int, ...], bool]:
    """Numbers of the supporting passages, and whether they support all of the sentence."""
    sentence = text[start:end]
    if _claims_nothing(sentence):
        return (), True
    whole = evidence.find(sentence, start, end)
    if whole and whole.verified:
        return (numbers.of(whole.passage, True),), True
    clauses = [evidence.find(text[first:last], first, last) for first, last in _clauses(text, start, end)]
    if len(clauses) > 1 and all(clause and clause.verified for clause in clauses):
        return tuple(numbers.of(clause.passage, True) for clause in clauses if clause), True
    return ((numbers.of(whole.passage, False),), False) if whole else ((), False)


def _claims_nothing(sentence: str) -> bool:
    if not any(char.isalnum() for char in sentence) or sentence.rstrip().endswith("?"):
        return True
    if terms(sentence).empty and not _VERDICT.match(sentence):
        return True
    return bool(_NO_CLAIM.search(sentence) or _COURTESY.match(sentence))


_CLAUSE_WORDS = 4
_CLAUSE = re.compile(r";\s+|,?\s+(?:and|but|while|whereas)\s+|,\s+")


def _clauses(text: str, start: int, end: int) -> list[tuple[int, int]]:
    """A sentence that joins facts of several places is checked part by part, where every part has words of its own."""
    spans: list[tuple[int, int]] = []
    begin = start
    for match in _CLAUSE.finditer(text, start, end):
        if (
            len(text[begin : match.start()].split()) >= _CLAUSE_WORDS
            and len(text[match.end() : end].split()) >= _CLAUSE_WORDS
        ):
            spans.append((begin, match.start()))
            begin = match.end()
    return [*spans, (begin, end)]
