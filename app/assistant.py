"""Joins library, engine and conversation: a question in, a stream of events out.

Asyncio on the caller's loop; the library's blocking work runs in threads. Errors are raised as UnabridgedError out of
the iterators, before or in a stream: the server turns them into its own shapes. Closing an iterator cancels
the engine's request. Knows no HTTP and no terminal.
"""

import asyncio
import secrets
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

import msgspec

from unabridged.app.checking import Said, check
from unabridged.app.context import Layout, Section, display_name
from unabridged.app.conversations import new_id, turns
from unabridged.app.errors import HistoryUnavailable, SettingsInvalid
from unabridged.app.events import Answer, AskEvent, Delta, Question, ReadAheadEvent, Stage, Turn
from unabridged.app.prompt import Prompt
from unabridged.app.reading_ahead import Ahead, Reach
from unabridged.app.receipt import announcement, receipt
from unabridged.app.routing import Ask, Limits, Plan, Planner
from unabridged.app.selection import meant
from unabridged.engine.errors import BadRequest, ContextTooLong
from unabridged.engine.events import (
    AttentionChoice,
    Composition,
    Finished,
    Generate,
    Prefill,
    Progress,
    Queued,
    Ready,
    Sampling,
    Segment,
    Token,
    Usage,
    pack_ids,
)
from unabridged.ingest.catalog.filters import Filter

if TYPE_CHECKING:
    from unabridged.app.conversations import Conversations
    from unabridged.app.settings import EngineSettings, Settings
    from unabridged.app.supervisor import Supervisor
    from unabridged.ingest.library import Library
    from unabridged.models.registry import InstalledModel
    from unabridged.models.tokenizer import Tokenizer

T = TypeVar("T")

# The conversation may take this share of the window; the rest is for documents.
_CONVERSATION_SHARE = 2
# Of the engine's notes, which may be one a section.
_MOST_NOTES = 3
# Kept free for sentences that focused mode repeats.
_HINT_TOKENS = 768


class Completed(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a plain completion."""

    text: str
    reason: str  # "stop" | "length" | "cancelled"
    usage: Usage


@dataclass(frozen=True)
class _Exchange:
    """A question on its way to the engine."""

    question: Question
    conversation: str
    history: tuple[Turn, ...]
    plan: Plan
    layout: Layout
    prompt: list[int]
    notes: tuple[str, ...]

    @property
    def bare(self) -> bool:
        """Whether it is asked without documents."""
        return not self.question.collection


class Assistant:
    """Answers questions over the documents of a library.

    `assemble` in app/assembly.py builds one from settings and locations; `start` before the first question, `close` at
    the end. The library is shared with the server and stays open.
    """

    def __init__(
        self,
        *,
        settings: "Settings",
        library: "Library",
        supervisor: "Supervisor",
        tokenizer: "Tokenizer",
        model: "InstalledModel",
        conversations: "Conversations",
    ) -> None:
        self.settings = settings
        self.library = library
        self.supervisor = supervisor
        self.tokenizer = tokenizer
        self.model = model
        self.conversations = conversations
        self._prompt = Prompt(tokenizer)
        self._planner = Planner(library, tokenizer, model.defaults, model.parameters)
        self._planning = asyncio.Lock()
        self._ahead = Ahead(supervisor)

    async def start(self) -> Ready:
        """Start the engine. Raises EngineUnavailable."""
        return await self.supervisor.start()

    async def close(self) -> None:
        """Stop the engine."""
        await self.supervisor.close()

    async def ask(self, question: Question) -> AsyncGenerator[AskEvent, None]:
        """Answer: Stage* (Delta | Stage)* Answer.

        A question with `collection=""` is asked without documents. Receipt fields serve as usage: prompt tokens =
        `context`, cached = `cached`, completion = `completion`.
        `conversation` of the answer is empty where nothing was kept. A history that cannot be written is a note.
        Raises CollectionNotFound, NothingToRead, ConversationNotFound, HistoryUnavailable (of a conversation that is
        continued), ContextTooLong, EngineError; nothing is stored then.
        """
        began = time.monotonic()
        question = self._with_settings(question)
        if self.supervisor.ready is None:
            yield Stage(name="start", text=f"loading the model {self.model.name}")
        ready = await self.supervisor.start()
        with self._ahead.question():
            async with aclosing(self._asked(question, ready, began)) as events:
                async for event in events:
                    yield event

    async def _asked(self, question: Question, ready: Ready, began: float) -> AsyncGenerator[AskEvent, None]:
        exchange = await self._prepare(question, ready)
        if not exchange.bare:
            yield Stage(name="plan", text=announcement(exchange.plan, exchange.layout))
        said = Said()
        finished: Finished | None = None
        first = 0.0
        pace = _Pace(exchange.layout, exchange.plan.composition)
        request = self._request(exchange)
        async with aclosing(self.supervisor.submit(request)) as events:
            async for event in events:
                if isinstance(event, Token):
                    first = first or time.monotonic() - began
                    text = "" if said.repeats else said.add(event)
                    if text:
                        yield Delta(text=text)
                    if said.repeats:
                        self.supervisor.cancel(request.id)
                elif isinstance(event, Finished):
                    finished = event
                elif stage := pace.stage(event):
                    yield stage
        assert finished is not None, "the supervisor's streams end with Finished or raise"
        yield await self._answer(exchange, said, ready, finished, first, time.monotonic() - began)

    async def read_ahead(self, collection: str, patterns: tuple[str, ...] = ()) -> AsyncGenerator[ReadAheadEvent, None]:
        """Read a collection onto the disk: see reading_ahead. Raises CollectionNotFound, NothingToRead, EngineError,
        and BadRequest for an engine that stores nothing."""
        if self.supervisor.ready is None:
            yield Stage(name="start", text=f"loading the model {self.model.name}")
        ready = await self.supervisor.start()
        if ready.engine != "torch":
            raise BadRequest(
                f"the engine {ready.engine} stores nothing: reading ahead has no use",
                "unabridged config set engine.backend torch",
            )
        limits = self._limits(ready, 0, self.settings.answer.max_tokens)
        where = Filter(patterns=patterns)

        async def find() -> Reach:
            every, unread = await self._planned(self._planner.everything, collection, where, limits.section)
            asked = Ask(collection, where, "", self.settings.answer.mode)
            composition = await self._planned(self._planner.composition, asked, limits)
            return Reach(collection, tuple(every), tuple(unread), composition)

        def request(id: str, reach: Reach) -> Prefill:
            return Prefill(
                id=id,
                prefix=pack_ids(self._prompt.prefix),
                segments=_segments(reach.sections),
                composition=reach.composition,
                shelf=collection,
                adding=bool(patterns),
            )

        async with aclosing(self._ahead.read(find, request)) as events:
            async for event in events:
                yield event

    async def complete(self, prompt: str, sampling: Sampling) -> AsyncGenerator[Delta | Completed, None]:
        """Continue a text without documents or chat template (/v1/completions). Raises ContextTooLong, EngineError."""
        await self.supervisor.start()
        ids = self.tokenizer.encode(prompt)
        request = Generate(
            id=_request_id(), prefix=b"", segments=(), prompt=pack_ids(ids), sampling=sampling, attribution=False
        )
        parts: list[str] = []
        with self._ahead.question():
            async with aclosing(self.supervisor.submit(request)) as events:
                async for event in events:
                    if isinstance(event, Token) and event.text:
                        parts.append(event.text)
                        yield Delta(text=event.text)
                    elif isinstance(event, Finished):
                        yield Completed(text="".join(parts), reason=event.reason, usage=event.usage)

    # ------------------------------------------------------------------------------------------- before the engine

    def _with_settings(self, question: Question) -> Question:
        """What the question leaves open is as the settings say."""
        answering = self.settings.answer
        mode = answering.mode if question.mode == "auto" else question.mode
        sampling = question.sampling
        if sampling == Sampling():
            sampling = Sampling(
                temperature=answering.temperature,
                top_p=answering.top_p,
                repetition_penalty=answering.repetition_penalty,
                max_tokens=answering.max_tokens,
            )
        return msgspec.structs.replace(question, mode=mode, sampling=sampling)

    async def _prepare(self, question: Question, ready: Ready) -> _Exchange:
        """Everything that can be refused before the engine is troubled."""
        history = await self._history(question)
        spoken = (*history, Turn("user", question.text))
        if not question.collection:
            return self._bare(question, history, spoken, ready)
        limit = ready.window // _CONVERSATION_SHARE
        conversation = self._prompt.conversation(spoken, limit)
        limits = self._limits(ready, len(conversation.ids), question.sampling.max_tokens)
        if limits.room < limits.section // 4:
            raise ContextTooLong(
                f"the question takes {len(conversation.ids):,} tokens and its answer up to "
                f"{question.sampling.max_tokens:,}, which leaves no room for documents in {ready.max_context:,}",
                "ask a shorter question or allow fewer tokens for the answer",
                tokens=len(conversation.ids) + question.sampling.max_tokens,
                limit=ready.max_context,
            )
        asked = Ask(question.collection, meant(question), _query(history, question.text), question.mode)
        plan = await self._planned(self._planner.plan, asked, limits)
        if ready.engine == "llama-cpp":
            # It has one sequence and reads everything in order.
            plan = replace(plan, composition="joint")
        notes = list(plan.notes)
        if most := self.settings.answer.hints:
            quoted = await self._planned(self._planner.hints, question.text, plan, most, question.collection)
            if quoted:
                spoken = (*history, Turn("user", f"{' '.join(quoted)}\n\n{question.text}"))
                conversation = self._prompt.conversation(spoken, limit + _HINT_TOKENS)
                what = "1 matching sentence was" if len(quoted) == 1 else f"{len(quoted)} matching sentences were"
                notes.append(f"{what} repeated before the question (answer.hints)")
        if conversation.dropped:
            notes.append(
                f"the oldest {conversation.dropped} exchanges of the conversation did not fit and were left out"
            )
        layout = Layout(len(self._prompt.prefix), plan.sections)
        return _Exchange(
            question, question.conversation or new_id(), history, plan, layout, conversation.ids, tuple(notes)
        )

    def _bare(self, question: Question, history: tuple[Turn, ...], spoken: Sequence[Turn], ready: Ready) -> _Exchange:
        prompt = self._prompt.without_documents(spoken)
        if len(prompt) + question.sampling.max_tokens > ready.max_context:
            raise ContextTooLong(
                f"the conversation has {len(prompt):,} tokens, its answer up to {question.sampling.max_tokens:,}; "
                f"the engine holds {ready.max_context:,}",
                "begin a new conversation",
                tokens=len(prompt) + question.sampling.max_tokens,
                limit=ready.max_context,
            )
        plan = Plan("whole", "asked without documents", (), (), (), 0)
        return _Exchange(question, question.conversation or new_id(), history, plan, Layout(0, ()), prompt, ())

    async def _history(self, question: Question) -> tuple[Turn, ...]:
        if question.conversation is None:
            return question.history
        stored = await asyncio.to_thread(self.conversations.get, question.conversation)
        return (*question.history, *turns(stored))

    def _limits(self, ready: Ready, prompt: int, answer: int) -> Limits:
        answering = self.settings.answer
        held = ready.max_context if ready.whole else min(ready.max_context, ready.window)
        measured = self.model.defaults.get("focus_segments")
        return Limits(
            whole=ready.whole,
            window=ready.window,
            room=held - len(self._prompt.prefix) - prompt - answer - _HINT_TOKENS,
            section=self.settings.engine.segment_tokens or ready.segment_tokens,
            focus=answering.focus_segments or (measured if isinstance(measured, int) else 1),
        )

    async def _planned(self, work: Callable[..., T], *arguments: object) -> T:
        """The planner's work, in a thread, one at a time."""
        async with self._planning:
            return await asyncio.to_thread(work, *arguments)

    def _request(self, exchange: _Exchange) -> Generate:
        engine = self.settings.engine
        return Generate(
            id=_request_id(),
            prefix=b"" if exchange.bare else pack_ids(self._prompt.prefix),
            segments=_segments(exchange.plan.sections),
            composition=exchange.plan.composition,
            prompt=pack_ids(exchange.prompt),
            sampling=exchange.question.sampling,
            attention=attention_choice(engine),
            attribution=not exchange.bare,
        )

    # -------------------------------------------------------------------------------------------- after the engine

    async def _answer(
        self, exchange: _Exchange, said: "Said", ready: Ready, finished: Finished, first: float, seconds: float
    ) -> Answer:
        question = exchange.question
        cited = await asyncio.to_thread(
            check, said, question.text, exchange.layout, self.library, question.collection, bare=exchange.bare
        )
        notes = (*exchange.notes, *_few(finished.notes))
        if said.repeats:
            # We ended it, not the reader: nothing of worth was cut.
            finished = msgspec.structs.replace(finished, reason="stop")
            notes = (*notes, "the answer ends where the model began to repeat itself")
        answer = Answer(
            answer=cited.answer,
            text=said.text,
            citations=cited.citations,
            sentences=cited.sentences,
            receipt=receipt(exchange.plan, exchange.layout, ready, finished, first, seconds, notes),
            conversation="",
        )
        if question.store and self.settings.answer.keep_history and not question.history:
            return await self._kept(exchange, answer)
        return answer

    async def _kept(self, exchange: _Exchange, answer: Answer) -> Answer:
        """The answer, stored. What took minutes is not lost because a disk is full: then a note says so."""
        question = exchange.question
        kept = msgspec.structs.replace(answer, conversation=exchange.conversation)
        try:
            await asyncio.to_thread(
                self.conversations.append, exchange.conversation, question.collection, question.text, kept
            )
        except HistoryUnavailable as error:
            notes = (*answer.receipt.notes, f"the answer was not kept: {error}")
            stated = msgspec.structs.replace(answer.receipt, notes=notes)
            return msgspec.structs.replace(answer, receipt=stated, conversation=question.conversation or "")
        return kept


class _Pace:
    """Turns the engine's progress into stages for people: which document is being read, and how long it will take."""

    def __init__(self, layout: Layout, composition: Composition) -> None:
        self._layout, self._composition = layout, composition
        self._prefix = layout.start
        self._phase = ""
        self._began = 0.0
        self._from = 0

    def stage(self, event: object) -> Stage | None:
        """The stage of an event, None for events that are none."""
        if isinstance(event, Queued):
            return Stage(name="queue", text=f"waiting behind {event.ahead} other requests", done=0, total=event.ahead)
        if not isinstance(event, Progress):
            return None
        if event.phase != self._phase:
            self._phase, self._began, self._from = event.phase, time.monotonic(), event.done
        return Stage(
            name=event.phase,
            text=self._text(event),
            done=event.done,
            total=event.total,
            unit="tokens",
            seconds_left=self._left(event),
        )

    def _text(self, event: Progress) -> str:
        if event.phase == "question":
            return "reading the question"
        if self._composition == "joint" and event.phase == "read" and not event.done:
            return (
                f"{event.total:,} of {self._layout.tokens:,} tokens have to be read: documents are one text, in which "
                "all behind a change is read again"
            )
        verb = "reading" if event.phase == "read" else "restoring"
        section = self._layout.section_at(self._prefix + max(0, event.done - 1))
        return f"{verb} {display_name(section.document)}" if section else f"{verb} documents"

    def _left(self, event: Progress) -> float | None:
        done = event.done - self._from
        if done <= 0:
            return None
        return round((time.monotonic() - self._began) * (event.total - event.done) / done, 1)


def attention_choice(engine: "EngineSettings") -> AttentionChoice:
    """The attention that the settings ask for. Values are numbers and words; the engine checks names and ranges."""
    overrides: dict[str, int | float | str | bool] = {}
    for entry in engine.overrides:
        name, equals, value = entry.partition("=")
        if not equals:
            raise SettingsInvalid(f"setting engine.overrides has {entry!r}", "write name=value, such as k=1024")
        overrides[name.strip()] = _value(value.strip())
    return AttentionChoice(preset=engine.preset, refresh=engine.refresh, overrides=overrides)


def _value(text: str) -> int | str | bool:
    if text in ("true", "false"):
        return text == "true"
    return int(text) if text.lstrip("-").isdecimal() else text


def _segments(sections: Sequence[Section]) -> tuple[Segment, ...]:
    return tuple(Segment(ids=section.ids.tobytes()) for section in sections)


def _few(notes: tuple[str, ...]) -> tuple[str, ...]:
    """The first notes, and how many there were beyond them."""
    more = len(notes) - _MOST_NOTES
    return notes if more <= 1 else (*notes[:_MOST_NOTES], f"and {more:,} more notes of this kind")


def _query(history: Sequence[Turn], text: str) -> str:
    """What to look for: a follow-up ("and in 1887?") is read with the question before it."""
    before = [turn.content for turn in history if turn.role == "user"]
    return f"{text}\n{before[-1]}" if before else text


def _request_id() -> str:
    return secrets.token_hex(8)
