"""From our events to OpenAI's objects: one whole reply, or the chunks of a stream. No I/O.

A stream is: a chunk with the role; chunks with text; one chunk with the list of sources as text and, beside OpenAI's
fields, `citations` and `unabridged` (the marked answer, its sentences, the receipt); a chunk with finish_reason; with
stream_options.include_usage a chunk with usage and no choices; [DONE]. All carry one id and time, and every choice a
finish_reason. Progress chunks only come when `return_progress` asked for them: unasked they break clients.
"""

import json
import secrets
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec

from unabridged.app.assistant import Completed
from unabridged.app.events import Answer, Delta, Stage
from unabridged.app.openai_sources import sources_text
from unabridged.app.replies import body_of
from unabridged.engine.events import Usage
from unabridged.models.errors import UnabridgedError

DONE = b"data: [DONE]\n\n"
PING = b": ping\n\n"


@dataclass(frozen=True, kw_only=True)
class Shape:
    """What all objects of one reply share."""

    model: str
    chat: bool
    sources: bool = True
    include_usage: bool = False
    progress: bool = False
    id: str = ""
    created: int = field(default_factory=lambda: int(time.time()))
    started: float = field(default_factory=time.monotonic)

    @staticmethod
    def of_chat(model: str, *, sources: bool = True, include_usage: bool = False, progress: bool = False) -> "Shape":
        """A chat completion."""
        new = f"chatcmpl-{secrets.token_hex(12)}"
        return Shape(model=model, chat=True, sources=sources, include_usage=include_usage, progress=progress, id=new)

    @staticmethod
    def of_text(model: str, *, include_usage: bool = False) -> "Shape":
        """A plain completion."""
        return Shape(model=model, chat=False, include_usage=include_usage, id=f"cmpl-{secrets.token_hex(12)}")

    # ------------------------------------------------------------------------------------------- whole replies

    def answered(self, answer: Answer) -> dict[str, Any]:
        """The whole reply of a chat: marked answer, list of sources, and both as data."""
        content = answer.answer + (sources_text(answer, streamed=False) if self.sources else "")
        message = {"role": "assistant", "content": content, "refusal": None, "citations": _plain(answer.citations)}
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": _reason(answer.receipt.finish)}
        usage = _usage(_usage_of(answer))
        return self._object("chat.completion", [choice]) | {"usage": usage, "unabridged": _extension(answer)}

    def completed(self, done: Completed) -> dict[str, Any]:
        """The whole reply of a plain completion."""
        choice = {"index": 0, "text": done.text, "logprobs": None, "finish_reason": _reason(done.reason)}
        return self._object("text_completion", [choice]) | {"usage": _usage(done.usage)}

    # ------------------------------------------------------------------------------------------------- streams

    def opening(self) -> Iterator[bytes]:
        """What comes first, before anything is known."""
        if self.chat:
            yield self._chunk({"role": "assistant", "content": ""})

    def event(self, event: Stage | Delta | Answer | Completed) -> Iterator[bytes]:
        """The chunks of one event."""
        if isinstance(event, Delta):
            yield self._chunk({"content": event.text})
        elif isinstance(event, Stage):
            if self.progress:
                yield self._chunk({}, prompt_progress=self._progress(event))
        elif isinstance(event, Answer):
            text = sources_text(event, streamed=True) if self.sources else ""
            extra = {"citations": _plain(event.citations), "unabridged": _extension(event)}
            yield self._chunk({"content": text}, **extra)
            yield from self._closing(event.receipt.finish, _usage_of(event))
        else:
            yield from self._closing(event.reason, event.usage)

    def _closing(self, reason: str, usage: Usage) -> Iterator[bytes]:
        yield self._chunk({}, _reason(reason))
        if self.include_usage:
            yield _event(self._object(self._chunk_name(), []) | {"usage": _usage(usage)})
        yield DONE

    def _chunk(self, delta: dict[str, Any], reason: str | None = None, **extra: Any) -> bytes:
        body: dict[str, Any] = {"delta": delta} if self.chat else {"text": delta.get("content", "")}
        choice = {"index": 0, **body, "logprobs": None, "finish_reason": reason}
        usage = {"usage": None} if self.include_usage else {}
        return _event(self._object(self._chunk_name(), [choice]) | usage | extra)

    def _chunk_name(self) -> str:
        return "chat.completion.chunk" if self.chat else "text_completion"

    def _object(self, name: str, choices: list[dict[str, Any]]) -> dict[str, Any]:
        return {"id": self.id, "object": name, "created": self.created, "model": self.model, "choices": choices}

    def _progress(self, stage: Stage) -> dict[str, Any]:
        return {
            "total": stage.total,
            "cache": stage.done if stage.name == "restore" else 0,
            "processed": stage.done,
            "time_ms": round(1000 * (time.monotonic() - self.started)),
            "stage": stage.name,
            "unit": stage.unit,
            "text": stage.text,
        }


def failed(error: UnabridgedError) -> bytes:
    """The last event of a stream that failed after it had begun; no [DONE] follows."""
    return _event(body_of(error))


def _event(body: dict[str, Any]) -> bytes:
    # ASCII: some clients split lines at U+2028 and U+0085 too.
    return b"data: " + json.dumps(body, separators=(",", ":")).encode("ascii") + b"\n\n"


def _plain(value: Any) -> Any:
    return msgspec.to_builtins(value)


def _extension(answer: Answer) -> dict[str, Any]:
    return {
        "answer": answer.answer,
        "text": answer.text,
        "citations": _plain(answer.citations),
        "sentences": _plain(answer.sentences),
        "receipt": _plain(answer.receipt),
    }


def _reason(reason: str) -> str:
    return "length" if reason == "length" else "stop"


def _usage_of(answer: Answer) -> Usage:
    receipt = answer.receipt
    return Usage(prompt=receipt.context, cached=receipt.cached, completion=receipt.completion)


def _usage(usage: Usage) -> dict[str, Any]:
    return {
        "prompt_tokens": usage.prompt,
        "completion_tokens": usage.completion,
        "total_tokens": usage.prompt + usage.completion,
        "prompt_tokens_details": {"cached_tokens": usage.cached},
    }
