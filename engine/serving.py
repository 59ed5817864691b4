"""The requests of one loaded model, each a generator of events: hold the segments' KV, answer, release.

Closing a generator anywhere releases what it held; finished KV stays for the next one. Several may take turns. A
request whose context does not fit beside those under way waits until one of them has ended.
"""

import time
from array import array
from collections.abc import Callable, Iterator, Sequence
from typing import Generic, TypeVar

import numpy as np

from unabridged.engine.ahead import Ahead, Identity
from unabridged.engine.answer import Answer
from unabridged.engine.attention.config import AttentionConfig
from unabridged.engine.composing import Composer, Part
from unabridged.engine.errors import BadRequest, ContextTooLong, OutOfMemory
from unabridged.engine.events import AttentionChoice, Event, Generate, Prefill
from unabridged.engine.kv.blocks import whole_blocks
from unabridged.engine.kv.cache import KvCache
from unabridged.engine.kv.late import LateStore
from unabridged.engine.layout import filled
from unabridged.engine.reading import Held, Reader
from unabridged.engine.runner import CourseT, Runner
from unabridged.engine.sampling import check
from unabridged.models.tokenizer import Tokenizer

WorkT = TypeVar("WorkT", Generate, Prefill)


class Serving(Generic[CourseT]):
    """See the module."""

    def __init__(
        self,
        runner: Runner[CourseT],
        cache: KvCache,
        store: LateStore | None,
        tokenizer: Tokenizer,
        vocabulary: int,
        config: AttentionConfig,
        choose: Callable[[AttentionChoice], AttentionConfig],
        identity: Identity,
        selection: str = "",
    ) -> None:
        """`vocabulary`: token ids lie below it; `config`: how segments are read; `choose`: a request's attention,
        raises BadRequest; `identity`: what stored KV depends on besides the tokens; `selection`: and, past the
        window, besides `config`."""
        self._runner, self._cache, self._tokenizer = runner, cache, tokenizer
        self._vocabulary, self._choose = vocabulary, choose
        filler = tokenizer.encode("\n")[0]
        self._reader = Reader(runner, cache, store, config, filler)
        self._composer = Composer(identity.fingerprint, runner.page, config, selection)
        self._ahead = Ahead(self._reader, cache, store, runner.page, identity)
        self._running = self._waiting = self._ended = 0

    def run(self, request: Generate | Prefill) -> Iterator[Event | None]:
        """See engine.backend.Backend."""
        if isinstance(request, Generate):
            return self._patiently(self._answer, request)
        return self._patiently(self._prefill, request)

    def _patiently(
        self, attempt: Callable[[WorkT, Held], Iterator[Event | None]], request: WorkT
    ) -> Iterator[Event | None]:
        """The attempt's events. One that finds no slots, which it does before all events, is made again later."""
        self._running += 1
        try:
            while True:
                held = Held()
                try:
                    yield from attempt(request, held)
                    return
                except OutOfMemory:
                    if self._running == self._waiting + 1:
                        raise
                finally:
                    for entry in held.holds:
                        self._cache.release(entry)
                yield from self._until_one_has_ended()
        finally:
            self._running -= 1
            self._ended += 1

    def _until_one_has_ended(self) -> Iterator[None]:
        ended = self._ended
        self._waiting += 1
        try:
            while ended == self._ended:
                yield None
        finally:
            self._waiting -= 1

    def _prefill(self, request: Prefill, held: Held) -> Iterator[Event | None]:
        parts = self._parts(request)
        if request.composition == "joint":
            self._check(parts, array("i"))
        for part in parts:
            # Each may be behind the prefix; what stands beside it is not in the pool at the same time.
            self._check([*parts[: min(part.behind, 1)], part], array("i"))
        yield from self._ahead.run(request, parts, held)

    def _answer(self, request: Generate, held: Held) -> Iterator[Event | None]:
        began = time.perf_counter()
        check(request.sampling)
        config = self._choose(request.attention)
        prompt, parts = array("i", request.prompt), self._parts(request)
        self._check(parts, prompt)
        yield from self._reader.hold(request.id, parts, held, len(prompt) + self._runner.ahead)
        context = self._composer.context(parts)

        def notes() -> tuple[str, ...]:
            self._reader.settle(held)
            return tuple(held.notes)

        answer = Answer(self._runner, self._tokenizer, self._cache, config, request, held, context, notes)
        yield from answer.run(began)

    def _parts(self, request: Generate | Prefill) -> list[Part]:
        segments = (segment.ids for segment in request.segments)
        return self._composer.parts(request.prefix, segments, request.composition)

    def _check(self, parts: Sequence[Part], prompt: "array[int]") -> None:
        """Refuse what can be seen to fail before any work."""
        for run in filter(None, (prompt.tobytes(), *(part.ids for part in parts))):
            # A million tokens in a moment.
            ids = np.frombuffer(run, dtype=np.int32)
            wrong = ids[(ids < 0) | (ids >= self._vocabulary)]
            if len(wrong):
                raise BadRequest(f"token id {wrong[0]} is not in the vocabulary of {self._vocabulary}")
        unique = {part.key: part.tokens for part in parts}
        wanted = sum(map(whole_blocks, unique.values())) + whole_blocks(len(prompt) + self._runner.ahead)
        whole = sum(filled(part.tokens, self._runner.page) for part in parts) + len(prompt)
        limit = min(self._cache.pool.slots, self._runner.room)
        wanted = max(wanted, whole + self._runner.ahead)
        if wanted > limit:
            tokens = sum(part.tokens for part in parts) + len(prompt)
            raise ContextTooLong(
                f"the context has {tokens:,} tokens and needs {wanted:,} slots of KV memory; there are {limit:,}",
                "ask over fewer documents or raise the engine's kv_bytes",
                tokens=tokens,
                limit=limit,
            )
