"""What a worker drives: an inference engine behind the messages of `engine.events`."""

from collections.abc import Iterator
from typing import Protocol

from unabridged.engine.events import Event, Generate, Prefill, Ready


class Backend(Protocol):
    """An engine in this process. `slots` requests run at a time, a step of each in turn; the worker queues the rest."""

    slots: int

    def ready(self) -> Ready:
        """What was loaded. Called once, after construction."""
        ...

    def run(self, request: Generate | Prefill) -> Iterator[Event | None]:
        """Do the request step by step: each step is at most one prefill chunk or one decode step and yields an event or
        None. The last event is Finished. Raises an EngineError for what cannot be done. Closing the iterator cancels:
        whatever was computed of segments stays usable, nothing half-written does. An iterator into which `Cancelled` is
        thrown may answer with a Finished of its own; where it does not, the worker makes one.
        """
        ...

    def close(self) -> None:
        """Release memory and leave the store clean."""
        ...
