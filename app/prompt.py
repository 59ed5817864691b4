"""What the model is told: a constant prefix, the documents behind it, then the conversation.

The prefix never changes, so that what was read behind it serves every question, conversation and collection. The words
are few and plain because a model of 135M parameters has to follow them; docs/log.md has the figures they were chosen
by. Knows token ids; knows no documents.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from unabridged.app.events import Turn
from unabridged.models.errors import ModelUnsupported

if TYPE_CHECKING:
    from unabridged.models.tokenizer import Tokenizer

SYSTEM = "You are a helpful assistant. Answer from these documents.\n\n"
# Any text that no document or question contains serves; it never reaches the model.
_MARKER = "\ue000documents\ue001"
_OPENING = ("system", SYSTEM + _MARKER)


@dataclass(frozen=True)
class Conversation:
    """The ids behind the documents, and how many of the oldest exchanges had to be left out."""

    ids: list[int]
    dropped: int


class Prompt:
    """Token ids around the documents, for one model."""

    def __init__(self, tokenizer: "Tokenizer") -> None:
        self._tokenizer = tokenizer

    @cached_property
    def prefix(self) -> list[int]:
        """The ids in front of every segment. Raises ModelUnsupported: the model has no chat template."""
        return self._around([Turn("user", "?")])[0]

    def conversation(self, turns: Sequence[Turn], limit: int) -> Conversation:
        """The ids of a conversation that ends with a question; without its oldest exchanges where they exceed `limit`
        tokens. The last question is always there."""
        kept, dropped = list(turns), 0
        while True:
            ids = self._around(kept)[1]
            oldest = _exchange(kept)
            if len(ids) <= limit or not oldest:
                return Conversation(ids, dropped)
            kept = [turn for turn in kept if turn not in oldest]
            dropped += 1

    def without_documents(self, turns: Sequence[Turn]) -> list[int]:
        """The ids of a plain conversation. Where the template refuses a system turn, what it says opens the first
        question."""
        try:
            return self._tokenizer.chat(_pairs(turns))
        except ModelUnsupported:
            folded = _folded(turns)
            if folded == _pairs(turns):
                raise
            return self._tokenizer.chat(folded)

    def _around(self, turns: Sequence[Turn]) -> tuple[list[int], list[int]]:
        spoken = _folded(turns)
        if self._has_system:
            return self._tokenizer.chat_around([_OPENING, *spoken], _MARKER)
        # The documents open the first message instead.
        role, content = spoken[0]
        return self._tokenizer.chat_around([(role, f"{SYSTEM}{_MARKER}{content}"), *spoken[1:]], _MARKER)

    @cached_property
    def _has_system(self) -> bool:
        """Whether the template puts a system turn in front of everything. Some refuse one, some put it into the last
        question, where nothing that was read behind it would serve the next one."""
        exchange = [("user", "?"), ("assistant", "!"), ("user", "?")]
        try:
            first, later = (self._tokenizer.chat_around([_OPENING, *exchange[:n]], _MARKER)[0] for n in (1, 3))
        except ModelUnsupported:
            return False
        return first == later


def _folded(turns: Sequence[Turn]) -> list[tuple[str, str]]:
    """Without system turns: what they say opens the first of the others."""
    instructions = "\n".join(turn.content for turn in turns if turn.role == "system")
    spoken = _pairs([turn for turn in turns if turn.role != "system"])
    if instructions and spoken:
        role, content = spoken[0]
        spoken[0] = (role, f"{instructions}\n\n{content}")
    return spoken


def _pairs(turns: Sequence[Turn]) -> list[tuple[str, str]]:
    return [(turn.role, turn.content) for turn in turns]


def _exchange(turns: Sequence[Turn]) -> list[Turn]:
    """The oldest question with its answer, unless it is the question that is being asked."""
    spoken = [turn for turn in turns if turn.role != "system"]
    return spoken[:2] if len(spoken) > 2 else []
