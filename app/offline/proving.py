"""Runs the whole program with the network cut, and says of every connection that was attempted where it led."""

import json
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from unabridged.app.finding import Finding
from unabridged.app.offline import watching
from unabridged.models.shared import ENVIRONMENT as SHARED
from unabridged.models.shared import shared_folders

if TYPE_CHECKING:
    from unabridged.app.locations import Locations
    from unabridged.app.settings import Settings

_CUT = {
    "namespace": "cut: a network of its own with nothing but loopback, and every call to an address watched",
    "watcher": "cut: every call to an address is watched, and what leads to another machine fails",
}


def prove(locations: "Locations", settings: "Settings") -> Iterator[Finding]:
    """Findings as they come; takes a minute or two. The user's library and history are not touched.

    Raises CannotWatch where the system lets nobody cut or watch.
    """
    with tempfile.TemporaryDirectory(prefix="unabridged-proof-") as scratch:
        folders = (locations.models, *shared_folders())
        environment = {
            **os.environ,
            SHARED: os.pathsep.join(map(str, folders)),
            # Not the user's runtime folder: the proof starts a server of its own.
            "XDG_RUNTIME_DIR": scratch,
        }
        words = [sys.executable, "-P", "-m", "unabridged.app.offline.steps", scratch, settings.model.name]
        watch = watching.start(words, environment)
        yield _finding("network", True, _CUT[watch.cut])
        yield from _steps(watch)
        watch.finish()
        yield from _attempts(watch)


def _steps(watch: watching.Watch) -> Iterator[Finding]:
    assert watch.process.stdout is not None
    for line in watch.process.stdout:
        told = json.loads(line)
        yield _finding(told["name"], told["good"], f"{told['text']} ({told['seconds']} s)", "see `unabridged doctor`")
    _, said = watch.process.communicate()
    if watch.process.returncode not in (0, 1):
        last = (said.strip().splitlines() or ["no word"])[-1]
        yield _finding("steps", False, f"ended with exit status {watch.process.returncode}: {last}", "report it")


def _attempts(watch: watching.Watch) -> Iterator[Finding]:
    """Each that led elsewhere, then all others in a line each."""
    outside = {one: count for one, count in watch.attempts.items() if not one.local}
    for one, count in sorted(outside.items(), key=lambda pair: (pair[0].program, pair[0].where)):
        text = f"{one.program}: {one.call} to {one.where}, {count} times; it failed"
        yield _finding("attempt", False, text, "a fault of unabridged or of a library: please report it")
    inside: Counter[str] = Counter()
    for one, count in watch.attempts.items():
        if one.local:
            inside[f"{one.program} to {_class(one.where)}"] += count
    for what, count in sorted(inside.items()):
        yield _finding("local", True, f"{what}: {count}")
    total = sum(watch.attempts.values())
    bad = sum(outside.values())
    text = f"{total} connections and messages attempted, {bad or 'none'} of them beyond this machine"
    yield _finding("connections", not bad, text)


def _class(where: str) -> str:
    """Ports of loopback as one, since each run has others."""
    host, port, _ = where.partition(" port ")
    return f"{host} (any port)" if port else where


def _finding(check: str, good: bool, text: str, remedy: str = "") -> Finding:
    return Finding(check=f"offline {check}", level="ok" if good else "fail", text=text, remedy="" if good else remedy)
