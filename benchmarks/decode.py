"""Decode steps of Llama 3.1 8B in 4 bits on the GPU: tokens a second by context, preset and number of conversations.

    python -m benchmarks.decode --model DIR | --random 8b  [--contexts 4096 131072 1048576] [--presets 3k-index 3k 5k]
                                [--refresh paper fast flash] [--rows 1 8] [--only steps parts peers]

Of the refreshes the first runs with all numbers of rows and is split into parts, the others run with the first number.

Keys and values are random, and lie in GPU memory. A context inside the model's window is attended whole, whatever the
preset. Steps run as the engine runs them: CUDA graphs with sampling inside, one launched ahead of the collected one.
The floor is what a step must read over the measured copy bandwidth; several rows share the weights alone, though here
they share a context's keys and values too. Writes benchmarks/results/decode.json. The last table projects to a card
that was not there, and says how.
"""

import argparse
import gc
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import torch
from benchmarks.decode_context import Context
from benchmarks.decode_floor import Floor, floor
from benchmarks.decode_peers import Peer, peers
from benchmarks.decode_run import Pace, Parts, pace, parts
from benchmarks.gpu import card, copy_bandwidth, require_gpu, say
from benchmarks.loaded import add_model, folder_of, loaded
from benchmarks.report import machine, save

from unabridged.engine.attention.config import REFRESH, AttentionConfig, choose
from unabridged.engine.events import AttentionChoice
from unabridged.models.errors import UnabridgedError
from unabridged.models.llama import Llama
from unabridged.models.weights import open_checkpoint

BANKS = {"fp8": torch.float8_e4m3fn, "bf16": torch.bfloat16}
# Of an RTX 4090: bytes a second, the share of them that is reached, seconds a launch.
BANDWIDTH_4090, REACHED, LAUNCH_4090 = 1.0e12, 0.85, 2.5e-6
PROJECTION = """
RTX 4090: PROJECTED, nobody measured it: a step's launches at 2.5 us, and then its bytes at 85 % of 1.0 TB/s, as if
nothing overlapped. Published for that card: TinyChat (AWQ int4, Llama 3 8B, short context) 156 tokens/s; InfiniteHiP
(AWQ int4, FP8 KV, Llama 3.1 8B, 1M tokens, 3K attended) 97 tokens/s, its authors' estimate without offloading."""
Row = dict[str, Any]


def main() -> None:
    """Measure, print, save."""
    arguments = _arguments()
    require_gpu("decode")
    torch.manual_seed(0)
    result: dict[str, Any] = {**machine(), **card(), "bank": arguments.bank, "steps": arguments.steps}
    if arguments.commit:
        result["commit"] = arguments.commit
    folder = folder_of(arguments)
    shape, _ = open_checkpoint(folder)
    rows: list[Row] = []
    result |= {"rows": rows, "peers": [], "copy_bandwidth": copy_bandwidth()}
    say(f"{result['gpu']}: copy {result['copy_bandwidth'] / 1e12:.2f} TB/s")
    if "peers" in arguments.only:
        for peer in peers(shape, [length for length in arguments.contexts if length <= shape.window]):
            result["peers"].append(asdict(peer))
            say(_peer(peer))
    if {"steps", "parts"} & set(arguments.only):
        model = loaded(folder, arguments, result)
        for length in arguments.contexts:
            for row in _context(model, length, arguments, result["copy_bandwidth"]):
                rows.append(row)
                result["projected_rtx_4090"] = _projected(rows)
                _save(result, arguments)
            gc.collect()
            torch.cuda.empty_cache()
    _save(result, arguments)
    _print_projected(_projected(rows))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_model(parser)
    parser.add_argument("--contexts", type=int, nargs="+", default=[4096, 131072, 1048576])
    parser.add_argument("--presets", nargs="+", default=["3k-index", "3k", "5k"])
    parser.add_argument("--refresh", nargs="+", default=["paper", "fast", "flash"])
    parser.add_argument("--rows", type=int, nargs="+", default=[1, 8])
    parser.add_argument("--bank", choices=BANKS, default="fp8")
    parser.add_argument("--steps", type=int, default=256)
    parser.add_argument("--only", choices=("steps", "parts", "peers"), nargs="+", default=["steps", "parts", "peers"])
    parser.add_argument("--commit", help="where git cannot tell")
    parser.add_argument("--no-save", action="store_true")
    return parser.parse_args()


def _context(model: Llama, length: int, arguments: argparse.Namespace, bandwidth: float) -> Iterator[Row]:
    """All rows of one context. What fails is reported, and the others go on."""
    try:
        context = Context(model.config, length, max(arguments.rows), BANKS[arguments.bank])
    except (RuntimeError, UnabridgedError) as error:
        say(f"failed: context {length:,}: {error}")
        return
    say(f"context {length:,}: {context.pool.slots:,} tokens of keys and values")
    for config in _configs(model, length, arguments):
        first = config.refresh == REFRESH[arguments.refresh[0]]
        for rows in arguments.rows if first else arguments.rows[:1]:
            try:
                split = first and "parts" in arguments.only
                yield _row(model, config, context, rows, split, arguments.steps, bandwidth)
            except (RuntimeError, ValueError) as error:
                say(f"failed: {config.name} {rows} rows: {type(error).__name__}: {str(error)[:200]}")
            gc.collect()
            torch.cuda.empty_cache()


def _configs(model: Llama, length: int, arguments: argparse.Namespace) -> list[AttentionConfig]:
    """One for each preset and refresh; one in all inside the window."""
    window = model.config.window
    choices = [
        AttentionChoice(preset=preset, refresh=refresh) for preset in arguments.presets for refresh in arguments.refresh
    ]
    configs = [choose(choice, window, indexed=True) for choice in choices]
    return configs if length >= configs[0].dense_below else configs[:1]


def _row(
    model: Llama,
    config: AttentionConfig,
    context: Context,
    rows: int,
    split: bool,
    steps: int,
    bandwidth: float,
) -> Row:
    dense = context.length < config.dense_below
    found = pace(model, config, context, rows, steps)
    least = floor(model, config, context.pool, context.length, rows)
    row: Row = {
        "context": context.length,
        "preset": "dense" if dense else config.name,
        "refresh": [] if dense else list(config.refresh),
        "rows": rows,
        "tokens_per_second": rows / found.wall_mean,
        "pace": asdict(found),
        "floor": asdict(least) | {"total": least.total},
        "of_floor": least.total / bandwidth / found.mean,
    }
    say(_line(row, found, least, bandwidth))
    if split:
        alone = parts(model, config, context, rows)
        row["parts"] = asdict(alone) | {"rest": found.mean - alone.linears - alone.attention - alone.head}
        say(_split(alone, found, least, bandwidth))
    return row


def _line(row: Row, found: Pace, least: Floor, bandwidth: float) -> str:
    refresh = "/".join(map(str, row["refresh"]))
    return (
        f"{row['context'] // 1024:5}K {row['preset']:9} {refresh:9} x{row['rows']}: "
        f"{row['tokens_per_second']:7.1f} tokens/s, step {found.mean * 1e3:.3f} ms "
        f"(p50 {found.p50 * 1e3:.3f}, p99 {found.p99 * 1e3:.3f}; wall p50 {found.wall_p50 * 1e3:.3f}, "
        f"p99 {found.wall_p99 * 1e3:.3f}), floor {least.total / bandwidth * 1e3:.3f} ms of {least.total / 1e9:.2f} GB: "
        f"{row['of_floor']:.0%}; {found.kernels:.0f} kernels; {found.captured.graphs} graphs in "
        f"{found.captured.seconds:.1f} s ({found.captured.compiling:.1f} s of steps before), "
        f"{found.captured.bytes / 1e6:.0f} MB"
    )


def _split(split: Parts, found: Pace, least: Floor, bandwidth: float) -> str:
    rest = found.mean - split.linears - split.attention - split.head
    return (
        f"       linears {split.linears * 1e3:.3f} ms ({least.linears / bandwidth / split.linears:.0%} of copy), "
        f"attention {split.attention * 1e3:.3f} ms ({(least.attended + least.scored) / bandwidth / split.attention:.0%}"
        f"), head and sampling {split.head * 1e3:.3f} ms ({least.head / bandwidth / split.head:.0%}), "
        f"rest {rest * 1e3:.3f} ms"
    )


def _peer(peer: Peer) -> str:
    return f"{peer.name}, {peer.what}: " + (f"{peer.seconds * 1e3:.3f} ms" if peer.seconds else f"not run: {peer.why}")


def _projected(rows: list[Row]) -> list[Row]:
    """What steps would take on an RTX 4090, where their launches could be counted."""
    out = []
    for row in (row for row in rows if row["pace"]["kernels"]):
        bare = row["floor"]["total"] / (REACHED * BANDWIDTH_4090)
        seconds = row["pace"]["kernels"] * LAUNCH_4090 + bare
        kept = {key: row[key] for key in ("context", "preset", "refresh", "rows")}
        floor_4090 = row["floor"]["total"] / BANDWIDTH_4090
        projected = {"seconds": seconds, "tokens_per_second": row["rows"] / seconds, "of_floor": floor_4090 / seconds}
        out.append(kept | projected)
    return out


def _print_projected(rows: list[Row]) -> None:
    print(PROJECTION)
    for row in rows:
        refresh = "/".join(map(str, row["refresh"]))
        print(
            f"{row['context'] // 1024:5}K {row['preset']:9} {refresh:9} x{row['rows']}: {row['seconds'] * 1e3:7.3f} "
            f"ms, {row['tokens_per_second']:7.1f} tokens/s, {row['of_floor']:.0%} of the floor"
        )


def _save(result: dict[str, Any], arguments: argparse.Namespace) -> None:
    if not arguments.no_save:
        save("decode", result)


if __name__ == "__main__":
    main()
