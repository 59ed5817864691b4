"""Needles in real prose: documents of a fixed number of tokens, one fact in some of them, questions about the facts.

Documents are slices of a long text; the first ones are left to calibration and never hold or surround a needle. Three
kinds of facts: a five-digit number, a town, a pair of words. Token ids only: it knows no model.
"""

import lzma
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from unabridged.models.tokenizer import Tokenizer

DOCUMENT = 2048
PREFIX = 64
QUESTION = 64
# Documents at the text's beginning that calibration may use.
CALIBRATION = 16

SYSTEM = "You are a helpful assistant. Answer from these documents.\n\n"
_MARKER = "\ue000"

_THINGS = (
    "lighthouse orchard violin quarry harness almanac turbine lantern "
    "meadow compass chimney parrot saddle walnut harbour glacier"
)
_PEOPLE = (
    "Kessler Amberly Pinewood Harrow Quillan Tamsin Marsten Osprey "
    "Fenwick Brindle Calloway Everly Foxton Garrick Hollis Ingram"
)
_TOWNS = (
    "Ostrava Lisbon Toledo Bergen Krakow Geneva Naples Dublin "
    "Seville Antwerp Malaga Tampere Utrecht Verona Zagreb Porto"
)
_GATES = (
    "northern southern eastern western marble copper wooden silver "
    "garden river castle market chapel prison palace monastery"
)
_WORDS = "basil comet ember fjord gravel hazel ivory jackal kettle lemon magnet nectar olive pepper quartz raven"


@dataclass(frozen=True)
class Needle:
    """A fact, the question about it, and the words that a right answer contains."""

    kind: str
    sentence: str
    question: str
    answers: tuple[str, ...]
    # Its place: the document's place in the context and the sentence's in the document, both 0 to 1.
    depth: float
    inner: float


@dataclass(frozen=True)
class Document:
    """DOCUMENT ids; `fact`: where the needle's ids lie in it."""

    ids: tuple[int, ...]
    fact: range = range(0)


@dataclass(frozen=True)
class Haystack:
    """Ids in front of all documents (PREFIX of them), filler and calibration documents, and one document a needle."""

    prefix: tuple[int, ...]
    calibration: tuple[Document, ...]
    fillers: tuple[Document, ...]
    needles: tuple[Needle, ...]
    holders: tuple[Document, ...]

    def context(self, needle: int, documents: int) -> list[tuple[bool, int]]:
        """The documents around a needle, in order: (whether it is a holder, its number), `documents` of them. Fillers
        start at another place for every needle."""
        others = documents - 1
        first = needle * 37 % len(self.fillers)
        order = [(False, (first + at) % len(self.fillers)) for at in range(others)]
        order.insert(round(self.needles[needle].depth * others), (True, needle))
        return order


def needles(count: int, seed: int) -> tuple[Needle, ...]:
    """`count` needles (at most 48), kinds in turn, depths spread evenly over each kind."""
    draw = random.Random(seed)
    made = []
    for number in range(count):
        kind, at = number % 3, number // 3
        depth = (at + 0.5) / -(-count // 3)
        inner = draw.random()
        if kind == 0:
            value = str(draw.randrange(10000, 99999))
            thing = _THINGS.split()[at]
            fact = f"The special magic number for the {thing} is {value}."
            question = f"What is the special magic number for the {thing}?"
            made.append(Needle("number", fact, question, (value,), depth, inner))
        elif kind == 1:
            person, town = _PEOPLE.split()[at], _TOWNS.split()[(at * 5 + 3) % 16]
            fact = f"Doctor {person} was born in the town of {town}."
            question = f"In which town was Doctor {person} born?"
            made.append(Needle("town", fact, question, (town,), depth, inner))
        else:
            gate, pair = _GATES.split()[at], draw.sample(_WORDS.split(), 2)
            fact = f'The password of the {gate} gate is "{pair[0]} {pair[1]}".'
            question = f"What is the password of the {gate} gate?"
            made.append(Needle("password", fact, question, tuple(pair), depth, inner))
    return tuple(made)


def build(tokenizer: Tokenizer, text: Path, documents: int, count: int, seed: int) -> Haystack:
    """A haystack for contexts of up to `documents` documents from a `.txt.xz` file."""
    with lzma.open(text, "rt", encoding="utf-8") as source:
        # Three characters a token is less than prose has.
        prose = source.read((documents + CALIBRATION + count) * DOCUMENT * 6)
    ids = tokenizer.encode(prose)
    wanted = CALIBRATION + count + documents
    slices = [tuple(ids[at * DOCUMENT : (at + 1) * DOCUMENT]) for at in range(min(wanted, len(ids) // DOCUMENT))]
    if len(slices) < wanted:
        raise ValueError(f"{text} holds {len(slices)} documents of {DOCUMENT} tokens, {wanted} are needed")
    made = needles(count, seed)
    held = slices[CALIBRATION : CALIBRATION + count]
    return Haystack(
        prefix(tokenizer),
        tuple(Document(own) for own in slices[:CALIBRATION]),
        tuple(Document(own) for own in slices[CALIBRATION + count :]),
        made,
        tuple(_with(own, tokenizer, needle) for own, needle in zip(held, made, strict=True)),
    )


def _with(ids: Sequence[int], tokenizer: Tokenizer, needle: Needle) -> Document:
    fact = tokenizer.encode(f"\n\n{needle.sentence}\n\n")
    at = round(needle.inner * (DOCUMENT - len(fact)))
    whole = (*ids[:at], *fact, *ids[at:])
    return Document(tuple(whole[:DOCUMENT]), range(at, at + len(fact)))


def prefix(tokenizer: Tokenizer) -> tuple[int, ...]:
    """What stands in front of every document, filled to PREFIX ids with line ends."""
    own = tokenizer.chat_around([("system", SYSTEM + _MARKER), ("user", "?")], _MARKER)[0]
    if len(own) > PREFIX:
        raise ValueError(f"the template's beginning has {len(own)} ids, {PREFIX} are the most")
    return (*own, *(tokenizer.encode("\n") * (PREFIX - len(own))))


def question(tokenizer: Tokenizer, needle: Needle) -> tuple[int, ...]:
    """What stands behind the documents: at most QUESTION ids, up to where the answer begins."""
    turns = [("system", SYSTEM + _MARKER), ("user", needle.question)]
    own = tokenizer.chat_around(turns, _MARKER)[1]
    if len(own) > QUESTION:
        raise ValueError(f"the question has {len(own)} ids, {QUESTION} are the most: {needle.question}")
    return tuple(own)


def right(needle: Needle, answer: str) -> bool:
    """Whether an answer names all that the fact says."""
    said = answer.lower()
    return all(word.lower() in said for word in needle.answers)
