"""Needles in real prose: documents of a fixed number of tokens, one fact in some of them, questions about the facts.

Documents are slices of a long text; the first ones are left to calibration and never hold or surround a needle. Several
kinds of facts, see KINDS. Token ids only: it knows no model.
"""

import lzma
import random
import re
from collections.abc import Callable, Sequence
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

_NAMES = (
    "Kessler Amberly Pinewood Harrow Quillan Tamsin Marsten Osprey "
    "Fenwick Brindle Calloway Everly Foxton Garrick Hollis Ingram"
)
_THINGS = (
    "lighthouse orchard violin quarry harness almanac turbine lantern "
    "meadow compass chimney parrot saddle walnut harbour glacier"
)
_HORSES = (
    "Thunder Pepper Comet Biscuit Shadow Domino Rusty Clover Ginger Bandit Copper Duchess Falcon Hazel Juniper Nutmeg"
)
_FOODS = (
    "mango pizza lobster pancake noodle chocolate spinach sushi "
    "waffle yogurt burrito popcorn lasagna granola ketchup taco"
)


def _number(draw: random.Random, at: int) -> str:
    return str(draw.randrange(10000, 99999))


def _guineas(draw: random.Random, at: int) -> str:
    return str(draw.randrange(1001, 9999))


# What a fact says, how it is asked for, of whom or what it is, and what it says of it.
KINDS: dict[str, tuple[str, str, str, Callable[[random.Random, int], str]]] = {
    "number": (
        "The special magic number for the {} is {}.",
        "What is the special magic number for the {}?",
        _THINGS,
        _number,
    ),
    "code": ("The access code of the {} vault is {}.", "What is the access code of the {} vault?", _NAMES, _number),
    "horse": (
        "The name of Captain {}'s horse is {}.",
        "What is the name of Captain {}'s horse?",
        _NAMES,
        lambda _, at: _HORSES.split()[at * 5 % 16],
    ),
    "price": (
        "The price of the {} painting was {} guineas.",
        "What was the price of the {} painting?",
        _NAMES,
        _guineas,
    ),
    "food": (
        "The favourite food of Miss {} is {}.",
        "What is the favourite food of Miss {}?",
        _NAMES,
        lambda _, at: _FOODS.split()[at * 7 % 16],
    ),
    "telephone": (
        "The telephone number of Doctor {} is {}.",
        "What is the telephone number of Doctor {}?",
        _NAMES,
        _number,
    ),
}


@dataclass(frozen=True)
class Needle:
    """A fact, the question about it, and what a right answer contains."""

    kind: str
    sentence: str
    question: str
    answer: str
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


def needles(kinds: Sequence[str], count: int, seed: int) -> tuple[Needle, ...]:
    """`count` needles, at most 16 of a kind, kinds in turn, depths spread evenly over each kind."""
    draw = random.Random(seed)
    made = []
    for number in range(count):
        kind, at = kinds[number % len(kinds)], number // len(kinds)
        says, asks, names, value = KINDS[kind]
        name, answer = names.split()[at], value(draw, at)
        depth = (at + 0.5) / -(-count // len(kinds))
        made.append(Needle(kind, says.format(name, answer), asks.format(name), answer, depth, draw.random()))
    return tuple(made)


def build(tokenizer: Tokenizer, text: Path, documents: int, kinds: Sequence[str], count: int, seed: int) -> Haystack:
    """A haystack for contexts of up to `documents` documents from a `.txt.xz` file."""
    with lzma.open(text, "rt", encoding="utf-8") as source:
        # Three characters a token is less than prose has.
        prose = source.read((documents + CALIBRATION + count) * DOCUMENT * 6)
    ids = tokenizer.encode(prose)
    wanted = CALIBRATION + count + documents
    slices = [tuple(ids[at * DOCUMENT : (at + 1) * DOCUMENT]) for at in range(min(wanted, len(ids) // DOCUMENT))]
    if len(slices) < wanted:
        raise ValueError(f"{text} holds {len(slices)} documents of {DOCUMENT} tokens, {wanted} are needed")
    made = needles(kinds, count, seed)
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
    """Whether an answer says what the fact says, and no other number."""
    numbers = re.findall(r"\d{4,}", answer.replace(",", ""))
    if needle.answer.isdigit():
        return set(numbers) == {needle.answer}
    return needle.answer.lower() in answer.lower()
