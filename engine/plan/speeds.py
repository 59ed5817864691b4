"""What to expect of a plan's speed: estimates, from what was measured with Llama 3.1 8B (AWQ int4, KV in 8 bits) on one
NVIDIA H200, carried over to other shapes by bytes and operations, and to other cards by their published rates.

The measurements are docs/log.md's: a decode step at 1M tokens takes 2.14 ms, of which int4 projections read at 78 % of
the copied rate, the head at all of it, attention is 32 layers of some launches and what they read, and the rest .13 ms;
over a pool in the host 4 us a layer more, to see what the banks lack, and what is fetched. Documents are read at 29,956
tokens a second, 418 TFLOP/s of projections; over a pool in the host 6.4 us a token more.
"""

from dataclasses import dataclass
from itertools import pairwise

from unabridged.engine.attention.config import Stage
from unabridged.engine.attention.limits import PAGE
from unabridged.engine.plan.plan import Plan, Subject
from unabridged.models.config import ModelConfig

MEASURED_ON = "NVIDIA H200"
_LINEARS, _LAYER, _REST = 0.78, 15e-6, 0.13e-3
_PROJECTIONS = 418e12
_BANKS, _WRITTEN = 4e-6, 6.4e-6
# Of what a renewal chooses, pages that the one before did not: an assumption.
DRIFT = 0.1
# Weights of projections: other sizes by more than these are not carried over to.
_ALIKE = range(2 * 10**9, 40 * 10**9)


@dataclass(frozen=True)
class Card:
    """Bytes a second that a kernel copies, operations of 16-bit products a second, bytes a second over the bus."""

    name: str
    copied: float
    products: float
    bus: float


# The first as measured; the others as published, with what their bus gave to others.
CARDS = (Card("H200", 4.25e12, 805e12, 50e9), Card("RTX 4090", 1.008e12, 165e12, 25e9))


@dataclass(frozen=True)
class Speed:
    """Of one answer at a time with the whole context. `decoding`: tokens a second; `reading`: the same, of documents in
    sections; `fetched`: bytes over the bus a token."""

    card: str
    decoding: float
    reading: float
    fetched: int


def speeds(plan: Plan, subject: Subject, card: str) -> list[Speed]:
    """On this card; where it is none of CARDS, on each of those. None of a model that is not like the measured one: in
    4 bits and of a size with it."""
    if subject.config.quantisation is None or _projections(subject.config) not in _ALIKE:
        return []
    known = [one for one in CARDS if one.name in card]
    return [_speed(plan, subject, one) for one in known or CARDS]


def _speed(plan: Plan, subject: Subject, card: Card) -> Speed:
    config, fetched = subject.config, _fetched(plan) if plan.place == "host" else 0
    table = config.vocab_size * config.hidden * subject.itemsize
    linears = subject.weights - table * (1 if config.tied else 2)
    attention = config.layers * _LAYER + _attended(plan) / card.copied
    seconds = linears / (_LINEARS * card.copied) + table / card.copied + attention + _REST + fetched / card.bus
    reading = 2 * _projections(config) / (_PROJECTIONS * card.products / CARDS[0].products)
    if plan.place == "host":
        seconds, reading = seconds + config.layers * _BANKS, reading + _WRITTEN
    return Speed(card.name, 1 / seconds, 1 / reading, fetched)


def _projections(config: ModelConfig) -> int:
    """Weights of all layers' projections."""
    attention = config.head_dim * (2 * config.heads + 2 * config.kv_heads)
    return config.layers * config.hidden * (attention + 3 * config.intermediate)


def _attended(plan: Plan) -> float:
    """Bytes that the attention of all layers reads a step, the mean over a refresh period."""
    config, kv, tokens = plan.attention, plan.kv, plan.tokens
    key = kv.heads * kv.dim * kv.itemsize
    if tokens <= config.dense_below:
        return 2.0 * kv.layers * tokens * key
    total = 0.0
    for layer in range(kv.layers):
        stages = config.layer(layer).stages
        intervals = config.intervals(len(stages))
        total += _scored(stages[0], tokens, key, kv.layer_codes) / intervals[0]
        scored = zip(pairwise(stages), intervals[1:], strict=True)
        total += sum(_scored(then, before.keep, key, key) / interval for (before, then), interval in scored)
        total += 2 * key * (config.sink + config.stream + stages[-1].keep)
    return total


def _scored(stage: Stage, tokens: int, key: int, codes: int) -> float:
    """Bytes that a stage reads of `tokens` candidates: `codes` each, all keys, or two a round of its tournaments."""
    if stage.scorer == "selectrep":
        rounds = max(1, stage.chunk.bit_length() - 1)
        return tokens / stage.chunk * 2 * rounds * key
    return tokens * (codes if stage.scorer == "index" else key)


def _fetched(plan: Plan) -> int:
    """Bytes over the bus a token, where DRIFT of what is chosen is new."""
    config, kv, banks = plan.attention, plan.kv, plan.banks
    if banks is None or plan.tokens <= config.dense_below:
        return 0
    keys, values = banks.alone.listed
    counts = [config.intervals(len(config.layer(layer).stages)) for layer in range(kv.layers)]
    pages = sum(keys / own[0] + values / own[-1] for own in counts) * kv.heads
    return round(DRIFT * pages * PAGE * kv.dim * kv.itemsize)
