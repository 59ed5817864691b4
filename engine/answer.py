"""One answer: prefill the prompt behind the held segments, then decode token by token.

It knows one request. What it computes of the conversation stays in the cache under the context's name, so that the next
turn, whose prompt begins with the same tokens, prefills only what is new.
"""

import time
from array import array
from collections.abc import Generator, Iterator
from typing import Literal

import torch
from torch import Tensor

from unabridged.engine.attention.attend import ContextAttention, Shape
from unabridged.engine.attention.config import AttentionConfig
from unabridged.engine.attention.rope import Rotary
from unabridged.engine.attention.witness import Witness
from unabridged.engine.errors import BadRequest, Cancelled, OutOfMemory
from unabridged.engine.events import Event, Finished, Generate, Progress, Token, Usage
from unabridged.engine.kv.cache import Entry, KvCache
from unabridged.engine.kv.pool import KvPool
from unabridged.engine.kv.tables import Context
from unabridged.engine.reading import Held
from unabridged.engine.sampling import Sampler
from unabridged.engine.textstop import AnswerText
from unabridged.models.llama import Llama
from unabridged.models.tokenizer import Tokenizer

Reason = Literal["stop", "length", "cancelled"]

# Slots taken at a time while the answer grows.
_GROWTH = 256


class Answer:
    """The run of one Generate request whose segments are held."""

    def __init__(
        self,
        model: Llama,
        rotary: Rotary,
        shape: Shape,
        tokenizer: Tokenizer,
        cache: KvCache[KvPool],
        config: AttentionConfig,
        request: Generate,
        held: Held,
        context_key: str,
    ) -> None:
        """Raises BadRequest for an empty prompt."""
        self._model, self._tokenizer, self._cache, self._config = model, tokenizer, cache, config
        self._request, self._held = request, held
        self._prompt = array("i", request.prompt)
        if not self._prompt:
            raise BadRequest("the prompt is empty", "send at least one token")
        self._sampler = Sampler(request.sampling, self._prompt)
        self._context_key = context_key
        self._rotary, self._shape = rotary, shape
        self._generated = 0

    def run(self, began: float, chunk: int) -> Iterator[Event | None]:
        """All events of the request from here on. `began`: when the request started, for the report."""
        end, reused = self._conversation()
        try:
            attention = self._attention(end, reused)
            logits = yield from self._question(end, attention, chunk)
            prefilled = time.perf_counter()
            try:
                reason = yield from self._decode(end, attention, logits)
            except Cancelled:
                reason = "cancelled"
            yield Finished(
                id=self._request.id,
                reason=reason,
                usage=Usage(
                    prompt=self._held.tokens + len(self._prompt),
                    cached=self._held.cached + reused,
                    completion=self._generated,
                ),
                attention=attention.report(),
                prefill_seconds=prefilled - began,
                decode_seconds=time.perf_counter() - prefilled,
                notes=tuple(self._held.notes),
            )
        finally:
            self._cache.release(end)

    def _conversation(self) -> tuple[Entry, int]:
        """The entry that holds this conversation's KV, and how many of the prompt's tokens it has."""
        # The last token of the prompt always runs: its logits are the first answer token's.
        found = self._cache.longest_end(self._context_key, self._prompt[:-1])
        if found is None:
            return self._cache.add(self._cache.new_end(self._context_key), len(self._prompt) + 1), 0
        entry, common = found
        self._cache.trim(entry, common)
        try:
            self._cache.grow(entry, len(self._prompt) + 1 - entry.reserved)
        except OutOfMemory:
            self._cache.release(entry)
            raise
        return entry, common

    def _attention(self, end: Entry, reused: int) -> ContextAttention:
        runs = [run for entry in self._held.order for run in entry.filled()]
        context = Context(self._cache.pool, runs, end.runs)
        context.length += reused
        return ContextAttention(context, self._config, self._shape, self._rotary)

    def _question(self, end: Entry, attention: ContextAttention, chunk: int) -> Generator[Event | None, None, Tensor]:
        total = len(self._prompt) - len(end.ids)
        logits = torch.zeros(0)
        while left := len(self._prompt) - len(end.ids):
            tokens = attention.fits(min(chunk, left))
            at = len(end.ids)
            logits = self._forward(end, attention, self._prompt[at : at + tokens])
            yield Progress(
                id=self._request.id, phase="question", done=len(end.ids) - len(self._prompt) + total, total=total
            )
        return logits

    @torch.inference_mode()
    def _forward(self, end: Entry, attention: ContextAttention, ids: "array[int]") -> Tensor:
        """Run `ids` at the context's end; the last one's logits `[V]`."""
        attention.begin(len(ids))
        hidden = self._model.forward(torch.tensor(ids), attention)
        attention.end()
        end.ids.extend(ids)
        return self._model.logits(hidden[-1:])[0]

    def _decode(self, end: Entry, attention: ContextAttention, logits: Tensor) -> Generator[Event | None, None, Reason]:
        text = _Text(self._tokenizer, self._request)
        if self._request.attribution:
            start = len(self._held.order[0].ids) if self._request.prefix else 0
            attention.witness = Witness(start, self._held.tokens)
        for count in range(1, self._request.sampling.max_tokens + 1):
            token = self._sampler(logits)
            self._generated = count
            if token in self._tokenizer.eos_ids:
                yield text.finish()
                return "stop"
            event = text.push(token, attention.witness)
            yield event
            if text.stopped:
                return "stop"
            if count == self._request.sampling.max_tokens or not self._room(end, attention):
                break
            logits = self._forward(end, attention, array("i", [token]))
        yield text.finish()
        return "length"

    def _room(self, end: Entry, attention: ContextAttention) -> bool:
        """Whether one more token has a slot."""
        if attention.context.length < attention.context.reserved:
            return True
        try:
            attention.context.extend(self._cache.grow(end, _GROWTH))
        except OutOfMemory:
            self._held.notes.append("the KV memory is full: the answer ends here")
            return False
        return True


class _Text:
    """Tokens to text events, with where attention looked when the text was written."""

    def __init__(self, tokenizer: Tokenizer, request: Generate) -> None:
        self._id = request.id
        self._answer = AnswerText(tokenizer.stream(), request.sampling.stop)
        self._attended: tuple[tuple[int, float], ...] = ()

    @property
    def stopped(self) -> bool:
        """Whether a stop string completed."""
        return self._answer.stopped

    def push(self, token: int, witness: Witness | None) -> Token | None:
        """The event of the text that became certain, if any."""
        if witness is not None:
            self._attended = witness.shares() or self._attended
        return self._event(self._answer.push(token))

    def finish(self) -> Token | None:
        """The event of what was held back."""
        return self._event(self._answer.finish())

    def _event(self, piece: tuple[str, tuple[int, ...]] | None) -> Token | None:
        return piece and Token(id=self._id, text=piece[0], ids=piece[1], attended=self._attended)
