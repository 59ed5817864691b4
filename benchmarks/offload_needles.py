"""Needles in up to millions of tokens with the KV pool in host memory and in the GPU's: what is found, and whether the
answers have the same tokens.

    python -m benchmarks.offload_needles --model DIR --text pepys_diary.txt.xz [--lengths 1024 256 32 2048]
        [--questions 16] [--places gpu host tight] [--answer 24] [--vram 24] [--seconds 150]

The engine itself answers, as a process of its own would have it: one a place, one answer at a time. Documents of 2,048
tokens stand behind one prefix and are read once; a question's own document alone is new to its length
(needle_contexts.py). Lengths are in thousands (1,024) of tokens and go in the given order, so a later one finds what an
earlier one has read.

    gpu     all in the GPU's memory
    host    keys and values in the host's memory, the GPU's held to --vram GiB
    tight   as host, with banks that hold no more than one list: every renewal evicts. Up to 256K

DIR: an installed model, or a folder that has no calibration of the index: it is made, from documents that no context
has. Of a later place's answer that differs from the first one's: where, and by how many logits the two best tokens
differ there when the question is asked again with the answer up to there. GPU memory is torch's at most, and what the
plan counts for CUDA. No question begins after --seconds, of which each place has a share. Intervals are Wilson's, 95 %.
Writes benchmarks/results/<name>.json.
"""

import argparse
import gc
import lzma
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import msgspec
from benchmarks import haystack, needle_contexts
from benchmarks.gpu import card, require_gpu, say
from benchmarks.needle_asking import Asked, Place, ask, calibrated, engine_for, gap, memory_of, over_the_bus, request
from benchmarks.needle_contexts import CALIBRATION, Contexts
from benchmarks.report import interval, machine, save

from unabridged.engine.errors import EngineError
from unabridged.engine.gpu.backend import GpuBackend
from unabridged.engine.options import EngineOptions
from unabridged.models.tokenizer import Tokenizer

DOCUMENT = 2048
# Lengths that the tight banks are asked at.
TIGHT = 256 * 1024
GIB = 1 << 30
_FAILURES = (EngineError, RuntimeError, ValueError, MemoryError, AssertionError)
Row = dict[str, Any]


class Needles:
    """The whole of it. `save`: of the result's name, None for nowhere."""

    def __init__(self, model: Path, contexts: Contexts, answer: int, end: float, result: Row, name: str | None) -> None:
        """`end`: of time.monotonic(), after which no question begins."""
        self._model, self._contexts, self._answer, self._end = model, contexts, answer, end
        self._result, self._name = result, name
        self._answers: dict[int, list[Asked]] = {}
        result["rows"] = []

    def run(self, places: Sequence[Place], lengths: Sequence[int]) -> None:
        """Every place at every length; what fails is told and left out."""
        for number, place in enumerate(places):
            now = time.monotonic()
            end = now + (self._end - now) * place.share / sum(one.share for one in places[number:])
            own = [one for one in lengths if one <= (place.most or one)]
            with self._guarded(place.name):
                if own:
                    self._place(place, own, end)
            gc.collect()
            self._save()

    def _place(self, place: Place, lengths: Sequence[int], end: float) -> None:
        engine, most = self._started(place, lengths)
        try:
            self._warm(engine, min(lengths))
            for length in lengths:
                if length <= most:
                    with self._guarded(f"{place.name} at {length:,}"):
                        self._length(engine, place, length, end)
        finally:
            engine.close()

    def _started(self, place: Place, lengths: Sequence[int]) -> tuple[GpuBackend, int]:
        """The engine, for the longest that it can be had for."""
        for most in sorted(lengths, reverse=True):
            with self._guarded(f"{place.name} for {most:,} tokens"):
                began = time.monotonic()
                # What warming up reads stays as long as there is room.
                tokens = most + min(lengths) + self._contexts.beside
                engine = engine_for(place, self._model, tokens, len(self._contexts.questions))
                say(f"{place.name}: ready for {most:,} tokens in {time.monotonic() - began:.1f} s")
                return engine, most
        raise RuntimeError("no engine at any length")

    def _warm(self, engine: GpuBackend, length: int) -> None:
        """Kernels that recording did not compile are compiled now. Nothing that is measured is read: the prefix is
        another one."""
        began = time.monotonic()
        prefix = self._contexts.prefix[::-1]
        ask(engine, request(prefix, self._contexts.segments(0, length), self._contexts.questions[0], 2))
        say(f"warm in {time.monotonic() - began:.1f} s")

    def _length(self, engine: GpuBackend, place: Place, length: int, end: float) -> None:
        contexts, asked = self._contexts, []
        for number, question in enumerate(contexts.questions):
            if time.monotonic() > end:
                break
            segments = contexts.segments(number, length)
            asked.append(ask(engine, request(contexts.prefix, segments, question, self._answer)))
        if not asked:
            say(f"{length // 1024:5}K {place.name}: no time left")
            return
        row = self._row(place, length, asked) | memory_of(engine)
        first = self._answers.setdefault(length, asked)
        if first is not asked:
            row |= self._compared(engine, length, first, asked)
        self._result["rows"].append(row)
        say(_line(row))
        self._save()

    def _row(self, place: Place, length: int, asked: Sequence[Asked]) -> Row:
        good = [haystack.right(one, said.text) for one, said in zip(self._contexts.needles, asked, strict=False)]
        low, high = interval(sum(good), len(good))
        return {
            "tokens": length,
            "place": place.name,
            "found": sum(good),
            "asked": len(good),
            "low": low,
            "high": high,
            # The first question has what they share read.
            "read": asked[0].read,
            "read_seconds": asked[0].prepared + asked[0].reading,
            "first_token": _median([one.first_token for one in asked]),
            "step": _median([one.step for one in asked]),
            "bus": over_the_bus(asked),
            "answers": [asdict(one) | {"right": ok} for one, ok in zip(asked, good, strict=True)],
        }

    def _compared(self, engine: GpuBackend, length: int, first: Sequence[Asked], asked: Sequence[Asked]) -> Row:
        """Token ids beside those of the first place."""
        differences = []
        for number, (one, other) in enumerate(zip(first, asked, strict=False)):
            if one.ids == other.ids and one.reason == other.reason:
                continue
            pairs = zip(one.ids, other.ids, strict=False)
            at = next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(one.ids), len(other.ids)))
            question = (*self._contexts.questions[number], *one.ids[:at])
            again = request(self._contexts.prefix, self._contexts.segments(number, length), question, 1)
            differences.append({"question": number, "token": at} | gap(engine, again))
        compared = min(len(first), len(asked))
        return {"compared": compared, "same": compared - len(differences), "differences": differences}

    @contextmanager
    def _guarded(self, what: str) -> Iterator[None]:
        try:
            yield
        except _FAILURES as error:
            message = f"failed: {what}: {type(error).__name__}: {str(error)[:300]}"
            self._result.setdefault("failed", []).append(message)
            say(message)

    def _save(self) -> None:
        if self._name is not None:
            save(self._name, self._result)


def _median(values: Sequence[float]) -> float:
    return sorted(values)[len(values) // 2]


def _line(row: Row) -> str:
    bus, same = row["bus"], ""
    there = "" if bus is None else f"; banks had {bus['keys_rate']:.1%} of keys {bus['values_rate']:.1%} of values"
    over = "" if bus is None else f", {bus['bytes_a_step'] / 1e6:.2f} MB over the bus a step"
    if "same" in row:
        gaps = [f"{one['question']}@{one['token']} gap {one['gap']:.3f}" for one in row["differences"]]
        same = f"; SAME TOKENS {row['same']}/{row['compared']}" + (f" ({', '.join(gaps)})" if gaps else "")
    return (
        f"{row['tokens'] // 1024:5}K {row['place']:5}: found {row['found']}/{row['asked']} "
        f"({row['low']:.2f}-{row['high']:.2f}){same}; read {row['read']:,} tokens in {row['read_seconds']:.1f} s, "
        f"first token {row['first_token']:.2f} s, step {row['step'] * 1e3:.2f} ms{there}{over}; GPU memory "
        f"{row['used'] / GIB:.2f} GiB of {row['planned'] / GIB:.2f} planned"
    )


def main() -> None:
    """See the module."""
    arguments = _arguments()
    require_gpu("offload_needles")
    end = time.monotonic() + arguments.seconds
    lengths = [1024 * one for one in arguments.lengths]
    tokenizer = Tokenizer.load(arguments.model)
    with lzma.open(arguments.text, "rt", encoding="utf-8") as source:
        text = source.read()
    needles = haystack.needles(arguments.kinds, arguments.questions, arguments.seed)
    contexts = needle_contexts.build(tokenizer, text, needles, max(lengths), DOCUMENT, CALIBRATION)
    say(f"{len(contexts.fillers):,} documents, {len(needles)} questions")
    result: Row = {**machine(), **card(), "model": arguments.model.name, "seed": arguments.seed}
    result |= {"commit": arguments.commit} if arguments.commit else {}
    whole = EngineOptions(place="gpu", slots=1, prefill_chunk=arguments.chunk)
    held = msgspec.structs.replace(whole, place="host", vram_bytes=round(arguments.vram * GIB))
    known = {
        "host": Place("host", held),
        "gpu": Place("gpu", whole),
        "tight": Place("tight", held, tight=True, most=TIGHT, share=0.3),
    }
    with tempfile.TemporaryDirectory() as folder:
        model = calibrated(arguments.model, contexts, Path(folder))
        say("calibrated")
        asking = Needles(model, contexts, arguments.answer, end, result, arguments.name)
        asking.run([known[name] for name in arguments.places], lengths)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--text", type=Path, required=True, help="a long text, .txt.xz")
    parser.add_argument("--lengths", type=int, nargs="+", default=[1024, 256, 32, 2048])
    parser.add_argument("--questions", type=int, default=16, help="at most 16 a kind")
    parser.add_argument("--kinds", nargs="+", choices=haystack.KINDS, default=["number", "code", "telephone"])
    parser.add_argument("--places", nargs="+", choices=("host", "gpu", "tight"), default=["gpu", "host", "tight"])
    parser.add_argument("--answer", type=int, default=24, help="tokens")
    parser.add_argument("--vram", type=float, default=24.0, help="GiB, of host and tight")
    parser.add_argument("--chunk", type=int, default=32768, help="tokens of a pass")
    parser.add_argument("--seconds", type=float, default=150.0)
    parser.add_argument("--seed", type=int, default=5)
    parser.add_argument("--commit", help="where git cannot tell")
    parser.add_argument("--name", default="offload_needles", help="of the result file")
    return parser.parse_args()


if __name__ == "__main__":
    main()
