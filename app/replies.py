"""Replies and refusals: structs as JSON, and every error in the shape that OpenAI's clients understand.

    {"error": {"message", "type", "param", "code"}}   with "hint" beside them, and the counts of context_length_exceeded

One table says which status an error's code has. A refusal whose repetition would repeat minutes of reading carries
`x-should-retry: false`, because OpenAI's clients repeat 429 and 5xx by themselves. Knows no routes.
"""

from collections.abc import Mapping
from typing import Any

import msgspec
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from unabridged.app.errors import RequestInvalid
from unabridged.app.events import Problem
from unabridged.models.errors import UnabridgedError

_STATUS = {
    "invalid_api_key": 401,
    "host_not_allowed": 403,
    "origin_not_allowed": 403,
    "local_only": 403,
    "not_found": 404,
    "model_not_found": 404,
    "document_not_found": 404,
    "page_not_found": 404,
    "path_not_found": 404,
    "collection_not_found": 404,
    "conversation_not_found": 404,
    "method_not_allowed": 405,
    "library_busy": 409,
    "nothing_to_read": 409,
    "request_too_large": 413,
    "client_closed_request": 499,
    "queue_full": 429,
    "engine_unavailable": 503,
    "no_model": 503,
    "server_stopping": 503,
    "invalid_request": 400,
    "filter_invalid": 400,
    "context_length_exceeded": 400,
}
_TYPE = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}
# Seconds after which it is worth asking again. Waiting in line costs nothing, so clients may repeat queue_full
# themselves; a dead or failed engine would read everything again for each of their tries.
_RETRY_AFTER = {"queue_full": 5, "engine_unavailable": 30, "library_busy": 5, "server_stopping": 5}
_RETRY = {"queue_full", "library_busy"}


class Refusal(RequestInvalid):
    """A request that is refused before any work, with the field that is to blame."""

    def __init__(
        self, message: str, hint: str = "", *, code: str = "invalid_request", param: str | None = None
    ) -> None:
        super().__init__(message, hint)
        self.code = code
        self.param = param


def status_of(code: str) -> int:
    """The HTTP status of an error's code; 500 for what is not the caller's doing."""
    return _STATUS.get(code, 500)


def body_of(error: UnabridgedError) -> dict[str, Any]:
    """The JSON body of an error."""
    status = status_of(error.code)
    kind = _TYPE.get(status, "invalid_request_error" if status < 500 else "server_error")
    body: dict[str, Any] = {
        "message": str(error),
        "type": kind,
        "param": getattr(error, "param", None),
        "code": error.code,
        "hint": error.hint,
    }
    # The names that llama.cpp's server uses; clients shorten their history by them.
    counts = {"n_prompt_tokens": getattr(error, "tokens", None), "n_ctx": getattr(error, "limit", None)}
    return {"error": body | {name: count for name, count in counts.items() if count}}


def headers_of(code: str) -> dict[str, str]:
    """What an HTTP client should know about trying again."""
    headers = {"Retry-After": str(_RETRY_AFTER[code])} if code in _RETRY_AFTER else {}
    status = status_of(code)
    if status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    if status in (409, 429) or status >= 500:
        headers["x-should-retry"] = "true" if code in _RETRY else "false"
    return headers


def refuse(error: UnabridgedError) -> Response:
    """An error as a response."""
    return json_reply(body_of(error), status_of(error.code), headers_of(error.code))


def problem_of(error: UnabridgedError) -> Problem:
    """An error as the last line of a stream that has begun."""
    return Problem(code=error.code, message=error.message, hint=error.hint)


def error_of(problem: Problem) -> UnabridgedError:
    """The inverse of `problem_of`."""
    error = UnabridgedError(problem.message, problem.hint)
    error.code = problem.code
    return error


def json_reply(content: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """A struct or plain data as a JSON response. Documents' text has no place in a browser's cache."""
    kept = {"Cache-Control": "no-store", **(headers or {})}
    return Response(msgspec.json.encode(content), status, kept, media_type="application/json")


def unexpected(error: Exception) -> UnabridgedError:
    """A defect of ours in a sentence."""
    failure = UnabridgedError(f"internal error: {type(error).__name__}: {error}", "the server's log has the details")
    failure.code = "internal"
    return failure


def install(app: FastAPI) -> None:
    """Make every failure of `app` a reply in this shape."""

    async def ours(_: Request, error: Exception) -> Response:
        return refuse(error if isinstance(error, UnabridgedError) else unexpected(error))

    async def http(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        code = {404: "not_found", 405: "method_not_allowed"}.get(error.status_code, "invalid_request")
        reply = refuse(Refusal(f"{request.method} {request.url.path}: {error.detail}", code=code))
        reply.headers.update(error.headers or {})
        return reply

    async def validation(_: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        first = error.errors()[0]
        param = str(first["loc"][-1])
        what = "is missing" if first["type"] == "missing" else f"is {first['input']!r}: {first['msg']}"
        return refuse(Refusal(f"{param} {what}", param=param))

    async def left(_: Request, __: Exception) -> Response:
        return refuse(Refusal("the client closed the connection", code="client_closed_request"))

    app.add_exception_handler(ClientDisconnect, left)
    app.add_exception_handler(UnabridgedError, ours)
    app.add_exception_handler(HTTPException, http)
    app.add_exception_handler(RequestValidationError, validation)
    app.add_exception_handler(Exception, ours)
