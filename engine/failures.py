"""What a request's exception says to its caller, and whether the process can go on after it. Does not load torch."""

import logging

from unabridged.engine.errors import ContextTooLong, InternalError, OutOfMemory
from unabridged.engine.events import Failed
from unabridged.models.errors import UnabridgedError

log = logging.getLogger("unabridged.engine")


def failure(id: str | None, error: Exception) -> Failed:
    """What a request's exception says to its caller. What is not an error of ours leaves its traceback in the log."""
    if isinstance(error, ContextTooLong):
        return Failed(
            id=id,
            code=error.code,
            message=error.message,
            hint=error.hint,
            tokens=error.tokens,
            limit=error.limit,
        )
    if isinstance(error, UnabridgedError):
        return Failed(id=id, code=error.code, message=error.message, hint=error.hint)
    log.error("request %s failed", id, exc_info=error)
    # torch.OutOfMemoryError is known by name, this module does not load torch.
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        hint = "ask over fewer documents, or close other programs"
        return Failed(id=id, code=OutOfMemory.code, message=f"memory is exhausted: {error}".rstrip(": "), hint=hint)
    message = f"the engine failed unexpectedly: {type(error).__name__}: {error}"
    return Failed(id=id, code=InternalError.code, message=message, hint="the engine's log has the details")


def device_lost(error: Exception) -> bool:
    """Whether a kernel broke the process's access to the GPU: every later use of it fails too."""
    text = str(error)
    # Whoever launches next hears of it; Triton also says so where a kernel found no memory for its code.
    if text.startswith("Triton Error [CUDA]"):
        return "out of memory" not in text
    # Older versions of torch have no class for it.
    return type(error).__name__ == "AcceleratorError" or text.startswith("CUDA error")
