"""What the server's engine has done and is, in the text format that Prometheus reads. Pure: no clock, no HTTP.

Counters count since the server was started, whatever became of the engine's processes meanwhile.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from unabridged.app.schema import Health
from unabridged.engine.events import Finished, Ready

Samples = Sequence[tuple[Mapping[str, str], float]]


class Totals:
    """Sums over all requests that have ended."""

    def __init__(self) -> None:
        self.requests: Counter[str] = Counter()
        self.tokens: Counter[str] = Counter()
        self.seconds: dict[str, float] = {"prefill": 0.0, "decode": 0.0}
        self.pages: Counter[tuple[str, str]] = Counter()
        self.bus_bytes = 0
        self.steps: Counter[str] = Counter()

    def finished(self, event: Finished) -> None:
        """A request ended with a report."""
        self.requests[event.reason] += 1
        usage = event.usage
        self.tokens.update(prompt=usage.prompt, cached=usage.cached, completion=usage.completion)
        self.seconds["prefill"] += event.prefill_seconds
        self.seconds["decode"] += event.decode_seconds
        bus = event.attention.bus if event.attention else None
        if bus is not None:
            self.pages["keys", "found"] += bus.keys_found
            self.pages["keys", "fetched"] += bus.keys_fetched
            self.pages["values", "found"] += bus.values_found
            self.pages["values", "fetched"] += bus.values_fetched
            self.bus_bytes += bus.bytes
            self.steps.update(all=bus.steps, waiting=bus.fetching)

    def failed(self) -> None:
        """A request failed."""
        self.requests["failed"] += 1


def exposition(health: Health, ready: Ready | None, totals: Totals) -> str:
    """All metrics, HELP and TYPE lines with them."""
    lines = [*_state(health, ready), *_totals(totals)]
    return "\n".join([*lines, ""])


def _state(health: Health, ready: Ready | None) -> Iterator[str]:
    engine = health.engine
    yield from _metric("info", "gauge", "Version and model.", _one(1, version=health.version, model=engine.model))
    is_ready = engine.state == "ready"
    yield from _metric("engine_ready", "gauge", "1 while questions can be answered.", _one(int(is_ready)))
    yield from _metric("requests_running", "gauge", "Streams that run or wait.", _one(health.requests))
    yield from _metric("context_tokens", "gauge", "Tokens that the engine holds.", _one(engine.max_context))
    parts = [({"part": name}, size) for name, size in (ready.memory if ready else ())]
    yield from _metric("gpu_memory_planned_bytes", "gauge", "The GPU's memory by the plan.", parts)
    planned = _one(ready.host_bytes if ready else 0)
    yield from _metric("host_memory_planned_bytes", "gauge", "Host memory for a GPU's context, by the plan.", planned)


def _totals(totals: Totals) -> Iterator[str]:
    ends = [({"end": end}, totals.requests[end]) for end in ("stop", "length", "cancelled", "failed")]
    yield from _metric("requests_total", "counter", "Requests that have ended.", ends)
    kinds = [({"kind": kind}, totals.tokens[kind]) for kind in ("prompt", "cached", "completion")]
    yield from _metric("tokens_total", "counter", "Tokens of prompts, of these not read again, of answers.", kinds)
    phases = [({"phase": phase}, seconds) for phase, seconds in totals.seconds.items()]
    yield from _metric("seconds_total", "counter", "Seconds of requests.", phases)
    pages = [
        ({"bank": bank, "result": result}, totals.pages[bank, result])
        for bank in ("keys", "values")
        for result in ("found", "fetched")
    ]
    about = "Pages that attention chose, in the GPU's banks or fetched, where the context lies in host memory."
    yield from _metric("bank_pages_total", "counter", about, pages)
    yield from _metric("bus_bytes_total", "counter", "Bytes that decoding fetched.", _one(totals.bus_bytes))
    about = "Decode steps over a context in host memory."
    yield from _metric("offloaded_steps_total", "counter", about, _one(totals.steps["all"]))
    about = "Of these, the ones that waited for something fetched."
    yield from _metric("waiting_steps_total", "counter", about, _one(totals.steps["waiting"]))


def _one(value: float, **labels: str) -> Samples:
    return [(labels, value)]


def _metric(name: str, kind: str, about: str, samples: Samples) -> Iterator[str]:
    if samples:
        yield f"# HELP unabridged_{name} {about}"
        yield f"# TYPE unabridged_{name} {kind}"
    for labels, value in samples:
        shown = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
        yield f"unabridged_{name}{{{shown}}} {value}" if shown else f"unabridged_{name} {value}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
