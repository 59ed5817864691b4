"""Chat templates: from turns to text whose special tokens come from the template alone. Torch-free.

A turn's content is data. Where it spells a special token ("<|im_end|>" in a mail), a mark character that occurs nowhere
else is slipped behind its first letter before rendering and taken out after splitting, so that no content can open or
close a turn, while templates that trim, slice or test contents see them as they are.
It knows text, not ids: `unabridged.models.tokenizer` encodes the pieces.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from typing import Any, NoReturn

from jinja2 import TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from unabridged.models.errors import ModelDamaged, ModelUnsupported

Turn = tuple[str, str]

# Characters of Unicode's private use area: the marks are the first two that no content and no template contains.
_PRIVATE = range(0xE000, 0xF8FF)
# What templates that print today's date get (Llama 3.2's), as those without a clock print it (Llama 3.1's): documents
# are read behind the system text, and with the date of the day all of them would be read again every morning.
_DAY = datetime(2024, 7, 26)


@dataclass(frozen=True, slots=True)
class Special:
    """A special token as the template may write it; `strip` says on which sides it swallows white space."""

    text: str
    id: int
    strip_left: bool = False
    strip_right: bool = False


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of the rendered chat: a special token's id, or plain text. `split` marks the place of the marker."""

    special: int | None = None
    text: str = ""
    split: bool = False


class ChatTemplate:
    """One model's Jinja template, rendered in a sandbox."""

    def __init__(self, source: str, specials: Iterable[Special], names: dict[str, str]) -> None:
        """`names`: what the template may refer to, such as bos_token. Raises ModelDamaged when it does not compile."""
        self._source = source
        self._specials = tuple(sorted(specials, key=lambda special: -len(special.text)))
        self._names = names
        try:
            self._template = _environment().from_string(source)
        except TemplateError as error:
            raise ModelDamaged(f"the model's chat template does not compile: {error}") from error

    def pieces(self, turns: Sequence[Turn], generation_prompt: bool, marker: str | None = None) -> list[Piece]:
        """Render and split. With `marker`, the one place in a content where it stands becomes Piece(split=True).

        Raises ModelUnsupported when the template refuses these turns, ValueError when the marker is not there once.
        """
        guard, place = self._marks(turns)
        contents = [self._guarded(content, guard) for _, content in turns]
        if marker is not None:
            contents = _put_place(contents, self._guarded(marker, guard), place)
        messages = [{"role": role, "content": text} for (role, _), text in zip(turns, contents, strict=True)]
        text = self._render(messages, generation_prompt)
        if marker is not None and text.count(place) != 1:
            raise ModelUnsupported(f"the chat template shows the marked content {text.count(place)} times, not once")
        return list(self._split(text, guard, place))

    def _marks(self, turns: Sequence[Turn]) -> tuple[str, str]:
        used = set(chain(self._source, *(content for _, content in turns)))
        free = (chr(code) for code in _PRIVATE if chr(code) not in used)
        return next(free), next(free)

    def _guarded(self, content: str, guard: str) -> str:
        if not self._specials:
            return content
        begins = "|".join(re.escape(special.text) for special in self._specials)
        return re.sub(f"(?=({begins}))(.)", rf"\g<2>{guard}", content, flags=re.DOTALL)

    def _render(self, messages: list[dict[str, str]], generation_prompt: bool) -> str:
        try:
            return self._template.render(messages=messages, add_generation_prompt=generation_prompt, **self._names)
        except (TemplateError, TypeError, ValueError, ArithmeticError, LookupError, AttributeError) as error:
            # What Python raises for an expression is the template's fault too.
            roles = ", ".join(message["role"] for message in messages)
            raise ModelUnsupported(f"the model's chat template refuses turns ({roles}): {error}") from error

    def _split(self, text: str, guard: str, place: str) -> Iterable[Piece]:
        end = 0
        for match in re.finditer(self._pattern(place), text):
            yield from _plain(text[end : match.start()], guard)
            yield Piece(split=True) if match[0] == place else Piece(special=self._id(match))
            end = match.end()
        yield from _plain(text[end:], guard)

    def _pattern(self, place: str) -> str:
        def one(index: int, special: Special) -> str:
            left, right = r"\s*" * special.strip_left, r"\s*" * special.strip_right
            return f"(?P<s{index}>{left}{re.escape(special.text)}{right})"

        return "|".join([re.escape(place), *(one(index, special) for index, special in enumerate(self._specials))])

    def _id(self, match: re.Match[str]) -> int:
        assert match.lastgroup is not None
        return self._specials[int(match.lastgroup[1:])].id


def _plain(text: str, guard: str) -> Iterable[Piece]:
    if text:
        yield Piece(text=text.replace(guard, ""))


def _put_place(contents: list[str], marker: str, place: str) -> list[str]:
    count = sum(content.count(marker) for content in contents)
    if count != 1:
        raise ValueError(f"the marker stands {count} times in the contents, not once")
    return [content.replace(marker, place) for content in contents]


def _environment() -> ImmutableSandboxedEnvironment:
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
    )
    environment.globals["raise_exception"] = _refuse
    environment.globals["strftime_now"] = _DAY.strftime
    # Qwen3 would think aloud first, and what it thinks would count as its answer.
    environment.globals["enable_thinking"] = False
    environment.filters["tojson"] = _tojson
    return environment


def _refuse(message: str) -> NoReturn:
    raise TemplateError(message)


def _tojson(value: Any, indent: int | None = None) -> str:
    import json

    return json.dumps(value, ensure_ascii=False, indent=indent)
