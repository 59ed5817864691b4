"""A plan in lines for people."""

from unabridged.engine.plan.divide import gib
from unabridged.engine.plan.plan import Plan

_PLACES = {"gpu": "GPU memory", "host": "host memory"}


def plan_lines(plan: Plan) -> list[str]:
    """What it comes to, then a line a part."""
    answers = "1 answer" if plan.slots == 1 else f"{plan.slots} answers"
    host = f"; {gib(plan.ram)} of host memory" if plan.ram else ""
    whole = f"; to {plan.attention.dense_below:,} tokens all of a context is attended to"
    return [
        f"{plan.tokens:,} tokens in {_PLACES[plan.place]} ({plan.kv.kind}), {answers} at a time{whole}",
        f"{gib(plan.vram)} of GPU memory{host}",
        *(f"  {gib(part.bytes):>9}  {part.name}: {part.about}" for part in plan.parts),
    ]
