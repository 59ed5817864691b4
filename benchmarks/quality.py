"""Needles through the product's own path: files on disk, the library, the server, the engine, an answer.

    python -m benchmarks.quality --text pepys_diary.txt.xz --data-dir DIR [--only NAME ...] [--skip GROUP ...]
        [--set KEY=VALUE ...] [--seed 1] [--needles 20]

Passkeys: filler documents of about 1,900 tokens of real prose; in one of them, at depth 0 to 100 % of the context, a
sentence with a five-digit number ("The special magic number for the orchard is 48213."). Asked over everything (mode
whole), at three context lengths, with several attention settings. Look-alikes: 32 facts that differ in a name and a
number, two in each of 16 documents, asked in mode focused and whole. An answer counts when it contains the number and
no other number of the same length.

DIR must have a model installed (`unabridged --data-dir DIR models add smollm2-135m`). Prints a table with 95 % Wilson
intervals and writes benchmarks/results/<name>.json with the machine, the commit and every answer.
"""

import argparse
import asyncio
import lzma
import random
import re
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.report import interval, machine, save

from unabridged.app.client import Client
from unabridged.app.events import Added, Answer, Problem, Question
from unabridged.app.launch import connect, wait_for_engine
from unabridged.app.locations import Locations
from unabridged.app.settings import load

CHARACTERS = 7600  # about 1,900 tokens of this prose: a document with its header is one segment of 2,048
PLACES = (
    "Kessler Amberly Northgate Pinewood Harrow Quillan Tamsin Ostrava "
    "Delmore Whitby Carrow Linden Marsten Osprey Fenwick Dunmore "
    "Ashcombe Brindle Calloway Dorset Everly Foxton Garrick Hollis "
    "Ingram Jasper Kelvin Lockhart Merrow Norwood Oakham Penrose"
)
SECRETS = (
    "lighthouse orchard violin quarry harness almanac turbine lantern meadow compass "
    "chimney parrot saddle walnut harbour glacier pepper balcony feather anchor"
)


@dataclass(frozen=True)
class Case:
    """One question of a collection, and the number that answers it."""

    collection: str
    question: str
    number: str
    depth: float


@dataclass(frozen=True)
class Outcome:
    """What came of a case under a variant."""

    variant: str
    case: Case
    right: bool
    answer: str
    mode: str
    attention: str
    context: int
    attended: int
    seconds: float


# Settings of each variant, the collections that it is asked over, and the mode. Without hints attention alone must find
# the sentence.
ALONE = {"answer.hints": 0}
VARIANTS: dict[str, tuple[dict[str, Any], tuple[str, ...], str]] = {
    "dense": (ALONE, ("passkey-7k",), "whole"),
    "8k preset": (ALONE | {"engine.overrides": ("dense_below=0",)}, ("passkey-7k",), "whole"),
    "8k preset, past the window": (ALONE, ("passkey-16k", "passkey-32k"), "whole"),
    "paper 3k": (
        ALONE | {"engine.preset": "3k", "engine.overrides": ("dense_below=0",)},
        ("passkey-7k", "passkey-16k", "passkey-32k"),
        "whole",
    ),
    "whole, as shipped": ({}, ("passkey-16k", "passkey-32k", "look-alikes"), "whole"),
    "focused, as shipped": ({}, ("look-alikes", "look-alike-pairs"), "focused"),
    "focused, without hints": (ALONE, ("look-alikes",), "focused"),
}


def passages(text: str, seed: int) -> Iterator[str]:
    """Stretches of whole paragraphs, in random order of their places, never twice."""
    paragraphs = [line for line in text.split("\n") if 200 < len(line) < 3000]
    starts = list(range(0, len(paragraphs) - 40, 40))
    random.Random(seed).shuffle(starts)
    for start in starts:
        passage = ""
        for paragraph in paragraphs[start : start + 40]:
            if len(passage) + len(paragraph) > CHARACTERS:
                break
            passage += paragraph + "\n\n"
        yield passage


def insert(passage: str, sentence: str, depth: float) -> str:
    """The sentence as a paragraph of its own at about `depth` of the passage."""
    paragraphs = passage.strip().split("\n\n")
    paragraphs.insert(round(depth * len(paragraphs)), sentence)
    return "\n\n".join(paragraphs) + "\n"


def write_passkeys(folder: Path, text: str, needles: int, seed: int) -> list[Case]:
    """For each context length and needle a folder: filler files, and the needle's file sorted to its depth.

    The same filler file has the same name everywhere, so that its KV is computed once.
    """
    source = passages(text, seed)
    filler = [next(source) for _ in range(19)]
    cases = []
    numbers = random.Random(seed + 1)
    for index in range(needles):
        depth = index / max(1, needles - 1)
        number = str(numbers.randrange(10000, 99999))
        thing = SECRETS.split()[index]
        sentence = f"The special magic number for the {thing} is {number}."
        holder = insert(next(source), sentence, numbers.random())
        for name, documents in (("7k", 4), ("16k", 10), ("32k", 20)):
            collection = f"passkey-{name}-{index}"
            target = folder / collection
            target.mkdir(parents=True)
            around = [filler[i * 19 // (documents - 1)] for i in range(documents - 1)]
            before = round(depth * len(around))
            for place, passage in enumerate(around):
                # Letters sort the filler into the part before or behind the needle's file.
                side = "a" if place < before else "c"
                (target / side).mkdir(exist_ok=True)
                (target / side / f"diary-{'abcdefghijklmnopqrst'[filler.index(passage)]}.txt").write_text(
                    passage, "utf-8"
                )
            (target / "b").mkdir()
            (target / "b" / "diary.txt").write_text(holder, "utf-8")
            cases.append(Case(collection, f"What is the special magic number for the {thing}?", number, depth))
    return cases


def write_lookalikes(folder: Path, text: str, seed: int) -> list[Case]:
    """Two sets of 16 files with two facts each: 32 places, and, harder, two things at each of 16 places."""
    source = passages(text, seed + 2)
    numbers = random.Random(seed + 3)
    places = PLACES.split()
    cases = []
    for collection, facts in (
        ("look-alikes", [(places[index], places[index + 16]) for index in range(16)]),
        ("look-alike-pairs", [(f"{place} vault", f"{place} locker") for place in places[:16]]),
    ):
        (folder / collection).mkdir(parents=True)
        for index, pair in enumerate(facts):
            passage = next(source)
            for thing in pair:
                number = str(numbers.randrange(10000, 99999))
                passage = insert(passage, f"The access code of the {thing} is {number}.", numbers.random())
                cases.append(Case(collection, f"What is the access code of the {thing}?", number, index / 15))
            (folder / collection / f"diary-{index:02}.txt").write_text(passage, "utf-8")
    return cases


def group(case: Case) -> str:
    """The name of the collections that a case is counted with."""
    return re.sub(r"-\d+$", "", case.collection)


def changed(entries: list[str]) -> dict[str, Any]:
    """Settings from KEY=VALUE; commas make lists."""
    pairs = [entry.split("=", 1) for entry in entries]
    return {key: tuple(value.split(",")) if key == "engine.overrides" else value for key, value in pairs}


async def add(client: Client, folder: Path, collections: set[str]) -> None:
    """Read each folder into the collection of its name."""
    for collection in sorted(collections):
        async for event in client.add([str(folder / collection)], collection):
            if isinstance(event, Problem):
                sys.exit(f"adding {collection}: {event.message} ({event.hint})")
            if isinstance(event, Added) and set(event.statuses) != {"read"}:
                sys.exit(f"adding {collection}: {event.statuses}")


async def ask(client: Client, variant: str, case: Case, mode: str) -> Outcome:
    """One question, one answer."""
    begun = time.monotonic()
    question = Question(text=case.question, collection=case.collection, mode=mode, store=False)  # type: ignore[arg-type]
    async for event in client.ask(question):
        if isinstance(event, Problem):
            sys.exit(f"{variant}, {case.collection}: {event.message} ({event.hint})")
        if isinstance(event, Answer):
            numbers = set(re.findall(r"\b\d{5}\b", event.text.replace(",", "")))
            r = event.receipt
            return Outcome(
                variant, case, numbers == {case.number}, event.text, r.mode, r.attention, r.context, r.attended,
                time.monotonic() - begun,
            )  # fmt: skip
    sys.exit(f"{variant}, {case.collection}: the stream ended without an answer")


async def run(arguments: argparse.Namespace) -> list[Outcome]:
    """Write the files, read them, ask every variant."""
    locations = Locations.below(arguments.data_dir)
    with lzma.open(arguments.text, "rt", encoding="utf-8") as file:
        text = file.read()
    folder = arguments.data_dir / "needles"
    if folder.exists():
        sys.exit(f"{folder} exists: delete it, or name another --data-dir")
    cases = write_passkeys(folder, text, arguments.needles, arguments.seed)
    cases += write_lookalikes(folder, text, arguments.seed)
    outcomes = []
    for variant, (flags, wanted, mode) in VARIANTS.items():
        if arguments.only and variant not in arguments.only:
            continue
        mine = [case for case in cases if group(case) in wanted and group(case) not in arguments.skip]
        settings = load(locations.config_file, flags | changed(arguments.set)).settings
        async with connect(settings, locations) as client:
            await wait_for_engine(client)
            await add(client, folder, {case.collection for case in mine})
            for case in mine:
                outcomes.append(await ask(client, variant, case, mode))
                print(f"{variant:28} {case.collection:16} {outcomes[-1].right!s:5} {outcomes[-1].seconds:6.1f} s  "
                      f"{case.number}  {outcomes[-1].answer[:60]!r}", file=sys.stderr, flush=True)  # fmt: skip
    return outcomes


def table(outcomes: list[Outcome]) -> str:
    """One row a variant and collection group: right of asked, 95 % interval, tokens."""
    rows = [
        "| settings | context | tokens | attended | right | 95 % interval | s/question |",
        "|---|---|---|---|---|---|---|",
    ]
    groups: dict[tuple[str, str], list[Outcome]] = {}
    for outcome in outcomes:
        groups.setdefault((outcome.variant, group(outcome.case)), []).append(outcome)
    for (variant, name), same in groups.items():
        right = sum(outcome.right for outcome in same)
        low, high = interval(right, len(same))
        tokens = sum(outcome.context for outcome in same) // len(same)
        attended = sum(outcome.attended for outcome in same) // len(same)
        seconds = sum(outcome.seconds for outcome in same) / len(same)
        rows.append(
            f"| {variant} ({same[0].attention}) | {name} | {tokens} | {attended} | {right}/{len(same)} "
            f"| {low:.2f}-{high:.2f} | {seconds:.1f} |"
        )
    return "\n".join(rows)


def main() -> None:
    """Parse, run, print, save."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--text", type=Path, required=True, help="the prose, .txt.xz")
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--only", action="append", choices=list(VARIANTS))
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a setting for every variant")
    parser.add_argument("--skip", action="append", default=[], metavar="GROUP", help="such as passkey-16k")
    parser.add_argument("--seed", type=int, default=1, help="of passages, places and numbers")
    parser.add_argument("--name", default="quality", help="of the file in benchmarks/results")
    parser.add_argument("--needles", type=int, default=20, choices=range(1, 21))
    arguments = parser.parse_args()
    outcomes = asyncio.run(run(arguments))
    print(table(outcomes))
    save(
        arguments.name,
        {"machine": machine(), "command": sys.argv, "outcomes": [asdict(outcome) for outcome in outcomes]},
    )


if __name__ == "__main__":
    main()
