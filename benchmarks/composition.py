"""Composable documents against joint ones: the same documents, questions and order, read each alone or as one text.

    nice -n 19 python -m benchmarks.composition --model DIR --questions nq-open-oracle.jsonl.gz
        --text pepys_diary.txt.xz [--collections 10] [--documents 12] [--past 2] [--past-documents 30] [--seed 5]
        [--name composition] [--more]

Everything is read and asked by the engine's own parts on the CPU with one thread: composing, reading, the runner, the
product's prompt without hints, greedy. Collections as in composition_data: *passages* and *facts* inside the window,
and *past* it, with the preset of the model's window, about every third document. For each question and each way of
reading:

  nll      negative log-likelihood of the shortest right answer behind the prompt, in nats, token by token as a step
           decodes it
  right    whether the answer of at most 20 tokens contains a right one
  alone    the same two where only the document that holds the answer is in context, as with --doc

and for each collection of facts, the mean nll of the text that follows its last document. Differences are joint minus
composable of the same question; intervals are 95 %, by bootstrap over questions and, wider, over collections. Written
after every collection to benchmarks/results/<name>.json, with the figures of every question, so that it may be ended at
any time; --more adds to what is there, which another seed must have made.
"""

import argparse
import hashlib
import json
import time
from array import array
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from benchmarks.composition_data import Case, Collection, facts, passages, right
from benchmarks.composition_summary import WAYS, summary
from benchmarks.report import RESULTS, machine, save
from torch import Tensor

from unabridged.app.events import Turn
from unabridged.app.prompt import Prompt
from unabridged.engine.attention.config import for_window
from unabridged.engine.composing import Composer
from unabridged.engine.cpu import CpuCourse, CpuRunner
from unabridged.engine.events import Composition, pack_ids
from unabridged.engine.kv.cache import KvCache
from unabridged.engine.kv.pool import KvPool
from unabridged.engine.options import CPU_CHUNK
from unabridged.engine.reading import Held, Reader
from unabridged.models.load import load_model
from unabridged.models.tokenizer import Tokenizer

ANSWER = 20
POOL = 1 << 30
# Collections inside the window between two past it.
_BETWEEN = 5


@dataclass(frozen=True)
class Asked:
    """One question in one way. `nll` of a right answer, whether the answer given was `right`, and what it said."""

    nll: float
    right: bool
    answer: str


class Engine:
    """The engine's parts around one model on the CPU."""

    def __init__(self, model: Path) -> None:
        torch.set_num_threads(1)
        self._model, self._tokenizer = load_model(model, packed=True), Tokenizer.load(model)
        shape = self._model.config
        self._pool = KvPool(shape.layers, shape.kv_heads, shape.head_dim, POOL, torch.float16)
        self._cache, self._config = KvCache(self._pool), for_window(shape.window)
        self._runner = CpuRunner(self._model, self._pool, CPU_CHUNK)
        self._reader = Reader(self._runner, self._cache, None, self._config, self._tokenizer.encode("\n")[0])
        self._composer = Composer("", 1, self._config, "")
        self._prompt = Prompt(self._tokenizer)

    @contextmanager
    def held(self, documents: Sequence[str], way: Composition) -> Iterator[Held]:
        """Documents, read or taken from the pool."""
        segments = [pack_ids(self._tokenizer.encode(one)) for one in documents]
        held = Held()
        try:
            parts = self._composer.parts(pack_ids(self._prompt.prefix), segments, way)
            for _ in self._reader.hold("", parts, held):
                pass
            yield held
        finally:
            for entry in held.holds:
                self._cache.release(entry)

    def forget(self) -> None:
        """Nothing that was read is kept."""
        self._cache.make_room(self._pool.slots)

    @torch.inference_mode()
    def ask(self, held: Held, case: Case) -> Asked:
        """One question."""
        prompt = self._prompt.conversation([Turn("user", case.question)], 1 << 20).ids
        gold = min((self._tokenizer.encode(one) for one in case.answers), key=len)
        with self._behind(held, prompt, len(gold)) as course:
            nll = 0.0
            for token in gold:
                nll -= float(self._scores(course.hidden)[0, token])
                self._append(course, token)
        said: list[int] = []
        with self._behind(held, prompt, ANSWER) as course:
            while len(said) < ANSWER and (token := int(self._scores(course.hidden).argmax())) not in self._ends:
                said.append(token)
                self._append(course, token)
        answer = self._tokenizer.decode(said)
        return Asked(round(nll, 5), right(case, answer), answer)

    @torch.inference_mode()
    def surprise(self, held: Held, text: str) -> float:
        """Mean negative log-likelihood of a text's tokens behind documents inside the window."""
        ids = self._tokenizer.encode(text)
        with self._behind(held, ids[:1], len(ids)) as course:
            course.attention.begin(len(ids) - 1)
            hidden = self._model.forward(torch.tensor(ids[1:]), course.attention)
            course.attention.end()
            scores = self._scores(torch.cat([course.hidden, hidden[:-1]]))
            return -float(scores.gather(1, torch.tensor(ids[1:])[:, None]).mean())

    @contextmanager
    def _behind(self, held: Held, ids: Sequence[int], more: int) -> Iterator[CpuCourse]:
        """The context behind `ids`, with room for `more` tokens."""
        filled = [run for entry in held.order for run in entry.filled()]
        room = self._pool.allocate(len(ids) + more)
        try:
            course = self._runner.course(filled, room, held.layout.slots, self._config)
            left = array("i", ids)
            while left:
                count = course.fits(self._runner.chunk(), len(left))
                self._runner.read([(course, left[:count])])
                left = left[count:]
            yield course
        finally:
            self._pool.free(room)

    def _append(self, course: CpuCourse, token: int) -> None:
        course.attention.begin(1)
        course.hidden = self._model.forward(torch.tensor([token]), course.attention)
        course.attention.end()

    def _scores(self, hidden: Tensor) -> Tensor:
        return self._model.logits(hidden).float().log_softmax(-1)

    @property
    def _ends(self) -> frozenset[int]:
        return frozenset(self._tokenizer.eos_ids)


def measure(engine: Engine, one: Collection, alone: bool) -> dict[str, Any]:
    """A collection in both ways, and with `alone` each question over its document."""
    # The questions' texts are not ours to hand on.
    cases = [{"question": _mark(case.question), "document": case.document} for case in one.cases]
    result: dict[str, Any] = {"kind": one.kind, "number": one.number, "cases": cases}
    for way in WAYS:
        began = time.perf_counter()
        with engine.held(one.documents, way) as held:
            read = time.perf_counter() - began
            asked = [asdict(engine.ask(held, case)) for case in one.cases]
            result[way] = {"tokens": held.layout.tokens, "read_seconds": round(read, 1), "asked": asked}
            if one.follows:
                result[way]["follows"] = round(engine.surprise(held, one.follows), 5)
            result[way]["seconds"] = round(time.perf_counter() - began, 1)
    if alone:
        asked = []
        for case in one.cases:
            with engine.held([one.documents[case.document]], "composable") as held:
                asked.append(asdict(engine.ask(held, case)))
        result["alone"] = {"asked": asked}
    engine.forget()
    return result


def _mark(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--questions", type=Path, required=True)
    parser.add_argument("--text", type=Path, required=True)
    parser.add_argument("--collections", type=int, default=10)
    parser.add_argument("--documents", type=int, default=12)
    parser.add_argument("--past", type=int, default=2)
    parser.add_argument("--past-documents", type=int, default=30)
    parser.add_argument("--seed", type=int, default=5)
    parser.add_argument("--name", default="composition")
    parser.add_argument("--more", action="store_true")
    options = parser.parse_args()
    engine = Engine(options.model)
    before = json.loads((RESULTS / f"{options.name}.json").read_text("utf-8")) if options.more else {}
    done: list[dict[str, Any]] = before.get("collections", [])
    runs = [*before.get("runs", ()), {key: str(value) for key, value in vars(options).items()}]
    began = time.perf_counter()
    for place, one in _collections(options):
        done.append({"place": place} | measure(engine, one, alone=place == "inside"))
        kinds = {(row["kind"], row["place"]): None for row in done}
        table = {
            f"{kind}, {where}": summary([row for row in done if (row["kind"], row["place"]) == (kind, where)])
            for kind, where in kinds
        }
        print(f"{time.perf_counter() - began:.0f} s", place, one.kind, one.number, flush=True)
        for name, found in table.items():
            print(name, found, flush=True)
        save(options.name, {"machine": machine(), "runs": runs, "summary": table, "collections": done})


def _collections(options: argparse.Namespace) -> Iterator[tuple[str, Collection]]:
    """All that is measured, kinds in turn, so that a run that is ended early has some of each."""
    seed = options.seed
    inside = [
        passages(options.questions, options.collections, options.documents, seed),
        facts(options.text, options.collections, options.documents, seed),
    ]
    past = [
        passages(options.questions, options.past, options.past_documents, seed + 100),
        facts(options.text, options.past, options.past_documents, seed + 100),
    ]
    for number in range(max(options.collections, _BETWEEN * options.past)):
        if number < options.collections:
            for made in inside:
                yield "inside", next(made)
        if number % _BETWEEN == _BETWEEN - 1 and number // _BETWEEN < options.past:
            for made in past:
                one = next(made)
                # What follows is predicted in one pass, which past the window is not what steps do.
                yield "past", replace(one, cases=one.cases[::3], follows="")


if __name__ == "__main__":
    main()
