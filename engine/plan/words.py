"""A plan in lines for people."""

from collections.abc import Sequence

from unabridged.engine.plan.divide import gib
from unabridged.engine.plan.plan import Plan
from unabridged.engine.plan.speeds import DRIFT, MEASURED_ON, Speed

_PLACES = {"gpu": "GPU memory", "host": "host memory"}


def headline(plan: Plan) -> str:
    """What it comes to, in one line."""
    answers = "1 answer" if plan.slots == 1 else f"{plan.slots} answers"
    host = f" and {gib(plan.ram)} of host memory" if plan.ram else ""
    return (
        f"{plan.tokens:,} tokens in {_PLACES[plan.place]} ({plan.kv.kind}), {answers} at a time: "
        f"{gib(plan.vram)} of GPU memory{host}"
    )


def plan_lines(plan: Plan) -> list[str]:
    """The headline, then a line a part."""
    below = plan.attention.dense_below
    return [
        headline(plan),
        f"all of a context is attended to up to {below:,} tokens, past it what {plan.attention.name} chooses",
        *(f"{gib(part.bytes):>9}  {part.name}: {part.about}" for part in plan.parts),
    ]


def disk_line(plan: Plan, disk: int) -> str:
    """What keeping all of it on the disk takes, of `disk` bytes that may be taken."""
    return f"{gib(plan.pool)} on disk if all of it is kept, {gib(disk)} may be taken (engine.store_mib, free space)"


def speed_lines(found: Sequence[Speed], tokens: int) -> list[str]:
    """A line a card, and what they rest on. `tokens`: of the context."""
    if not found:
        return ["no speeds: none were measured with a model like this one"]
    lines = []
    for one in found:
        over = f", {one.fetched / 1e6:,.1f} MB over the bus a token" if one.fetched else ""
        whole = f"{one.reading:,.0f} read, all of it in {tokens / one.reading:,.0f} s"
        lines.append(f"{one.card}: about {one.decoding:,.0f} tokens a second answered{over}; {whole}")
    over_the_bus = any(one.fetched for one in found)
    drift = f"; {DRIFT:.0%} of what attention chooses taken as new each time" if over_the_bus else ""
    return [*lines, f"estimates, from measurements with Llama 3.1 8B on one {MEASURED_ON} (docs/log.md){drift}"]
