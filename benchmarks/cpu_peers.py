"""llama.cpp on the same model and context lengths as `benchmarks/cpu.py`: prefill and decode speed on this CPU.

    python benchmarks/cpu_peers.py MODEL_DIR TEXT [--tokens 2048 6144] [--threads N] [--decode 64] [--cpu-time]

Prints one JSON line a context length with the keys of `benchmarks/cpu.py` that apply. `--cpu-time` counts the seconds
that the process computed instead of those that passed: with one thread that is the speed of an idle machine, measured
on a busy one. Needs the extra `llama-cpp`.
"""

import argparse
import json
import statistics
import time
from array import array
from collections.abc import Callable
from pathlib import Path

from unabridged.engine.llamacpp import Sequence
from unabridged.engine.options import EngineOptions
from unabridged.models.folder import ModelFolder
from unabridged.models.tokenizer import Tokenizer


def main() -> None:
    """Measure and print."""
    arguments = _arguments()
    options = EngineOptions(threads=arguments.threads, prefill_chunk=arguments.chunk)
    text = arguments.text.read_text(encoding="utf-8", errors="replace")[: 8 * max(arguments.tokens)]
    ids = array("i", Tokenizer.load(arguments.model).encode(text))
    file = ModelFolder.inspect(arguments.model).weights[0]
    sequence = Sequence(file, max(arguments.tokens) + arguments.decode, options)
    sequence.extend(ids[:1])
    for tokens in arguments.tokens:
        print(json.dumps(_measure(sequence, ids[:tokens], arguments)), flush=True)
    sequence.close()


def _measure(sequence: Sequence, ids: "array[int]", arguments: argparse.Namespace) -> dict[str, object]:
    clock = time.process_time if arguments.cpu_time else time.perf_counter
    sequence.keep(array("i"))
    began = clock()
    for at in range(0, len(ids), arguments.chunk):
        sequence.extend(ids[at : at + arguments.chunk])
    read = clock() - began
    steps = [_step(sequence, clock) for _ in range(arguments.decode)]
    return {
        "engine": "llama-cpp",
        "context": len(ids),
        "threads": arguments.threads,
        "cpu_time": arguments.cpu_time,
        "read_tokens_per_second": round(len(ids) / read, 1),
        "decode_tokens_per_second": round(1 / statistics.median(steps), 1),
        "slowest_step_seconds": round(max(steps), 3),
    }


def _step(sequence: Sequence, clock: Callable[[], float]) -> float:
    """Seconds of one decode step, with the choice of the likeliest token."""
    began = clock()
    sequence.extend(array("i", [int(sequence.logits().argmax())]))
    return clock() - began


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("text", type=Path)
    parser.add_argument("--tokens", type=int, nargs="+", default=[2048, 6144])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--decode", type=int, default=64)
    parser.add_argument("--chunk", type=int, default=512)
    parser.add_argument("--cpu-time", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    main()
