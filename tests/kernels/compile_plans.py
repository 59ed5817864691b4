"""Compiles the launches of plans/*.py for cards that are not there, on all cores, and says what they need.

    TRITON_INTERPRET=0 python -m tests.kernels.compile_plans [module or module/plan ...]

A module of plans has `plans() -> dict[str, Launch]` of the launches that matter most, and may have `slow_plans()` of
more; the tests compile both. Every launch is one on meta tensors. A name that ends in "@90" is a launch for that card
alone.
"""

import importlib
import json
import multiprocessing
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from unabridged.models.kernels.launch import Launch

CAPABILITIES = (89, 90)
Needs = dict[str, Any]


def known(slow: bool) -> dict[str, Launch]:
    """Launches by "module/plan"."""
    found = {}
    for file in sorted((Path(__file__).parent / "plans").glob("*.py")):
        module = importlib.import_module(f"tests.kernels.plans.{file.stem}")
        listed = getattr(module, "slow_plans", dict) if slow else module.plans
        found.update({f"{file.stem}/{name}": launch for name, launch in listed().items()})
    return found


def cards(name: str) -> tuple[int, ...]:
    """The compute capabilities that a plan is for."""
    return (int(name.split("@")[1]),) if "@" in name else CAPABILITIES


def compile_all(names: Sequence[str]) -> dict[str, Needs]:
    """What each launch needs on each card, by "module/plan/capability": shared, registers, local; or the error."""
    tasks = [(name, capability) for name in names for capability in cards(name)]
    with ProcessPoolExecutor(mp_context=multiprocessing.get_context("fork")) as pool:
        return {f"{name}/{at}": needs for (name, at), needs in zip(tasks, pool.map(_needs, tasks), strict=True)}


def _needs(task: tuple[str, int]) -> Needs:
    name, capability = task
    begun = time.monotonic()
    try:
        built = _LAUNCHES[name].compile(capability)
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}
    needs = {"shared": built.shared, "registers": built.registers, "local": built.local}
    return {**needs, "seconds": round(time.monotonic() - begun, 1)}


_LAUNCHES: dict[str, Launch] = {}


def main(wanted: Sequence[str], as_json: bool) -> None:
    """Print a line for every launch and card; all of them when none is named."""
    _LAUNCHES.update(known(slow=False) | known(slow=True))
    names = [name for name in _LAUNCHES if not wanted or name in wanted or name.split("/")[0] in wanted]
    found = compile_all(names)
    print(json.dumps(found) if as_json else "\n".join(f"{name:48} {needs}" for name, needs in found.items()))


if __name__ == "__main__":
    main([word for word in sys.argv[1:] if word != "--json"], "--json" in sys.argv)
