"""One answer: prefill the prompt behind the held segments, then decode token by token.

It knows one request. What it computes of the conversation stays in the cache under the context's name, so that the next
turn, whose prompt begins with the same tokens, prefills only what is new.
"""

import time
from array import array
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Generic, Literal

import msgspec

from unabridged.engine.attention.config import AttentionConfig
from unabridged.engine.errors import BadRequest, Cancelled, OutOfMemory
from unabridged.engine.events import AttentionReport, Event, Finished, Generate, Progress, Token, Usage
from unabridged.engine.kv.cache import Entry, KvCache
from unabridged.engine.layout import Layout
from unabridged.engine.reading import Held
from unabridged.engine.runner import CourseT, Runner
from unabridged.engine.textstop import AnswerText
from unabridged.models.tokenizer import Tokenizer

Reason = Literal["stop", "length", "cancelled"]

# Slots taken at a time while the answer grows.
_GROWTH = 256


class Answer(Generic[CourseT]):
    """The run of one Generate request whose segments are held."""

    def __init__(
        self,
        runner: Runner[CourseT],
        tokenizer: Tokenizer,
        cache: KvCache,
        config: AttentionConfig,
        request: Generate,
        held: Held,
        context_key: str,
        notes: Callable[[], tuple[str, ...]],
    ) -> None:
        """`notes`: what is to be said at the end. Raises BadRequest for an empty prompt."""
        self._notes = notes
        self._runner, self._tokenizer, self._cache, self._config = runner, tokenizer, cache, config
        self._request, self._held = request, held
        self._prompt = array("i", request.prompt)
        if not self._prompt:
            raise BadRequest("the prompt is empty", "send at least one token")
        self._context_key = context_key
        self._generated = 0

    def run(self, began: float) -> Iterator[Event | None]:
        """All events of the request from here on. `began`: when the request started, for the report."""
        end, reused = self._conversation()
        try:
            filled = [run for entry in self._held.order for run in entry.filled()]
            course = self._runner.course(filled, end.runs, self._held.layout.slots + reused, self._config)
            try:
                yield from self._answer(end, reused, course, began)
            finally:
                course.close()
        finally:
            self._cache.release(end)

    def _answer(self, end: Entry, reused: int, course: CourseT, began: float) -> Iterator[Event | None]:
        yield from self._question(end, course)
        prefilled = time.perf_counter()
        try:
            reason = yield from self._decode(end, course)
        except Cancelled:
            reason = "cancelled"
        yield Finished(
            id=self._request.id,
            reason=reason,
            usage=Usage(
                prompt=self._held.layout.tokens + len(self._prompt),
                cached=self._held.cached + reused,
                completion=self._generated,
            ),
            attention=_counted(course.report(), self._held.layout),
            prefill_seconds=prefilled - began,
            decode_seconds=time.perf_counter() - prefilled,
            notes=self._notes(),
        )

    def _conversation(self) -> tuple[Entry, int]:
        """The entry that holds this conversation's KV, and how many of the prompt's tokens it has."""
        wanted = len(self._prompt) + self._runner.ahead
        # The last token of the prompt always runs: its logits are the first answer token's.
        found = self._cache.longest_end(self._context_key, self._prompt[:-1])
        if found is None:
            return self._cache.add(self._cache.new_end(self._context_key), wanted), 0
        entry, common = found
        self._cache.trim(entry, common)
        try:
            self._cache.grow(entry, wanted - entry.reserved)
        except OutOfMemory:
            self._cache.release(entry)
            raise
        return entry, common

    def _question(self, end: Entry, course: CourseT) -> Iterator[Event | None]:
        total = len(self._prompt) - len(end.ids)
        while left := len(self._prompt) - len(end.ids):
            while not (room := self._runner.chunk()):
                yield None
            at = len(end.ids)
            ids = self._prompt[at : at + course.fits(room, left)]
            self._runner.read([(course, ids)])
            end.ids.extend(ids)
            yield Progress(
                id=self._request.id, phase="question", done=len(end.ids) - len(self._prompt) + total, total=total
            )

    def _decode(self, end: Entry, course: CourseT) -> Generator[Event | None, None, Reason]:
        layout, most = self._held.layout, self._request.sampling.max_tokens
        text = _Text(self._tokenizer, self._request, layout)
        span = (layout.place(1 if self._request.prefix else 0), layout.slots)
        token = course.first(self._request.sampling, self._prompt, span if self._request.attribution else None)
        for count in range(1, most + 1):
            self._generated = count
            if token in self._tokenizer.eos_ids:
                yield text.finish()
                return "stop"
            yield text.push(token, course.looked())
            if text.stopped:
                return "stop"
            if count == most or not self._room(end, course):
                break
            following = course.next()
            end.ids.append(token)
            token = following
        yield text.finish()
        return "length"

    def _room(self, end: Entry, course: CourseT) -> bool:
        """Whether one more token has a slot."""
        if not course.short:
            return True
        try:
            course.extend(self._cache.grow_at_most(end, _GROWTH))
        except OutOfMemory:
            self._held.notes.append("the KV memory is full: the answer ends here")
            return False
        return True


def _counted(report: AttentionReport, layout: Layout) -> AttentionReport:
    """The report without the filler."""
    context = report.context - (layout.slots - layout.tokens)
    return msgspec.structs.replace(report, context=context, attended=min(report.attended, context))


class _Text:
    """Tokens to text events, with where attention looked when the text was written."""

    def __init__(self, tokenizer: Tokenizer, request: Generate, layout: Layout) -> None:
        self._id, self._layout = request.id, layout
        self._answer = AnswerText(tokenizer.stream(), request.sampling.stop)
        self._attended: tuple[tuple[int, float], ...] = ()

    @property
    def stopped(self) -> bool:
        """Whether a stop string completed."""
        return self._answer.stopped

    def push(self, token: int, looked: Sequence[tuple[int, float]]) -> Token | None:
        """The event of the text that became certain, if any. `looked`: by slots, empty where nothing new is known."""
        if looked:
            places = ((self._layout.position(slot), share) for slot, share in looked)
            self._attended = tuple((place, share) for place, share in places if place is not None)
        return self._event(self._answer.push(token))

    def finish(self) -> Token | None:
        """The event of what was held back."""
        return self._event(self._answer.finish())

    def _event(self, piece: tuple[str, tuple[int, ...]] | None) -> Token | None:
        return piece and Token(id=self._id, text=piece[0], ids=piece[1], attended=self._attended)
