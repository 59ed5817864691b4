"""Speed of the torch engine on this CPU beside llama.cpp: the same GGUF, the same text, one run.

    python -m benchmarks.cpu MODEL_DIR TEXT [--dense 2048 6144] [--sparse 16384 32768] [--threads 1 2] [--decode 128]

TEXT is any long plain text, as it is or in .xz. A dense row reads that many tokens as one prompt, in both engines
(llama.cpp when the extra `llama-cpp` is installed); a sparse row reads segments past the model's window, which
llama.cpp cannot compare with. Prints a table and writes benchmarks/results/cpu.json. Ratios are ours to llama.cpp's
speed: above 1 ours is faster.
`--cpu-time` counts the seconds that the process computed instead of those that passed: with one thread that is the
speed of an idle machine, measured on a busy one.
"""

import argparse
import itertools
import lzma
import os
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from benchmarks.report import machine, save

from unabridged.engine.backend import Backend
from unabridged.engine.events import AttentionChoice, Finished, Generate, Progress, Sampling, Segment, pack_ids
from unabridged.engine.options import THREAD_ENVIRONMENT, EngineOptions
from unabridged.models.tokenizer import Tokenizer

QUESTION = "Summarise the documents above in three sentences."
SEGMENT = 2048
Row = dict[str, Any]


def main() -> None:
    """Measure, print and save."""
    arguments = _arguments()
    os.environ.update(THREAD_ENVIRONMENT | os.environ)  # as the server starts its engine
    wanted = sum(arguments.dense) + max(arguments.sparse, default=0)
    text = _text(arguments.text)[: 8 * wanted]
    rows: list[Row] = []
    print(_line(dict.fromkeys(_COLUMNS, "")), flush=True)
    for threads in arguments.threads:
        for row in _rows(arguments, text, threads):
            rows.append(row)
            print(_line(row), flush=True)
    if not arguments.no_save:
        print(save("cpu", {**machine(), "model": arguments.model.name, "clock": _clock_name(arguments), "rows": rows}))


def _text(path: Path) -> str:
    raw = path.read_bytes()
    return (lzma.decompress(raw) if path.suffix == ".xz" else raw).decode("utf-8", "replace")


def _rows(arguments: argparse.Namespace, text: str, threads: int) -> Iterator[Row]:
    tokenizer = Tokenizer.load(arguments.model)
    ids = tokenizer.encode(text)
    clock = time.process_time if arguments.cpu_time else time.perf_counter
    sampling = Sampling(max_tokens=arguments.decode, temperature=1.0, seed=1)
    engines = _engines(arguments, threads)
    for request, length in _requests(tokenizer, ids, arguments, sampling):
        found = {
            name: _timed(engine, request, clock)
            for name, engine in engines.items()
            if name == "torch" or not request.segments
        }
        peer = found.get("llama-cpp")
        for name, row in found.items():
            ratios = _ratios(row, peer) if peer and name == "torch" else {}
            yield {"engine": name, "threads": threads, "length": length, **row, **ratios}
    for engine in engines.values():
        engine.close()


def _engines(arguments: argparse.Namespace, threads: int) -> dict[str, Backend]:
    from unabridged.engine.generate import TorchBackend

    options = EngineOptions(threads=threads, kv_bytes=2 << 30, segment_tokens=SEGMENT)
    engines: dict[str, Backend] = {"torch": TorchBackend(arguments.model, options)}
    if find_spec("llama_cpp") is not None:
        from unabridged.engine.llamacpp import LlamaCppBackend

        engines["llama-cpp"] = LlamaCppBackend(arguments.model, options)
    return engines


def _requests(
    tokenizer: Tokenizer, ids: list[int], arguments: argparse.Namespace, sampling: Sampling
) -> Iterator[tuple[Generate, int]]:
    """The requests and their lengths. Each dense one has a text of its own: none may begin with another's KV."""
    at = 0
    for length in arguments.dense:
        prompt = pack_ids(ids[at : at + length])
        yield Generate(id="benchmark", prefix=b"", segments=(), prompt=prompt, sampling=sampling), length
        at += length
    marker = "\x00documents\x00"
    turns = [("system", f"Answer from these documents.\n{marker}"), ("user", QUESTION)]
    prefix, prompt_ids = tokenizer.chat_around(turns, marker)
    for length in sorted(arguments.sparse):
        pieces = tuple(Segment(pack_ids(ids[a : a + SEGMENT])) for a in range(0, min(length, len(ids)), SEGMENT))
        yield (
            Generate(
                id="benchmark",
                prefix=pack_ids(prefix),
                segments=pieces,
                prompt=pack_ids(prompt_ids),
                sampling=sampling,
                attention=AttentionChoice(),
            ),
            length,
        )


def _timed(engine: Backend, request: Generate, clock: Callable[[], float]) -> Row:
    """Reading ends with the first token; a step lies between two tokens. What was read before is not counted."""
    began = clock()
    stamps: list[float] = []
    finished: Finished | None = None
    for event in engine.run(request):
        if isinstance(event, Finished):
            finished = event
        elif not isinstance(event, Progress):
            stamps.append(clock())
    assert finished is not None
    usage, attention = finished.usage, finished.attention
    # The last event may hold text that was kept back and no step of its own.
    steps = sorted(b - a for a, b in itertools.pairwise(stamps[: usage.completion]))
    return {
        "attention": attention.kind if attention else "dense",
        "attended": attention.attended if attention else usage.prompt,
        "read_tokens": usage.prompt - usage.cached,
        "read_tokens_per_second": round((usage.prompt - usage.cached) / (stamps[0] - began), 1),
        "decode_tokens_per_second": round(len(steps) / sum(steps), 1),
        "step_p50_ms": round(1e3 * _rank(steps, 0.5), 1),
        "step_p99_ms": round(1e3 * _rank(steps, 0.99), 1),
        "step_slowest_ms": round(1e3 * steps[-1], 1),
    }


def _rank(ascending: list[float], share: float) -> float:
    return ascending[min(len(ascending) - 1, int(share * len(ascending)))]


def _ratios(ours: Row, theirs: Row) -> Row:
    keys = {"read_ratio": "read_tokens_per_second", "decode_ratio": "decode_tokens_per_second"}
    return {name: round(ours[key] / theirs[key], 2) for name, key in keys.items()}


_COLUMNS = {
    "engine": 10,
    "threads": 7,
    "length": 7,
    "attention": 9,
    "read_tokens_per_second": 22,
    "decode_tokens_per_second": 24,
    "step_p50_ms": 11,
    "step_p99_ms": 11,
    "step_slowest_ms": 15,
    "read_ratio": 10,
    "decode_ratio": 12,
}


def _line(row: Row) -> str:
    """A row of the table; the heading for a row without an engine."""
    return " ".join(
        str(row.get(name, "") if row.get("engine") else name).rjust(width) for name, width in _COLUMNS.items()
    )


def _clock_name(arguments: argparse.Namespace) -> str:
    return "process" if arguments.cpu_time else "wall"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("text", type=Path)
    parser.add_argument("--dense", type=int, nargs="*", default=[2048, 6144])
    parser.add_argument("--sparse", type=int, nargs="*", default=[16384, 32768])
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--decode", type=int, default=128)
    parser.add_argument("--cpu-time", action="store_true")
    parser.add_argument("--no-save", action="store_true", help="print only")
    return parser.parse_args()


if __name__ == "__main__":
    main()
