"""The memory plan of a model with the settings in force, as the engine would make it here or on a machine that is
described. Torch-free: nothing is loaded."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unabridged.app import gpu_found
from unabridged.engine.attention.support import gpu_refusal
from unabridged.engine.errors import EngineUnavailable
from unabridged.engine.gpu.chosen import own, reads_index
from unabridged.engine.plan.divide import divide
from unabridged.engine.plan.machine import Machine
from unabridged.engine.plan.plan import Plan, Subject, Wish
from unabridged.engine.plan.speeds import Speed, speeds
from unabridged.engine.plan.weights import weights_of
from unabridged.engine.plan.words import disk_line, plan_lines, speed_lines
from unabridged.models.errors import ModelUnsupported
from unabridged.models.manifest import CALIBRATION

if TYPE_CHECKING:
    from unabridged.app.gpu_found import Card
    from unabridged.engine.options import EngineOptions


@dataclass(frozen=True)
class Planned:
    """A plan and what it is of."""

    subject: Subject
    machine: Machine
    plan: Plan

    @property
    def speeds(self) -> list[Speed]:
        """What to expect of it."""
        return speeds(self.plan, self.subject, self.machine.card)

    def lines(self) -> list[str]:
        """All of it, for people."""
        return [
            *plan_lines(self.plan),
            disk_line(self.plan, self.machine.disk),
            *speed_lines(self.speeds, self.plan.tokens),
        ]

    def json(self) -> dict[str, Any]:
        """All of it, for programs. Sizes in bytes."""
        plan, machine = self.plan, self.machine
        return {
            "model": self.subject.name,
            "place": plan.place,
            "tokens": plan.tokens,
            "kv": plan.kv.kind,
            "slots": plan.slots,
            "dense_below": plan.attention.dense_below,
            "attention": plan.attention.name,
            "piece": plan.longest,
            "gpu": {part.name: part.bytes for part in plan.parts},
            "gpu_total": plan.vram,
            "gpu_may_take": machine.vram,
            "host": plan.ram,
            "host_may_take": machine.ram,
            "disk": plan.pool,
            "disk_may_take": machine.disk,
            "speeds": [
                {
                    "card": one.card,
                    "decoding_tokens_per_second": round(one.decoding, 1),
                    "reading_tokens_per_second": round(one.reading, 1),
                    "bus_bytes_per_token": one.fetched,
                }
                for one in self.speeds
            ],
        }


def plan(
    path: Path, name: str, options: "EngineOptions", ram: int | None = None, indexed: bool | None = None
) -> Planned:
    """Of the model at `path`: a folder, a .gguf file, or a config.json without its weights. `options`: what the engine
    would be started with; without vram_bytes the card that is here counts. `ram`: instead of what is free here;
    `indexed`: instead of whether the model's folder has a calibration.

    Raises EngineUnavailable where there is no card and nothing is said of one, OutOfMemory with what would fit,
    ModelError.
    """
    card = None if options.vram_bytes and ram is not None else gpu_found.found()
    machine = Machine.of(_vram(options, card), options.store_dir, options.store_bytes, card.name if card else "", ram)
    subject = _subject(path, name, options, card, indexed)
    return Planned(subject, machine, divide(subject, machine, Wish.of(options)))


def _vram(options: "EngineOptions", card: "Card | None") -> int:
    if card is None and not options.vram_bytes:
        raise EngineUnavailable("there is no NVIDIA card here to plan for", "describe one: --vram 24GiB")
    return min(limit for limit in (options.vram_bytes, card.free if card else 0) if limit)


def _subject(path: Path, name: str, options: "EngineOptions", card: "Card | None", indexed: bool | None) -> Subject:
    weights, eight = weights_of(path, options.head_bits), card is None or card.eight
    if why := gpu_refusal(weights.config):
        raise ModelUnsupported(why, "the CPU has no plan: it takes memory as it needs it")
    kind = options.kv_dtype
    if kind == "auto":
        kind = "float8_e4m3fn" if eight else "bfloat16"
    if indexed is None:
        indexed = (path / CALIBRATION).is_file()
    attention = own(options.attention, weights.config.window, indexed)
    indexed = indexed and reads_index(attention)
    return Subject(name, weights.config, weights.bytes, weights.itemsize, attention, kind, indexed, eight)
