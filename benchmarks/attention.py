"""Sparse attention on the GPU beside dense attention: Llama 3.1 8B's geometry, one run, one table.

    python -m benchmarks.attention [--contexts 131072 1048576 3145728] [--bank fp8|bf16] [--only dense decode ...]

Rows are microseconds (decode) or milliseconds (prefill of 32K queries) a layer. Decode rows are CUDA graphs of all 32
layers; four layers have data of their own, each used by eight of the 32 (fewer when memory is short). "x" is the best
dense time of the same run divided by ours. Writes benchmarks/results/attention.json. The last table projects to a card
that was not there, and says how.
"""

import argparse
import gc
from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any

import torch
from benchmarks.attention_data import LAYERS, WINDOW, D, G, cache
from benchmarks.attention_decode import Decoding
from benchmarks.attention_dense import Dense, own_decode
from benchmarks.attention_prefill import QUERIES, Prefilling
from benchmarks.gpu import card, copy_bandwidth, matrix_rate, require_gpu, say
from benchmarks.report import machine, save

from unabridged.engine.attention.config import AttentionConfig, choose
from unabridged.engine.attention.stages import LayerCache
from unabridged.engine.events import AttentionChoice

GROUPS = ("dense", "decode", "paper", "prefill", "paper-prefill")
REFRESHES = ("paper", "fast", "flash")
BANKS = {"fp8": torch.float8_e4m3fn, "bf16": torch.bfloat16}
# Of an RTX 4090: bytes and bfloat16 operations a second, seconds a launch; and a launch's seconds on the H200.
BANDWIDTH_4090, MATRIX_4090, LAUNCH_4090, LAUNCH_HERE = 1.0e12, 165e12, 2.5e-6, 2.3e-6
_REACHED = 0.85
PROJECTION = """
RTX 4090: PROJECTED, nobody measured it. Decode, us a layer: 2.5 us a launch, and the longer of the bytes at 85 % of
1.0 TB/s and what the part took here beyond its launches (2.3 us each), as if arithmetic were as fast there. Prefill,
ms a layer: the time here, longer by the ratio of bf16 matrix rates (165 TFLOP/s there)."""
Row = dict[str, Any]


def main() -> None:
    """Measure, print, save."""
    arguments = _arguments()
    require_gpu("attention")
    torch.manual_seed(0)
    result: dict[str, Any] = {**machine(), **card(), "bank": arguments.bank, "layers": LAYERS}
    if arguments.commit:
        result["commit"] = arguments.commit
    result["copy_bandwidth"], result["matrix_rate"] = copy_bandwidth(), matrix_rate()
    say(
        f"{result['gpu']}: copy {result['copy_bandwidth'] / 1e12:.2f} TB/s, "
        f"bf16 {result['matrix_rate'] / 1e12:.0f} TFLOP/s"
    )
    rows: list[Row] = []
    for length in arguments.contexts:
        Context(length, arguments, result, rows).measure()
        result |= {"rows": rows, "projected_rtx_4090": _projected(rows, result["matrix_rate"])}
        if not arguments.no_save:
            save("attention", result)
    _print_projected(result["projected_rtx_4090"])


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--contexts", type=int, nargs="+", default=[131072, 1048576, 3145728])
    parser.add_argument("--bank", choices=BANKS, default="fp8")
    parser.add_argument("--only", choices=GROUPS, nargs="+", default=GROUPS)
    parser.add_argument("--average", type=int, nargs=2, metavar=("INDEX", "EXACT"), help="queries that a mean is of")
    parser.add_argument("--commit", help="where git cannot tell")
    parser.add_argument("--no-save", action="store_true")
    return parser.parse_args()


class Context:
    """All rows of one context length."""

    def __init__(self, length: int, arguments: argparse.Namespace, result: dict[str, Any], rows: list[Row]) -> None:
        self.length, self.only, self.rows = length, arguments.only, rows
        self.dtype = BANKS[arguments.bank]
        self.bandwidth, self.matrix = result["copy_bandwidth"], result["matrix_rate"]
        self.average = dict(zip(("index", "exact"), arguments.average, strict=True)) if arguments.average else {}
        self.best: dict[str, float] = {}

    def measure(self) -> None:
        """Group by group; a group that fails is reported and the others go on."""
        say(f"context {self.length}")
        if "dense" in self.only:
            self._guarded(self._dense)
        if set(self.only) == {"dense"}:
            return
        caches = [cache(self.length, self.dtype, seed) for seed in range(self._layers())]
        torch.cuda.synchronize()
        say(f"{len(caches)} layers of data")
        groups: dict[str, Callable[[list[LayerCache]], None]] = {
            "dense": self._own_dense,
            "decode": lambda layers: self._decode(layers, "3k-index"),
            "paper": lambda layers: self._decode(layers, "3k"),
            "prefill": lambda layers: self._prefill(layers, "3k-index"),
            "paper-prefill": lambda layers: self._prefill(layers, "3k"),
        }
        for name, run in groups.items():
            if name in self.only:
                self._guarded(run, caches)

    def _layers(self) -> int:
        free, _ = torch.cuda.mem_get_info()
        own = 2 * self.length * G * D * self.dtype.itemsize * 1.1
        return max(1, min(4, int((free - (12 << 30)) / own)))

    def _guarded(self, run: Callable[..., None], *given: Any) -> None:
        try:
            run(*given)
        except Exception as error:
            say(f"failed: {type(error).__name__}: {str(error).splitlines()[0][:200] if str(error) else ''}")
        gc.collect()
        torch.cuda.empty_cache()

    def _dense(self) -> None:
        dense = Dense(self.length)
        for name, seconds in dense.decode():
            self._row("decode", f"dense, {name}", seconds, moved=4 * self.length * G * D)
            self.best["decode"] = min(seconds, self.best.get("decode", seconds))
        if {"prefill", "paper-prefill"} & set(self.only):
            for name, seconds in dense.prefill(QUERIES):
                self._row("prefill", f"dense, {name}", seconds)
                self.best["prefill"] = min(seconds, self.best.get("prefill", seconds))

    def _own_dense(self, caches: list[LayerCache]) -> None:
        moved = 2 * self.length * G * D * self.dtype.itemsize
        self._row("decode", "dense, own split-KV on the same bank", own_decode(caches[0], self.length), moved=moved)

    def _config(self, preset: str) -> AttentionConfig:
        return replace(choose(AttentionChoice(preset=preset), WINDOW, indexed=True), dense_below=0)

    def _decode(self, caches: list[LayerCache], preset: str) -> None:
        decoding = Decoding(self._config(preset), caches, self.length)
        for part in decoding.parts():
            self._row("decode", f"{preset}: {part.name}", part.seconds, moved=part.moved, launches=part.launches)
        self._row("decode", f"{preset}: every step all stages", decoding.every())
        for refresh in REFRESHES:
            period = decoding.period(refresh)
            steps = {name: value * 1e6 for name, value in asdict(period).items()}
            self._row("decode", f"{preset}: amortised {refresh}", period.mean / LAYERS, steps=steps)

    def _prefill(self, caches: list[LayerCache], preset: str) -> None:
        prefilling = Prefilling(self._config(preset), caches, self.length, self.average)
        self._row("prefill", f"{preset}: 32K queries", prefilling.whole())
        for part in prefilling.parts():
            extra = {"of_matrix": prefilling.useful() / part.seconds / self.matrix} if part.name == "attention" else {}
            self._row("prefill", f"{preset}: {part.name}", part.seconds, launches=part.launches, **extra)

    def _row(self, kind: str, name: str, seconds: float, moved: int = 0, **more: Any) -> None:
        row: Row = {"context": self.length, "kind": kind, "row": name, "seconds": seconds, **more}
        unit, scale = ("us", 1e6) if kind == "decode" else ("ms", 1e3)
        text = f"{self.length // 1024:5}K {kind:7} {name:42} {seconds * scale:9.2f} {unit}"
        if moved:
            row |= {"bytes": moved, "of_copy": moved / seconds / self.bandwidth}
            text += f"  {moved / 1e6:9.2f} MB {row['of_copy']:5.0%} of copy"
        if kind in self.best and not name.startswith("dense"):
            row["dense_over_ours"] = self.best[kind] / seconds
            text += f"  {row['dense_over_ours']:7.1f}x"
        if "of_matrix" in row:
            text += f"  {row['of_matrix']:4.0%} of the matrix rate"
        if steps := more.get("steps"):
            text += "  step: " + ", ".join(f"{key} {value:.0f}" for key, value in steps.items())
            text += f", longest/median {steps['longest'] / steps['median']:.2f}"
        self.rows.append(row)
        say(text)


def _projected(rows: list[Row], matrix: float) -> list[Row]:
    """What parts would take on an RTX 4090, in seconds; `matrix`: the rate measured here."""
    out = []
    for row in rows:
        launches = row.get("launches")
        if launches is None:
            continue
        if row["kind"] == "decode":
            computed = row["seconds"] - launches * LAUNCH_HERE
            moved = row.get("bytes", 0) / (_REACHED * BANDWIDTH_4090)
            seconds = launches * LAUNCH_4090 + max(computed, moved)
        else:
            seconds = row["seconds"] * matrix / MATRIX_4090
        out.append({"context": row["context"], "kind": row["kind"], "row": row["row"], "seconds": seconds})
    return out


def _print_projected(rows: list[Row]) -> None:
    print(PROJECTION)
    for row in rows:
        unit, scale = ("us", 1e6) if row["kind"] == "decode" else ("ms", 1e3)
        print(f"{row['context'] // 1024:5}K {row['kind']:7} {row['row']:42} {row['seconds'] * scale:9.2f} {unit}")


if __name__ == "__main__":
    main()
