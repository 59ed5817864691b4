"""What computes for requests: forward passes over contexts and the choice of tokens, on one device.

`reading` decides what is read and stored, `answer` makes events of tokens; both work on any Runner. A runner knows
slots of KV and token ids, neither documents nor text nor the cache. Positions and lengths count slots: what is composed
of several entries may hold filler tokens between them (`layout`).
"""

from array import array
from collections.abc import Iterable, Sequence
from typing import Protocol, TypeVar

from unabridged.engine.attention.config import AttentionConfig
from unabridged.engine.events import AttentionReport, Sampling
from unabridged.engine.kv.blocks import Run


class Course(Protocol):
    """A context on its way: tokens are appended to it, read by the runner or chosen here."""

    @property
    def length(self) -> int:
        """Tokens whose KV is there."""
        ...

    @property
    def short(self) -> bool:
        """Whether it needs more slots before another token is chosen."""
        ...

    def fits(self, room: int, left: int) -> int:
        """How many of `left` tokens a forward pass with room for `room` may take; more where what is stored is streamed
        for it anyway. Those that others follow end where a block of queries does, if they can: what a block selects
        does not depend on how a prompt was cut."""
        ...

    def extend(self, runs: Iterable[Run]) -> None:
        """More slots at the end."""
        ...

    def first(self, sampling: Sampling, prompt: Sequence[int], span: tuple[int, int] | None) -> int:
        """Choose the token after what was read last. `prompt`: what a repetition penalty counts besides the answer;
        `span`: the positions start..end-1 of which `looked` shall tell."""
        ...

    def next(self) -> int:
        """Append the token that was chosen last and choose the one after it. Needs a slot (`short`)."""
        ...

    def looked(self) -> tuple[tuple[int, float], ...]:
        """Where attention looked since the last call: (first position of 16, share of the span's mass), largest first,
        32 at most. Empty where nothing new is known."""
        ...

    def report(self) -> AttentionReport:
        """How the context was attended so far."""
        ...

    def close(self) -> None:
        """No more tokens; the slots are no longer written to."""
        ...


CourseT = TypeVar("CourseT", bound=Course)


class Runner(Protocol[CourseT]):
    """One device with a model on it and a pool of KV. `page`: an entry that others follow fills up so many slots;
    `packs`: whether short entries share a pass, which is faster and rounds each by what else is in it; `ahead`: slots
    that an answer needs behind its prompt when it begins; `room`: slots of a context at most, those that stand in it
    twice counted twice."""

    page: int
    packs: bool
    ahead: int
    room: int

    def course(self, filled: Sequence[Run], room: Sequence[Run], read: int, config: AttentionConfig) -> CourseT:
        """A context of the slots `filled` and then `room`, of which the first `read` hold KV already."""
        ...

    def chunk(self) -> int:
        """Tokens that the next forward pass may read, 0 while it is the turn of answers under way."""
        ...

    def read(self, parts: Sequence[tuple[CourseT, "array[int]"]]) -> None:
        """One forward pass that appends tokens to each of these contexts."""
        ...
