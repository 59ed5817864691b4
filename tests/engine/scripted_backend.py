"""A backend whose requests say what it does, for tests of the worker and its supervisor.

The prompt's ids are pairs (what, how much): EMIT tokens one a step, SLEEP milliseconds in one step, IDLE steps of a
millisecond, KILL the process by a signal, RAISE one of ERRORS, EXIT with a status. The model folder's name says how it
starts: "fails", "dies", "hangs", anything else is well; "pair" has two slots.
"""

import os
import sys
import time
from collections.abc import Generator
from pathlib import Path

from unabridged.engine.errors import Cancelled, ContextTooLong, EngineUnavailable
from unabridged.engine.events import PROTOCOL, Event, Finished, Generate, Prefill, Ready, Token, Usage, unpack_ids
from unabridged.engine.options import EngineOptions

EMIT, SLEEP, IDLE, KILL, RAISE, EXIT, END_EARLY, STUMBLE = range(8)


class AcceleratorError(RuntimeError):
    """As torch raises it when a kernel went wrong."""


ERRORS = (
    ContextTooLong("a context of 9 tokens; the model holds 8", "choose fewer documents"),
    ValueError("the backend broke"),
    MemoryError(),
    AcceleratorError("CUDA error: an illegal memory access was encountered"),
    RuntimeError("Triton Error [CUDA]: an illegal memory access was encountered"),
    RuntimeError("Triton Error [CUDA]: out of memory"),
)


class ScriptedBackend:
    """Does what prompts say."""

    slots = 1

    def __init__(self, model: Path, options: EngineOptions) -> None:
        self._model = model.name
        self.slots = 1 + (model.name == "pair")
        if model.name == "fails":
            raise EngineUnavailable("the model folder is empty", "unabridged models add smollm2-135m")
        if model.name == "dies":
            print("cannot map the weights", file=sys.stderr, flush=True)
            os._exit(9)
        if model.name == "hangs":
            time.sleep(60)

    def ready(self) -> Ready:
        return Ready(
            protocol=PROTOCOL + (self._model == "futuristic"),
            engine="scripted",
            device="cpu",
            model=self._model,
            fingerprint="0",
            window=8,
            max_context=8,
            segment_tokens=4,
            whole=False,
            load_seconds=0.0,
            pid=os.getpid(),
        )

    def run(self, request: Generate | Prefill) -> Generator[Event | None, None, None]:
        script = unpack_ids(request.prompt) if isinstance(request, Generate) else []
        done = 0
        try:
            for what, amount in zip(script[::2], script[1::2], strict=True):
                for event in self._do(request.id, what, amount):
                    done += isinstance(event, Token)
                    yield event
                if what == END_EARLY:
                    return
        except Cancelled:
            if what == STUMBLE:
                raise ERRORS[amount] from None
            raise
        finally:
            print(f"closed {request.id} after {done}", file=sys.stderr, flush=True)
        yield Finished(id=request.id, reason="stop", usage=Usage(prompt=len(script), cached=0, completion=done))

    def _do(self, id: str, what: int, amount: int) -> Generator[Event | None, None, None]:
        if what == EMIT:
            for number in range(amount):
                yield Token(id=id, text=f"{number} ", ids=(number,))
        elif what == SLEEP:
            time.sleep(amount / 1000)
            yield None
        elif what == IDLE:
            for _ in range(amount):
                time.sleep(0.001)
                yield None
        elif what == STUMBLE:
            while True:
                yield Token(id=id, text="on ", ids=(0,))
                time.sleep(0.001)
        elif what == KILL:
            os.kill(os.getpid(), amount)
        elif what == RAISE:
            raise ERRORS[amount]
        elif what == EXIT:
            print("the last words", file=sys.stderr, flush=True)
            os._exit(amount)

    def close(self) -> None:
        print("backend closed", file=sys.stderr, flush=True)
