"""PROJECTED, not measured: decode steps, prefill, memory and restart at 3M and 10M tokens, here and on an RTX 4090.

    python -m benchmarks.scale [--contexts 3145728 10485760] [--geometry 8b] [--choice "drift 10%"]

From benchmarks/results/offload.json and prefill.json; needs no GPU. Writes benchmarks/results/scale.json. Each figure
has its rule:

the same card   A step with the pool in host memory: a line through the contexts that were measured. Prefill: pieces of
                the plan's longest; each takes the longer of computing (a time of its own, and one a token that grows
                with the past, fitted to the pieces that were measured on the GPU) and of bringing all that is stored
                over the bus at 51 GB/s, times what the last piece took more than that with the pool in host memory.
RTX 4090        A step: its launches at 2.5 us, then its bytes of GPU memory at 85 % of 1.0 TB/s, then its bytes over
                the bus at 25 GB/s (PCIe 4.0 x16), as if nothing overlapped; bytes as counted, those that grow with the
                context grown. Prefill: as above, with computing by the ratio of the matrix rates (165 TFLOP/s there)
                and this bus.
memory          The memory plan for one answer at a time: what the GPU must have, the host's for keys and values; with
                staging for the whole context, by which prefill is projected, and with little.
restart         Bytes of keys and values at the rate at which they were restored, and at 7 GB/s, which disks on PCIe 4.0
                x4 are sold with.
"""

import argparse
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from benchmarks import checkpoint
from benchmarks.offload_engine import KIND
from benchmarks.report import RESULTS, machine, save

from unabridged.engine.attention.config import AttentionConfig, choose, for_window
from unabridged.engine.attention.limits import PIECE
from unabridged.engine.events import AttentionChoice
from unabridged.engine.plan.kv import Kv
from unabridged.engine.plan.machine import Machine
from unabridged.engine.plan.plan import Subject, Wish
from unabridged.engine.plan.search import Search
from unabridged.models.config import ModelConfig

GIB = 1 << 30
BUS, DISK, MATRIX = 25e9, 7e9, 165e12
# As copies filled the bus of the card that was measured (docs/log.md).
OWN_BUS = 51e9
BANDWIDTH, LAUNCH = 0.85e12, 2.5e-6
Row = dict[str, Any]


def main() -> None:
    """Project, print, save."""
    arguments = _arguments()
    offload, prefill = (json.loads((RESULTS / f"{name}.json").read_text()) for name in ("offload", "prefill"))
    projection = Projection(ModelConfig.from_hf(checkpoint.GEOMETRIES[arguments.geometry]), offload, prefill)
    result: Row = {**machine(), "from": {"commit": offload["commit"], "date": offload["date"], "gpu": offload["gpu"]}}
    result |= {"projected": True, "contexts": [projection.at(tokens) for tokens in arguments.contexts]}
    result["steps"] = [*projection.steps(arguments.contexts, arguments.choice)]
    if not arguments.no_save:
        save("scale", result)
    _print(result)


class Projection:
    """See the module."""

    def __init__(self, model: ModelConfig, offload: Row, prefill: Row) -> None:
        self._model, self._offload = model, offload
        self._slower = prefill["products"]["rate"] / MATRIX
        self._kv = Kv.of(model, KIND, indexed=True)

    def at(self, tokens: int) -> Row:
        """What does not depend on a preset's choices."""
        size = tokens * self._kv.token
        row: Row = {"context": tokens, "kv": size, "plans": {}, "restart": {"disk": size / DISK}}
        for indexed, name in ((True, "index"), (False, "no index")):
            search = self._search(tokens, indexed)
            plans = {name: search.plan("host", tokens, 1, PIECE // 4), f"{name}, little": search.least("host", tokens)}
            for kind, plan in plans.items():
                parts = {part.name: part.bytes for part in plan.parts}
                row["plans"][kind] = {"vram": plan.vram, "parts": parts}
        for one in self._offload["disk"]:
            if one["place"] != "device":
                row["restart"]["measured"] = size / one["restore"]
        engines = {one["place"] == "device": one for one in self._offload["engine"]}
        if len(engines) == 2:
            computing = _Computing.fitted(engines[True]["pieces"])
            last = engines[False]["pieces"][-1]
            more = last["seconds"] / self._piece(computing, last["past"], last["tokens"], 1.0, OWN_BUS)
            cards = (("same_card", 1.0, OWN_BUS), ("rtx_4090", self._slower, BUS))
            row["prefill"] = {
                name: more * sum(self._piece(computing, at, PIECE, slower, bus) for at in range(0, tokens, PIECE))
                for name, slower, bus in cards
            } | {"piece": PIECE, "more": more}
        return row

    def _piece(self, computing: "_Computing", past: int, tokens: int, slower: float, bus: float) -> float:
        return max(slower * computing.seconds(past, tokens), past * self._kv.token / bus)

    def steps(self, contexts: Sequence[int], choice: str) -> Iterator[Row]:
        """Of every preset and refresh that was measured with this choice and the pool in host memory."""
        rows = [row for row in self._offload["decode"] if row["place"] != "device" and row["choice"] == choice]
        for preset, refresh in dict.fromkeys((row["preset"], tuple(row["refresh"])) for row in rows):
            own = [row for row in rows if (row["preset"], tuple(row["refresh"])) == (preset, refresh)]
            config = choose(
                AttentionChoice(preset=preset, overrides={"refresh": "/".join(map(str, refresh))}),
                self._model.window,
                indexed=True,
            )
            for tokens in contexts:
                yield {"context": tokens, "preset": preset, "refresh": list(refresh), "choice": choice} | self._step(
                    own, config, tokens
                )

    def _step(self, rows: Sequence[Row], config: AttentionConfig, tokens: int) -> Row:
        last = max(rows, key=lambda row: int(row["context"]))
        # What grows with the context: codes of the index in GPU memory, keys that a first stage reads over the bus.
        more, growth = tokens - last["context"], tokens / last["context"]
        codes = sum(
            self._kv.layer_codes / config.intervals(len(config.layer(layer).stages))[0]
            for layer in range(self._model.layers)
            if config.layer(layer).stages[0].scorer == "index"
        )
        scored = last["bus"]["scored"]
        # What a first stage reads over the bus is among the floor's bytes.
        local = sum(last["floor"].values()) - scored + more * codes
        bus = last["bus"]["total"] + scored * (growth - 1)
        there = last["kernels"] * LAUNCH + local / BANDWIDTH + bus / BUS
        row: Row = {"local_bytes": local, "bus_bytes": bus, "launches": last["kernels"], "measured": last["context"]}
        if last["kernels"]:
            row |= {"rtx_4090": there, "rtx_4090_bus": bus / BUS}
        if len(rows) > 1:
            x, y = [row["context"] for row in rows], [row["gpu"]["mean"] for row in rows]
            slope, base = np.polyfit(x, y, 1)
            row["same_card"] = float(base + slope * tokens)
        return row

    def _search(self, tokens: int, indexed: bool) -> Search:
        model = self._model
        own = for_window(model.window, indexed)
        subject = Subject("", model, self._offload["load"]["device"], 2, own, KIND, indexed)
        unlimited = Machine(1 << 60, 1 << 60, 0)
        return Search(subject, unlimited, Wish("host", context=tokens, slots=1))


@dataclass(frozen=True)
class _Computing:
    """Of a piece: seconds, seconds a token, and those a token for each token before it."""

    piece: float
    token: float
    pair: float

    @classmethod
    def fitted(cls, pieces: Sequence[Row]) -> "_Computing":
        """To pieces, the first left out: its queries attend to everything."""
        x = [[1, one["tokens"], one["tokens"] * one["past"]] for one in pieces[1:]]
        found, *_ = np.linalg.lstsq(np.array(x, dtype=float), np.array([one["seconds"] for one in pieces[1:]]))
        return cls(*map(float, found))

    def seconds(self, past: int, tokens: int) -> float:
        """Of a piece of so many tokens."""
        return self.piece + tokens * (self.token + self.pair * past)


def _print(result: Row) -> None:
    print(f"PROJECTED from {result['from']['gpu']}, {result['from']['date']}: nobody measured what follows.")
    for row in result["contexts"]:
        plans = ", ".join(f"{name} {plan['vram'] / GIB:.1f} GiB" for name, plan in row["plans"].items())
        restart = ", ".join(f"{name} {seconds:.0f} s" for name, seconds in row["restart"].items())
        print(
            f"{row['context']:,} tokens: {row['kv'] / GIB:.0f} GiB of KV; GPU memory with {plans}; restart: {restart}"
        )
        if one := row.get("prefill"):
            print(f"  prefill: same card {one['same_card']:.0f} s, RTX 4090 {one['rtx_4090']:.0f} s")
    for row in result["steps"]:
        cards = [f"{name} {row[key] * 1e3:.2f} ms" for name, key in _CARDS if key in row]
        refresh = "/".join(map(str, row["refresh"]))
        print(
            f"{row['context']:10,} {row['preset']:9} {refresh:9} {row['choice']}: {', '.join(cards)}; "
            f"{row['bus_bytes'] / 1e6:.1f} MB over the bus, {row['local_bytes'] / 1e9:.2f} GB of GPU memory a step"
        )


_CARDS = (("same card", "same_card"), ("RTX 4090", "rtx_4090"), ("of which bus", "rtx_4090_bus"))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--contexts", type=int, nargs="+", default=[3145728, 10485760])
    parser.add_argument("--geometry", choices=checkpoint.GEOMETRIES, default="8b")
    parser.add_argument("--choice", default="drift 10%")
    parser.add_argument("--no-save", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    main()
