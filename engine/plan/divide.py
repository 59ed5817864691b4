"""A plan that does what is asked, or what would fit instead."""

from collections.abc import Iterator
from dataclasses import replace

from unabridged.engine.attention.config import for_window
from unabridged.engine.errors import EngineUnavailable, OutOfMemory
from unabridged.engine.plan.machine import Machine, free_for
from unabridged.engine.plan.plan import Plan, Subject, Wish
from unabridged.engine.plan.search import Search

_OTHERWISE = "close other programs on it, take a smaller model, or unabridged config set engine.device cpu"


def divide(subject: Subject, machine: Machine, wish: Wish) -> Plan:
    """How the machine's memory is divided. Raises OutOfMemory where what is asked for does not fit, with what would;
    EngineUnavailable where keys and values shall lie in the host, and the engine's attention is none for that."""
    search = Search(subject, machine, wish)
    if wish.place == "host" and search.unserved:
        raise EngineUnavailable(f"attention {search.unserved}", "engine.place gpu, or another engine.preset")
    found = search.find()
    if found is None:
        raise OutOfMemory(_short(search), _ways_out(search))
    return found


def gib(size: int) -> str:
    """ "5.3 GiB", "40 MiB"."""
    return f"{size / (1 << 30):,.1f} GiB" if size >= 1 << 29 else f"{size / (1 << 20):,.0f} MiB"


def _least(search: Search) -> Plan:
    """What would take the least of that which is asked for, where least is missing."""
    tokens, machine = search.wanted if search.wish.context else search.of_use, search.machine
    plans = (search.least(place, tokens) for place in search.places)
    return min(plans, key=lambda plan: ((plan.vram > machine.vram) + (plan.ram > machine.ram), plan.vram))


def _short(search: Search) -> str:
    machine, plan, limit = search.machine, _least(search), search.wish.pool
    lacks = []
    if plan.vram > machine.vram:
        lacks.append(f"{gib(plan.vram)} of GPU memory, {gib(machine.vram)} may be taken")
    if plan.ram > machine.ram:
        lacks.append(f"{gib(plan.ram)} of host memory for keys and values, {gib(machine.ram)} may be taken")
    if limit and search.taken(plan) > limit:
        lacks.append(f"{gib(search.taken(plan))} for keys and values, engine.kv_memory_mib allows {gib(limit)}")
    return f"{plan.tokens:,} tokens of {search.subject.name} need {', and '.join(lacks)}"


def _ways_out(search: Search) -> str:
    ways = [*_ways(search)]
    return f"would fit: {'; '.join(ways)}" if ways else _OTHERWISE


def _ways(search: Search) -> Iterator[str]:
    subject, machine, wish = search.subject, search.machine, search.wish
    most = max(search.most_at_all(place) for place in search.places)
    if most >= search.of_use:
        yield f"{most:,} tokens (engine.context_tokens)"
    if wish.slots > 1 and Search(subject, machine, replace(wish, slots=1)).find():
        yield "one answer at a time (engine.slots 1)"
    small = replace(subject, kind="float8_e4m3fn")
    if subject.eight and subject.kind != small.kind and Search(small, machine, wish).find():
        yield f"keys and values in 8 bits (engine.kv_dtype {small.kind})"
    bare = replace(subject, attention=for_window(subject.config.window), indexed=False)
    if subject.indexed and Search(bare, machine, wish).find():
        yield f"attention without an index, slower over host memory (engine.preset {bare.attention.name})"
    if wish.place == "gpu" and not search.unserved and Search(subject, machine, replace(wish, place="host")).find():
        yield "keys and values in host memory (engine.place host)"
    plan = _least(search)
    if plan.vram <= machine.vram and plan.ram > machine.ram:
        yield f"{gib(free_for(plan.ram))} of the host's memory free"
    if plan.vram > machine.vram and plan.ram <= machine.ram:
        yield f"{gib(plan.vram)} of GPU memory"
