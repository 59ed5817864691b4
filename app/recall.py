"""The self-test behind "auto": how many of N look-alike facts a model finds, whole and focused.

Facts that differ in one name and one number ("The locker code of Mira Castel is 48213.") are laid into plain filler
text, N over N/2 documents, read into a library of their own and asked for through the assistant itself, in both modes,
greedily. An answer counts when it holds the right number and no other one. Torch-free: the engine is the worker's.
"""

import random
import re
import tempfile
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass
from math import sqrt
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from unabridged.app.events import Answer, Question
from unabridged.engine.events import Sampling

if TYPE_CHECKING:
    from unabridged.app.assistant import Assistant
    from unabridged.app.locations import Locations
    from unabridged.app.settings import Settings

_SEED = 20
_PER_DOCUMENT = 2
_WORDS = 500
_ANSWER_TOKENS = 24
_MODES: tuple[Literal["whole", "focused"], ...] = ("whole", "focused")
_FIRST = """
    Mira Tomas Ines Oskar Lena Paulo Greta Anton Vera Hugo Selma Bruno Alma Felix Nora Emil Rosa Karl Ida Viktor
    Clara Leon Edda Marek Tilda Simon Petra Jonas Wanda Aron Hilde Ruben"""
_LAST = """
    Castel Reiher Valdo Lindt Moreau Falk Brandt Keller Sorin Dahl Winter Acker Rossi Novak Berg Stahl Weber Lund
    Prager Hahn Kramer Vogel Ekman Nagy Thorne Abel Quist Fabre Olsen Merk Janik Sand"""
_FILLER = """
    The morning was quiet and the road to the village lay empty between the fields. A thin mist hung over the river
    and the mill turned slowly. In the square two women were setting out baskets of apples and bread. The baker
    swept the step in front of his shop and greeted everyone who passed. Behind the church a cart with timber waited
    for its driver. Children ran along the wall and threw stones into the water. Towards noon the clouds thinned and
    the roofs began to dry. The clerk of the council read the notices aloud and pinned them to the board. Nobody
    hurried, for the market would last until evening. Later a breeze rose from the west and brought the smell of cut
    hay. The ferry crossed twice without passengers. An old man mended a net on the quay and spoke of winters long
    ago. When the bell rang, the doors of the school opened and the street filled with voices. The inn had lit its
    fire early. By nightfall the lamps were burning along the bridge and the last carts had gone home."""


@dataclass(frozen=True)
class Fact:
    """A sentence of a document, the question for it and the number it gives."""

    text: str
    question: str
    number: str


class Recall(msgspec.Struct, frozen=True, kw_only=True):
    """How a model did."""

    model: str
    facts: int
    tokens: int  # of all documents
    found: dict[str, int]

    @property
    def defaults(self) -> dict[str, Any]:
        """What `Registry.record` is to keep. Focused wins a tie: it costs less."""
        best = "whole" if self.found["whole"] > self.found["focused"] else "focused"
        return {"mode": best, "recall": {mode: self._figure(mode) for mode in self.found}}

    def lines(self) -> list[str]:
        """The result for people."""
        out = [f"{self.facts} look-alike facts in {self.tokens:,} tokens"]
        out += [f"{mode}: {self._figure(mode)}" for mode in self.found]
        return [*out, f"default mode: {self.defaults['mode']}"]

    def _figure(self, mode: str) -> str:
        low, high = wilson(self.found[mode], self.facts)
        return f"{self.found[mode]} of {self.facts} ({low:.0%} to {high:.0%})"


def wilson(hits: int, trials: int, z: float = 1.96) -> tuple[float, float]:
    """The Wilson interval of a share, at 95 % by default."""
    if not trials:
        return 0.0, 1.0
    share = hits / trials
    middle = share + z * z / (2 * trials)
    spread = z * sqrt(share * (1 - share) / trials + z * z / (4 * trials * trials))
    scale = 1 + z * z / trials
    return max(0.0, (middle - spread) / scale), min(1.0, (middle + spread) / scale)


def facts(count: int, seed: int = _SEED) -> list[Fact]:
    """Look-alike facts: no two share a name or a number."""
    chance = random.Random(seed)
    firsts, lasts = _FIRST.split(), _LAST.split()
    chance.shuffle(firsts)
    chance.shuffle(lasts)
    numbers = chance.sample(range(10_000, 99_999), count)
    people = [f"{firsts[i % len(firsts)]} {lasts[(i + i // len(firsts)) % len(lasts)]}" for i in range(count)]
    return [
        Fact(f"The locker code of {person} is {number}.", f"What is the locker code of {person}?", str(number))
        for person, number in zip(people, numbers, strict=True)
    ]


def documents(all_facts: list[Fact], seed: int = _SEED) -> list[str]:
    """Texts of filler with two facts each, at random depths."""
    chance = random.Random(seed)
    sentences = re.split(r"(?<=\.)\s+", " ".join(_FILLER.split()))
    texts = []
    for at in range(0, len(all_facts), _PER_DOCUMENT):
        body: list[str] = []
        while sum(len(sentence.split()) for sentence in body) < _WORDS:
            body.append(chance.choice(sentences))
        for fact in all_facts[at : at + _PER_DOCUMENT]:
            body.insert(chance.randrange(len(body) + 1), fact.text)
        texts.append(" ".join(body) + "\n")
    return texts


def right(answer: str, number: str) -> bool:
    """Whether an answer gives this number and no other of its kind."""
    return set(re.findall(r"\d{5,}", answer)) == {number}


async def measure(settings: "Settings", locations: "Locations", count: int, tell: Callable[[str], None]) -> Recall:
    """Ask for every fact in both modes. Uses the installed model but a library and stored KV of its own, which are gone
    afterwards. Raises what the assistant raises."""
    import asyncio

    from unabridged.app.assembly import assemble
    from unabridged.app.locations import Locations
    from unabridged.ingest.library import Library

    wanted = facts(count)
    with tempfile.TemporaryDirectory(prefix="unabridged-recall-") as folder:
        own = Locations.below(Path(folder))
        own.create()
        own.models.rmdir()
        own.models.symlink_to(locations.models.absolute(), target_is_directory=True)
        with Library.open(own.library) as library:
            assistant = assemble(settings, own, library)
            await asyncio.to_thread(_read, library, Path(folder) / "texts", documents(wanted), assistant)
            tokens = sum(row.tokens or 0 for row in library.documents())
            try:
                found: dict[str, int] = {mode: await _found(assistant, wanted, mode, tell) for mode in _MODES}
            finally:
                await assistant.close()
    return Recall(model=settings.model.name, facts=count, tokens=tokens, found=found)


def _read(library: Any, folder: Path, texts: list[str], assistant: "Assistant") -> None:
    from unabridged.ingest.adding.add import add

    folder.mkdir()
    for number, text in enumerate(texts):
        (folder / f"chapter-{number + 1:02}.txt").write_text(text, "utf-8")
    for _ in add(library, [folder], "default", assistant.tokenizer):
        pass


async def _found(
    assistant: "Assistant", wanted: list[Fact], mode: Literal["whole", "focused"], tell: Callable[[str], None]
) -> int:
    hits = 0
    for number, fact in enumerate(wanted, 1):
        question = Question(text=fact.question, mode=mode, store=False, sampling=Sampling(max_tokens=_ANSWER_TOKENS))
        async with aclosing(assistant.ask(question)) as events:
            async for event in events:
                if isinstance(event, Answer):
                    hits += right(event.text, fact.number)
        tell(f"{mode}: {hits} of {number}")
    return hits
