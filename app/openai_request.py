"""OpenAI's request bodies: read, checked, turned into a Question or a prompt with Sampling. No I/O.

Unknown fields are accepted, as OpenAI's own servers do. Fields that would change the answer and that we cannot honour
are refused with their name, never dropped: n > 1, logprobs, tools, a JSON response_format, penalties other than 0,
images. What is absent comes from the settings (temperature 0, so that answers repeat), not from OpenAI's defaults.

Beyond OpenAI: top_k, min_p, repetition_penalty (or llama.cpp's repeat_penalty), return_progress, and the object
`unabridged`: {"documents": [patterns], "mode": "auto" | "whole" | "focused", "sources": false} and, as in a Question,
"from", "to", "since", "until", "tags", "kinds" and "thread".
"""

from typing import Any, Literal

import msgspec

from unabridged.app.events import Narrowing, Question, Turn
from unabridged.app.openai_sources import without_sources
from unabridged.app.replies import Refusal
from unabridged.app.settings import AnswerSettings
from unabridged.engine.events import Sampling

MAX_STOPS = 16


class ContentPart(msgspec.Struct, frozen=True):
    """A part of a message's content; only text can be read."""

    type: str = "text"
    text: str | None = None


class ChatMessage(msgspec.Struct, frozen=True):
    """A message as it comes."""

    role: str
    content: str | tuple[ContentPart, ...] | None = None


class StreamOptions(msgspec.Struct, frozen=True):
    """What a stream carries beside text."""

    include_usage: bool | None = False


class Extension(Narrowing, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What OpenAI's API has no word for."""

    mode: Literal["auto", "whole", "focused"] = "auto"
    sources: bool = True  # the list of sources as text behind the answer


class _Common(msgspec.Struct, frozen=True, kw_only=True):
    model: str | None = None
    stream: bool | None = False
    stream_options: StreamOptions | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    repetition_penalty: float | None = None
    repeat_penalty: float | None = None
    seed: int | None = None
    stop: str | tuple[str, ...] | None = None
    max_tokens: int | None = None
    n: int | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    logit_bias: dict[str, Any] | None = None
    return_progress: bool | None = False

    @property
    def include_usage(self) -> bool:
        """Whether a stream ends with a usage chunk."""
        return bool(self.stream_options and self.stream_options.include_usage)


class ChatRequest(_Common, frozen=True, kw_only=True):
    """POST /v1/chat/completions."""

    messages: tuple[ChatMessage, ...]
    max_completion_tokens: int | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = None
    response_format: dict[str, Any] | None = None
    tools: tuple[Any, ...] | None = None
    functions: tuple[Any, ...] | None = None
    modalities: tuple[str, ...] | None = None
    unabridged: Extension = Extension()


class CompletionRequest(_Common, frozen=True, kw_only=True):
    """POST /v1/completions."""

    prompt: str | tuple[Any, ...]
    logprobs: int | None = None
    echo: bool | None = None
    suffix: str | None = None
    best_of: int | None = None


def question_of(request: ChatRequest, collection: str, defaults: AnswerSettings) -> Question:
    """The last message as the question, the others as its history. Raises Refusal."""
    _check(request)
    _refuse_if(bool(request.tools), "tools", "tools are not supported", "leave the field out")
    _refuse_if(bool(request.functions), "functions", "functions are not supported", "leave the field out")
    _refuse_if(bool(request.logprobs or request.top_logprobs), "logprobs", "logprobs are not supported")
    kind = (request.response_format or {}).get("type", "text")
    _refuse_if(kind != "text", "response_format", f"response_format {kind!r} is not supported", "ask for text")
    _refuse_if("audio" in (request.modalities or ()), "modalities", "audio is not supported")
    turns = [_turn(message, number) for number, message in enumerate(request.messages)]
    _refuse_if(not turns or turns[-1].role != "user", "messages", "the last message must be the user's")
    _refuse_if(not turns[-1].content.strip(), "messages", "the last message is empty")
    extension = request.unabridged
    return Question(
        text=turns[-1].content,
        collection=collection,
        **{name: getattr(extension, name) for name in Narrowing.__struct_fields__},
        mode=extension.mode,
        history=tuple(turns[:-1]),
        sampling=_sampling(request, request.max_completion_tokens or request.max_tokens, defaults),
        store=False,
    )


def prompt_of(request: CompletionRequest, defaults: AnswerSettings) -> tuple[str, Sampling]:
    """The text to continue and how. Raises Refusal."""
    _check(request)
    _refuse_if(request.logprobs is not None, "logprobs", "logprobs are not supported")
    _refuse_if(bool(request.echo), "echo", "echo is not supported")
    _refuse_if(bool(request.suffix), "suffix", "suffix is not supported")
    _refuse_if((request.best_of or 1) > 1, "best_of", "best_of is not supported", "ask once for each answer")
    prompts = (request.prompt,) if isinstance(request.prompt, str) else request.prompt
    single = len(prompts) == 1 and isinstance(prompts[0], str)
    _refuse_if(not single, "prompt", "prompt must be one text", "token ids and several prompts are not supported")
    _refuse_if(not prompts[0], "prompt", "the prompt is empty")
    return prompts[0], _sampling(request, request.max_tokens, defaults)


def _check(request: _Common) -> None:
    """What no request of either kind may ask for."""
    _refuse_if((request.n or 1) != 1, "n", f"n is {request.n}, only 1 is supported", "ask once for each answer")
    for name in ("presence_penalty", "frequency_penalty"):
        value = getattr(request, name)
        _refuse_if(bool(value), name, f"{name} {value:g} is not supported" if value else "", "use repetition_penalty")
    _refuse_if(bool(request.logit_bias), "logit_bias", "logit_bias is not supported")


def _turn(message: ChatMessage, number: int) -> Turn:
    where = f"messages[{number}]"
    text = _text(message.content, where)
    if message.role in ("system", "developer"):
        return Turn("system", text)
    if message.role == "user":
        return Turn("user", text)
    if message.role == "assistant":
        return Turn("assistant", without_sources(text))
    raise Refusal(f"{where}.role {message.role!r} is not supported", param=f"{where}.role")


def _text(content: str | tuple[ContentPart, ...] | None, where: str) -> str:
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    for number, part in enumerate(content):
        if part.type != "text" or part.text is None:
            raise Refusal(
                f"{where}.content[{number}] is of type {part.type!r}, only text can be read",
                "add files with POST /v1/documents",
                param=f"{where}.content[{number}]",
            )
    return "\n".join(part.text or "" for part in content)


def _sampling(request: _Common, max_tokens: int | None, defaults: AnswerSettings) -> Sampling:
    stop = (request.stop,) if isinstance(request.stop, str) else request.stop or ()
    _refuse_if(len(stop) > MAX_STOPS, "stop", f"stop has {len(stop)} texts, at most {MAX_STOPS} are supported")
    _refuse_if("" in stop, "stop", "stop has an empty text")
    _refuse_if(not fits(request.seed), "seed", "seed must fit 64 bits")
    penalty = request.repetition_penalty if request.repetition_penalty is not None else request.repeat_penalty
    return Sampling(
        temperature=_within(request.temperature, defaults.temperature, "temperature", 0, 2),
        top_p=_within(request.top_p, defaults.top_p, "top_p", 0, 1),
        top_k=int(_within(request.top_k, 0, "top_k", 0, 1 << 20)),
        min_p=_within(request.min_p, 0.0, "min_p", 0, 1),
        repetition_penalty=_within(penalty, defaults.repetition_penalty, "repetition_penalty", 0.1, 2),
        seed=request.seed,
        max_tokens=int(_within(max_tokens, defaults.max_tokens, "max_tokens", 1, 1 << 20)),
        stop=stop,
    )


def _within(value: float | None, default: float, name: str, least: float, most: float) -> float:
    if value is None:
        return default
    # As they are: a whole number may be too large to be a float.
    _refuse_if(not least <= value <= most, name, f"{name} is {value}, it must lie between {least} and {most}")
    return value


def fits(number: int | None) -> bool:
    """Whether a whole number can travel to the engine."""
    return number is None or -(1 << 63) <= number < 1 << 63


def _refuse_if(refused: bool, param: str, message: str, hint: str = "") -> None:
    if refused:
        raise Refusal(message, hint, param=param)
