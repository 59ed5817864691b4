"""Between structs and HTTP: bodies in, JSON lines out."""

import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TypeVar

import msgspec

from unabridged.app.events import AddEvent, AskEvent, ReadAheadEvent
from unabridged.app.replies import Refusal, problem_of, unexpected
from unabridged.app.service import Service
from unabridged.app.streams import STOPPING, Stream
from unabridged.models.errors import UnabridgedError

T = TypeVar("T")

_log = logging.getLogger(__name__)


def decode_body(body: bytes, kind: type[T]) -> T:
    """A JSON body as a struct. Raises Refusal naming the field."""
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.ValidationError as error:
        text, _, path = str(error).partition(" - at `$")
        param = path.strip("`.") or None
        if "field `" in text:
            param = ".".join(filter(None, (param, text.partition("field `")[2].partition("`")[0])))
        raise Refusal(f"{param or 'the body'}: {text[:1].lower()}{text[1:]}", param=param) from error
    except RecursionError as error:
        raise Refusal("the body is nested too deeply") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Refusal(f"the body is not valid JSON: {error}") from error


Events = AsyncGenerator[AskEvent, None] | AsyncGenerator[AddEvent, None] | AsyncGenerator[ReadAheadEvent, None]


def lines(service: Service, events: Events) -> Stream:
    """Events as JSON, one a line; a failure is a Problem, the last line. Empty lines say that work goes on."""
    return Stream(
        _encoded(service, events),
        media_type="application/x-ndjson",
        ping=b"\n",
        ping_seconds=service.settings.server.ping_seconds,
        stopping=service.stopping,
        farewell=_line(problem_of(STOPPING)),
    )


async def _encoded(service: Service, events: Events) -> AsyncGenerator[bytes, None]:
    with service.counted():
        try:
            async with aclosing(events):
                async for event in events:
                    yield _line(event)
        except UnabridgedError as error:
            yield _line(problem_of(error))
        except Exception as error:
            _log.exception("a stream failed")
            yield _line(problem_of(unexpected(error)))


def _line(event: msgspec.Struct) -> bytes:
    return msgspec.json.encode(event) + b"\n"
