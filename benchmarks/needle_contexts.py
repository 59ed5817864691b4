"""Needles in contexts of up to millions of tokens that share all of their documents but one.

A context of any length is the first documents of the same long text. For a question one more stands among them, where
its needle's depth says: with the fact inside, and the same in every length. Where the text ends it begins again a part
of a document later, so that no two documents are alike. Token ids only: it knows no model.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from benchmarks.haystack import PREFIX, SYSTEM, Needle

from unabridged.models.tokenizer import Tokenizer

# Documents of the text's beginning that calibration may read: no context has them.
CALIBRATION = 8
# Rounds through the text that begin at different places of a document.
_ROUNDS = 8
_MARKER = "\ue000"
Ids = tuple[int, ...]


@dataclass(frozen=True)
class Contexts:
    """`prefix`: in front of all documents; `calibration`, `fillers`, `holders`: documents of `document` tokens, one
    holder a needle; `questions`: what stands behind the documents, up to where the answer begins."""

    document: int
    prefix: Ids
    calibration: tuple[Ids, ...]
    fillers: tuple[Ids, ...]
    needles: tuple[Needle, ...]
    holders: tuple[Ids, ...]
    questions: tuple[Ids, ...]

    def segments(self, needle: int, tokens: int) -> list[Ids]:
        """The documents of a context of `tokens` tokens, in order. ValueError where there are too few."""
        others = tokens // self.document - 1
        if not 0 <= others <= len(self.fillers):
            raise ValueError(f"{tokens:,} tokens in documents of {self.document}: 1 to {len(self.fillers) + 1} of them")
        order = list(self.fillers[:others])
        order.insert(round(self.needles[needle].depth * others), self.holders[needle])
        return order

    @property
    def beside(self) -> int:
        """Tokens at most that are stored besides the documents of one context: prefix, holders, questions."""
        return len(self.prefix) + sum(map(len, (*self.holders, *self.questions)))


def build(
    tokenizer: Tokenizer, text: str, needles: Sequence[Needle], tokens: int, document: int, calibration: int
) -> Contexts:
    """Contexts of up to `tokens` tokens. ValueError where the text, again and again, has too little for them."""
    wanted = calibration + len(needles) + tokens // document - 1
    documents = list(islice(_documents(tokenizer.encode(text), document), wanted))
    if len(documents) < wanted:
        raise ValueError(f"the text has {len(documents)} documents of {document} tokens, {wanted} are needed")
    held = documents[calibration : calibration + len(needles)]
    newline = tokenizer.encode("\n")
    around = [_around(tokenizer, needle.question) for needle in needles]
    return Contexts(
        document=document,
        # As long as the sink of small windows: documents have the same before them wherever they stand.
        prefix=(*around[0][0], *newline * (PREFIX - len(around[0][0]))),
        calibration=tuple(documents[:calibration]),
        fillers=tuple(documents[calibration + len(needles) :]),
        needles=tuple(needles),
        holders=tuple(_planted(own, tokenizer, needle) for own, needle in zip(held, needles, strict=True)),
        questions=tuple(question for _, question in around),
    )


def _documents(ids: Sequence[int], document: int) -> Iterator[Ids]:
    for number in range(_ROUNDS):
        first = number * document // _ROUNDS
        for at in range(first, len(ids) - document + 1, document):
            yield tuple(ids[at : at + document])


def _around(tokenizer: Tokenizer, question: str) -> tuple[Ids, Ids]:
    before, after = tokenizer.chat_around([("system", SYSTEM + _MARKER), ("user", question)], _MARKER)
    return tuple(before), tuple(after)


def _planted(ids: Ids, tokenizer: Tokenizer, needle: Needle) -> Ids:
    fact = tokenizer.encode(f"\n\n{needle.sentence}\n\n")
    at = round(needle.inner * (len(ids) - len(fact)))
    return (*ids[:at], *fact, *ids[at:])[: len(ids)]
