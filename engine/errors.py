"""Errors of the engine.

UnabridgedError
  EngineError
    ContextTooLong     the context does not fit the model or the machine
    OutOfMemory        the KV pool cannot grow
    EngineDied         the process ended while a request ran
    EngineUnavailable  the process cannot be started or reached
    QueueFull          as many requests wait as may
    InternalError      a defect of ours: the log has the traceback
    BadRequest         a request's fields contradict each other or are out of range
    StoreError         stored KV cannot be read or written
"""

from unabridged.models.errors import UnabridgedError


class EngineError(UnabridgedError):
    """The engine cannot do what was asked."""

    code = "engine_error"


class ContextTooLong(EngineError):
    """The context has more tokens than the model or the machine can hold."""

    code = "context_length_exceeded"

    def __init__(self, message: str, hint: str = "", *, tokens: int = 0, limit: int = 0) -> None:
        """`tokens` of the context and the `limit` that they exceed; 0 where not known."""
        super().__init__(message, hint)
        self.tokens = tokens
        self.limit = limit


class OutOfMemory(EngineError):
    """The KV pool cannot grow by the blocks that a request needs."""

    code = "out_of_memory"


class EngineDied(EngineError):
    """The engine process ended while a request was running."""

    code = "engine_died"


class EngineUnavailable(EngineError):
    """The engine process cannot be started or reached."""

    code = "engine_unavailable"


class BadRequest(EngineError):
    """A request's fields are out of range or contradict each other."""

    code = "invalid_request"


class StoreError(EngineError):
    """KV on disk cannot be read or written."""

    code = "store_error"


class QueueFull(EngineError):
    """As many requests wait for the engine as may."""

    code = "queue_full"


class InternalError(EngineError):
    """The engine failed in a way that it does not know: a defect of ours, or of the model's files."""

    code = "internal"


def engine_error(code: str, message: str, hint: str = "", *, tokens: int = 0, limit: int = 0) -> EngineError:
    """The error behind a Failed message, of the class whose code it carries (EngineError itself for a foreign one)."""
    if code == ContextTooLong.code:
        return ContextTooLong(message, hint, tokens=tokens, limit=limit)
    kinds = {kind.code: kind for kind in EngineError.__subclasses__()}
    error = kinds.get(code, EngineError)(message, hint)
    error.code = code
    return error


class Cancelled(EngineError):
    """Thrown into a backend's iterator: end here, with a report where there is one."""

    code = "cancelled"
