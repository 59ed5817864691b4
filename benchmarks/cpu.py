"""Prefill and decode speed of the torch engine on this CPU, at several context lengths.

    python benchmarks/cpu.py MODEL_DIR TEXT [--tokens 2048 8192 32768] [--threads N] [--segment 2048]

TEXT is any long plain text. Prints one JSON line a context length: read (segments) and question tokens per second,
decode tokens per second of the median step, and the slowest step. `--cpu-time` counts the seconds that the process
computed instead of those that passed: with one thread that is the speed of an idle machine, measured on a busy one.
"""

import argparse
import itertools
import json
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from unabridged.engine.events import Finished, Generate, Progress, Sampling, Segment, Token, pack_ids
from unabridged.engine.generate import TorchBackend
from unabridged.engine.options import EngineOptions
from unabridged.models.tokenizer import Tokenizer

QUESTION = "Summarise the documents above in three sentences."


def main() -> None:
    """Measure and print."""
    arguments = _arguments()
    options = EngineOptions(threads=arguments.threads, kv_bytes=8 << 30, segment_tokens=arguments.segment)
    backend = TorchBackend(arguments.model, options)
    tokenizer = Tokenizer.load(arguments.model)
    ids = tokenizer.encode(arguments.text.read_text(encoding="utf-8", errors="replace")[: 8 * max(arguments.tokens)])
    for tokens in arguments.tokens:
        print(json.dumps(_measure(backend, tokenizer, ids[:tokens], arguments)), flush=True)


def _measure(
    backend: TorchBackend, tokenizer: Tokenizer, ids: list[int], arguments: argparse.Namespace
) -> dict[str, object]:
    marker = "\x00documents\x00"
    prefix, prompt = tokenizer.chat_around(
        [("system", f"Answer from these documents.\n{marker}"), ("user", QUESTION)], marker
    )
    size = arguments.segment
    segments = tuple(Segment(pack_ids(ids[at : at + size])) for at in range(0, len(ids), size))
    request = Generate(
        id="benchmark",
        prefix=pack_ids(prefix),
        segments=segments,
        prompt=pack_ids(prompt),
        sampling=Sampling(max_tokens=arguments.decode, temperature=1.0, seed=1),
    )
    return {
        "context": len(ids),
        "threads": arguments.threads,
        "cpu_time": arguments.cpu_time,
        **_timed(backend, request, len(prompt), arguments.cpu_time),
    }


def _timed(backend: TorchBackend, request: Generate, prompt: int, cpu_time: bool) -> dict[str, object]:
    read_from = read_to = question_to = 0.0
    read, steps, report = 0, [], None
    clock = time.process_time if cpu_time else time.perf_counter
    for now, event in _stamped(backend, request, clock):
        if isinstance(event, Progress) and event.phase == "read":
            read_from, read_to, read = read_from or now, now, event.done
        elif isinstance(event, Progress):
            question_to = now
        elif isinstance(event, Token) or event is None:
            steps.append(now)
        elif isinstance(event, Finished):
            report = event
    assert report is not None
    assert report.attention is not None
    waits = [b - a for a, b in itertools.pairwise(steps[1:])]
    return {
        "read_tokens_per_second": round(read / max(read_to - read_from, 1e-9), 1) if read else None,
        "question_seconds": round(question_to - read_to, 2) if read else None,
        "question_tokens": prompt,
        "decode_tokens_per_second": round(1 / statistics.median(waits), 1),
        "decode_mean_tokens_per_second": round(len(waits) / sum(waits), 1),
        "slowest_step_seconds": round(max(waits), 3),
        "attention": report.attention.kind,
        "attended": report.attention.attended,
        "coverage": round(report.attention.coverage, 3),
    }


def _stamped(backend: TorchBackend, request: Generate, clock: Callable[[], float]) -> Iterator[tuple[float, object]]:
    for event in backend.run(request):
        yield clock(), event


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("text", type=Path)
    parser.add_argument("--tokens", type=int, nargs="+", default=[2048, 8192, 32768])
    parser.add_argument("--segment", type=int, default=2048)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--cpu-time", action="store_true")
    parser.add_argument("--decode", type=int, default=64)
    return parser.parse_args()


if __name__ == "__main__":
    main()
