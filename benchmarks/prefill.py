"""Reading long texts with Llama 3.1 8B in 4 bits on the GPU: tokens a second, and where the time goes.

    python -m benchmarks.prefill --model DIR | --random 8b  [--contexts 8192 32768 131072 1048576] [--piece 32768]
                                 [--dense-below 8192 16384 32768] [--exact 4 8] [--keep 8192] [--sections 131072 ...]
                                 [--seconds 280]

One text of random tokens, read through the whole model as the engine reads it, in pieces. Rows differ in where dense
attention ends (by default the window), in how many neighbouring queries the second stage takes as their mean (the index
takes 16), and, the quickest of them once more, in how many tokens the first stage keeps. The first rows read
sections of 2,048 tokens behind a prefix, as documents are read: none sees another.

Linears: the projections alone, dequantising included. Attention: by events around it, in the run itself. Floor: the
projections' matrix products in float16, by torch.mm at the same shapes; head and attention do not count. A run that
would not end within --seconds is left out, and says so. Writes benchmarks/results/prefill.json. The last table projects
to a card that was not there, and says how.
"""

import argparse
import gc
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import torch
from benchmarks.gpu import card, eager_time, require_gpu, say
from benchmarks.linears import linears
from benchmarks.loaded import add_model, folder_of, loaded
from benchmarks.prefill_run import PREFIX, SECTION, Reading, Text, pool_of, products, read_sections
from benchmarks.report import machine, save

from unabridged.engine.attention.config import AttentionConfig, choose
from unabridged.engine.attention.prefill import AVERAGE
from unabridged.engine.events import AttentionChoice
from unabridged.engine.gpu.pool import GpuPool
from unabridged.models.llama import Llama

BANKS = {"fp8": torch.float8_e4m3fn, "bf16": torch.bfloat16}
# Matrix operations a second of an RTX 4090: float16 or bfloat16, summed in float32.
MATRIX_4090 = 165e12
PROJECTION = """
RTX 4090: PROJECTED, nobody measured it: every part longer by the ratio of the matrix rates, 165 TFLOP/s there."""
# A text takes as long as this many floors at most, by experience: who has less left does not begin.
_FLOORS = 4.0
Row = dict[str, Any]


def main() -> None:
    """Measure, print, save."""
    arguments = _arguments()
    require_gpu("prefill")
    torch.manual_seed(0)
    result: dict[str, Any] = {**machine(), **card(), "bank": arguments.bank, "piece": arguments.piece}
    if arguments.commit:
        result["commit"] = arguments.commit
    model = loaded(folder_of(arguments), arguments, result)
    benchmark = Benchmark(model, arguments, result)
    for row in benchmark.rows():
        result["rows"].append(row)
        result["projected_rtx_4090"] = [_projected(one, benchmark.products.rate) for one in result["rows"]]
        if not arguments.no_save:
            save("prefill", result)
    print(PROJECTION)
    for row in result["rows"]:
        print(_line(_projected(row, benchmark.products.rate)))


@dataclass(frozen=True)
class Way:
    """Of reading: where dense attention ends, the second stage's means, what the first stage keeps."""

    dense_below: int
    exact: int
    keep: int

    def of(self, config: AttentionConfig) -> AttentionConfig:
        """`config`, read this way."""
        layers = tuple(
            replace(layer, stages=(replace(layer.stages[0], keep=self.keep), *layer.stages[1:]))
            for layer in config.layers
        )
        return replace(config, layers=layers, dense_below=self.dense_below)


class Benchmark:
    """All rows, as time allows."""

    def __init__(self, model: Llama, arguments: argparse.Namespace, result: dict[str, Any]) -> None:
        self._arguments, self._model, self._until = arguments, model, time.monotonic() + arguments.seconds
        piece = min(arguments.piece, max(arguments.contexts))
        self._linears, self.products = (
            linears(model, piece, eager_time) / piece,
            products(model.config, piece, model.dtype),
        )
        self._floor = self.products.seconds / piece
        result |= {"rows": [], "products": asdict(self.products) | {"rate": self.products.rate}}
        say(
            f"{piece:,} tokens: products {self.products.seconds:.3f} s ({self.products.rate / 1e12:.0f} TFLOP/s), "
            f"linears {self._linears * piece:.3f} s ({self._floor / self._linears:.0%} of the floor)"
        )
        tokens = max(*arguments.contexts, PREFIX + piece + SECTION)
        self._pool: GpuPool = pool_of(model.config, tokens, BANKS[arguments.bank])
        self._config = choose(AttentionChoice(preset=arguments.preset), model.config.window, indexed=True)

    def rows(self) -> Iterator[Row]:
        """Sections, then texts from short to long: by default, then in other ways; of one longer than the window, in
        the quickest ways of the one before."""
        for tokens in self._arguments.sections:
            yield from self._guarded(self._sections, tokens)
        default = Way(self._config.dense_below, AVERAGE["exact"], self._config.layers[-1].stages[0].keep)
        best = default
        for length in sorted(self._arguments.contexts):
            text = Text(self._model, self._pool, length, min(self._arguments.piece, length))
            found: dict[Way, float] = {}
            for way in dict.fromkeys((default, *self._others(default, best, length))):
                for row in self._guarded(partial(self._text, text, way), length):
                    found[way] = row["seconds"]
                    yield row
            best = min(found, key=lambda one: found[one]) if found else best
            for keep in self._arguments.keep if best.dense_below < length else ():
                yield from self._guarded(partial(self._text, text, replace(best, keep=keep)), length)

    def _others(self, default: "Way", best: "Way", length: int) -> Iterator["Way"]:
        below = [best.dense_below] if length > default.dense_below else self._arguments.dense_below
        for dense_below in below:
            for exact in self._arguments.exact:
                if dense_below < length:
                    yield Way(dense_below, exact, default.keep)

    def _guarded(self, run: Callable[[int], Row], tokens: int) -> Iterator[Row]:
        """The row, unless it would come too late, or fails: that is said, and the others go on."""
        if time.monotonic() + _FLOORS * self._floor * tokens > self._until:
            say(f"{tokens:,} tokens: left out, for lack of time (--seconds)")
            return
        try:
            row = run(tokens)
            say(_line(row))
            yield row
        except (RuntimeError, ValueError) as error:
            say(f"failed: {tokens:,} tokens: {type(error).__name__}: {str(error)[:200]}")
        gc.collect()
        torch.cuda.empty_cache()

    def _text(self, text: Text, way: "Way", length: int) -> Row:
        if length <= way.dense_below:
            return self._row(text.read(self._config, AVERAGE), self._config, "dense", None)
        config = way.of(self._config)
        name = f"dense below {way.dense_below // 1024}K"
        return self._row(text.read(config, AVERAGE | {"exact": way.exact}), config, name, way)

    def _sections(self, tokens: int) -> Row:
        reading = read_sections(self._model, self._pool, self._config, tokens, self._arguments.piece)
        return self._row(reading, self._config, f"sections of {SECTION:,}", None)

    def _row(self, reading: Reading, config: AttentionConfig, name: str, way: "Way | None") -> Row:
        spent, floor = self._linears * reading.tokens, self._floor * reading.tokens
        return {
            "tokens": reading.tokens,
            "attention_of": name,
            "preset": config.name,
            "way": None if way is None else asdict(way),
            "seconds": reading.seconds,
            "tokens_per_second": reading.tokens / reading.seconds,
            "linears": spent,
            "attention": reading.attention,
            "rest": reading.seconds - spent - reading.attention,
            "floor": floor,
            "of_floor": floor / reading.seconds,
        }


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_model(parser)
    parser.add_argument("--contexts", type=int, nargs="+", default=[8192, 32768, 131072, 1048576])
    parser.add_argument("--piece", type=int, default=32768, help="tokens of a forward pass")
    parser.add_argument("--dense-below", type=int, nargs="*", default=[8192, 16384, 32768])
    parser.add_argument("--exact", type=int, nargs="+", default=[4, 8], help="queries that a mean is of")
    parser.add_argument("--keep", type=int, nargs="*", default=[8192], help="tokens that a first stage keeps")
    parser.add_argument("--sections", type=int, nargs="*", default=[131072], help="tokens read as sections")
    parser.add_argument("--preset", default="auto")
    parser.add_argument("--bank", choices=BANKS, default="fp8")
    parser.add_argument("--seconds", type=float, default=280.0, help="for all texts together")
    parser.add_argument("--commit", help="where git cannot tell")
    parser.add_argument("--no-save", action="store_true")
    return parser.parse_args()


def _line(row: Row) -> str:
    way = f"means of {row['way']['exact']}, keeps {row['way']['keep'] // 1024}K" if row["way"] else ""
    return (
        f"{row['tokens']:9,} tokens, {row['attention_of']:17} {way:22} {row['seconds']:7.2f} s, "
        f"{row['tokens_per_second']:8,.0f} tokens/s; linears {row['linears']:6.2f} attention {row['attention']:6.2f} "
        f"rest {row['rest']:5.2f}; floor {row['floor']:6.2f}: {row['of_floor']:4.0%}"
    )


def _projected(row: Row, rate: float) -> Row:
    """The row on an RTX 4090; `rate`: of matrix products here."""
    longer = rate / MATRIX_4090
    scaled = {key: row[key] * longer for key in ("seconds", "linears", "attention", "rest", "floor")}
    return {**row, **scaled, "tokens_per_second": row["tokens_per_second"] / longer}


if __name__ == "__main__":
    main()
