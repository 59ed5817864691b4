"""Collections of documents with questions whose answers stand in one document each: real questions, and planted facts.

*passages*: questions of Natural Questions, each with the paragraph of Wikipedia that answers it (the file
nq-open-oracle.jsonl.gz of nelson-liu/lost-in-the-middle). A document holds three paragraphs on different matters, and
no other paragraph of its collection holds the answer.

*facts*: neighbouring stretches of a long text, so that each document goes on where the one before it ends. In each a
sentence is planted; of each kind there are several in a collection, which differ in a name and in what they say. What
follows the last stretch in the text is kept for measuring how well it is predicted.

Text only; `Lay` turns it into token ids as the product lays documents out.
"""

import gzip
import json
import lzma
import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.haystack import KINDS, needles

PARAGRAPHS = 3
# Characters of a stretch at least: somewhat more tokens than three paragraphs have.
STRETCH = 1200
FOLLOWS = 1100


@dataclass(frozen=True)
class Case:
    """A question, what an answer may contain to be right, and the number of the document that says it."""

    question: str
    answers: tuple[str, ...]
    document: int


@dataclass(frozen=True)
class Collection:
    """Documents in order, questions about them, and (facts) the text that follows the last document."""

    kind: str
    number: int
    documents: tuple[str, ...]
    cases: tuple[Case, ...]
    follows: str = ""


def passages(file: Path, collections: int, documents: int, seed: int) -> Iterator[Collection]:
    """Collections of `documents` documents with a question about each. No paragraph stands in two of them."""
    with gzip.open(file, "rt", encoding="utf-8") as lines:
        rows = [row for row in map(json.loads, lines) if _usable(row)]
    random.Random(seed).shuffle(rows)
    for number in range(collections):
        held: list[Any] = []
        # Those that are passed over here are looked at again for the next collection.
        for row in list(rows):
            if len(held) == documents * PARAGRAPHS:
                break
            if all(_apart(row, other) for other in held):
                held.append(row)
                rows.remove(row)
        groups = [held[at * PARAGRAPHS : (at + 1) * PARAGRAPHS] for at in range(documents)]
        cases = []
        for at, group in enumerate(groups):
            asked = group[(at + number) % PARAGRAPHS]
            cases.append(Case(f"{asked['question'].capitalize()}?", tuple(asked["answers"]), at))
        yield Collection(
            "passages", number, tuple(_document(at, group) for at, group in enumerate(groups)), tuple(cases)
        )


def facts(file: Path, collections: int, documents: int, seed: int) -> Iterator[Collection]:
    """Collections of `documents` neighbouring stretches with a planted sentence in each."""
    with lzma.open(file, "rt", encoding="utf-8") as source:
        paragraphs = [line.strip() for line in source if 200 < len(line) < 3000]
    draw = random.Random(seed)
    # No stretch has more paragraphs than this on average.
    most = 4 * (documents + 1)
    starts = random.Random(seed).sample(range(most, len(paragraphs) - most, most), collections)
    for number, start in enumerate(starts):
        follow = iter(paragraphs[start:])
        planted = list(needles(tuple(KINDS), documents, seed + number))
        draw.shuffle(planted)
        texts, cases = [], []
        for at, needle in enumerate(planted):
            stretch = _stretch(follow, STRETCH)
            stretch.insert(round(needle.inner * len(stretch)), needle.sentence)
            texts.append(f"[diary-{at + 1}.txt]\n" + "\n\n".join(stretch) + "\n\n")
            cases.append(Case(needle.question, (needle.answer,), at))
        rest = " ".join(_stretch(follow, FOLLOWS))[:FOLLOWS]
        yield Collection("facts", number, tuple(texts), tuple(cases), rest)


def right(case: Case, answer: str) -> bool:
    """Whether an answer contains what is asked for, and no other number where that is a number."""
    said = _plain(answer)
    if case.answers[0].isdigit():
        return set(re.findall(r"\d{4,}", answer.replace(",", ""))) == {case.answers[0]}
    return any(f" {_plain(one)} " in f" {said} " for one in case.answers)


def _usable(row: dict[str, Any]) -> bool:
    text, answer = row["ctxs"][0]["text"], row["answers"][0]
    return (
        len(row["ctxs"]) == 1
        and 250 < len(text) < 900
        and len(answer) <= 40
        and f" {_plain(answer)} " in f" {_plain(text)} "
    )


def _apart(row: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether neither paragraph holds the other's answer."""
    if row["ctxs"][0]["title"] == other["ctxs"][0]["title"]:
        return False
    return not any(
        f" {_plain(answer)} " in f" {_plain(within['ctxs'][0]['text'])} "
        for asked, within in ((row, other), (other, row))
        for answer in asked["answers"]
    )


def _document(at: int, group: Sequence[dict[str, Any]]) -> str:
    paragraphs = (f"{row['ctxs'][0]['title']}\n{row['ctxs'][0]['text']}" for row in group)
    return f"[notes-{at + 1}.txt]\n" + "\n\n".join(paragraphs) + "\n\n"


def _stretch(paragraphs: Iterator[str], length: int) -> list[str]:
    taken: list[str] = []
    while sum(map(len, taken)) < length:
        taken.append(next(paragraphs)[:length])
    return taken


def _plain(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.casefold()))
