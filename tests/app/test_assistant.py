"""A question's way through planning, engine and checking.

With a stand-in for the engine process where a test needs to choose what the engine says or how it ends; with the real
model at the end.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing, contextmanager
from pathlib import Path
from typing import Literal

import msgspec
import pytest

from unabridged.app import routing
from unabridged.app.assembly import assemble
from unabridged.app.assistant import Assistant, Completed
from unabridged.app.conversations import Conversations
from unabridged.app.errors import ConversationNotFound, HistoryUnavailable, NothingToRead
from unabridged.app.events import Answer, AskEvent, Delta, Question, Stage, Turn
from unabridged.app.locations import Locations
from unabridged.app.output import receipt_lines
from unabridged.app.settings import Settings
from unabridged.engine.errors import ContextTooLong, EngineDied
from unabridged.engine.events import (
    Event,
    Finished,
    Generate,
    Prefill,
    Progress,
    Ready,
    Sampling,
    Token,
    Usage,
    unpack_ids,
)
from unabridged.ingest.adding.add import AddOptions, add
from unabridged.ingest.catalog.rows import Composing
from unabridged.ingest.library import Library

READY = Ready(
    protocol=1,
    engine="torch",
    device="cpu",
    model="smollm2-135m",
    fingerprint="f",
    window=8192,
    max_context=50_000,
    segment_tokens=2048,
    whole=True,
    load_seconds=0.1,
    pid=1,
)


class Engine:
    """What the assistant uses of a supervisor; says what it is told to."""

    def __init__(
        self, words: str = "", *, fails: bool = False, attends: bool = False, notes: tuple[str, ...] = ()
    ) -> None:
        self.words = words.split(" ") if words else []
        self.fails = fails
        self.attends = attends
        self.notes = notes
        self.ready: Ready | None = None
        self.requests: list[Generate | Prefill] = []
        self.closed = 0
        self.cancelled: set[str] = set()

    async def start(self) -> Ready:
        self.ready = READY
        return READY

    async def close(self) -> None:
        pass

    def cancel(self, id: str) -> None:
        self.cancelled.add(id)

    async def submit(self, request: Generate | Prefill) -> AsyncGenerator[Event, None]:
        self.requests.append(request)
        total = sum(len(segment.ids) // 4 for segment in request.segments)
        count = 0
        try:
            for done in (0, total):
                yield Progress(id=request.id, phase="read", done=done, total=total)
            if self.fails:
                raise EngineDied("the engine process was killed (signal 9)", "ask again")
            for word in self.words:
                if request.id in self.cancelled:
                    break
                count += 1
                position = len(request.prefix) // 4 + 8 if isinstance(request, Generate) else 0
                attended = ((position, 0.5),) if self.attends else ()
                yield Token(id=request.id, text=f" {word}", ids=(1,), attended=attended)
                await asyncio.sleep(0)
            reason = "cancelled" if request.id in self.cancelled else "stop"
            usage = Usage(prompt=total + 20, cached=5, completion=count)
            yield Finished(id=request.id, reason=reason, usage=usage, notes=self.notes)  # type: ignore[arg-type]
        finally:
            self.closed += 1


Make = Callable[[Engine], Assistant]


@pytest.fixture(scope="module")
def assembled(tmp_path_factory: pytest.TempPathFactory, models_dir: Path) -> Iterator[Assistant]:
    """An assistant over a small library."""
    folder = tmp_path_factory.mktemp("assistant")
    locations = _data(folder, models_dir)
    with Library.open(locations.library) as library:
        made = assemble(Settings(), locations, library)
        for _ in add(library, [_texts(folder)], "default", made.tokenizer, AddOptions(jobs=1)):
            pass
        yield made


@pytest.fixture
def make(assembled: Assistant, tmp_path: Path) -> Make:
    """The assistant with an engine of the test's choice and a history of its own."""

    def with_engine(engine: Engine) -> Assistant:
        return Assistant(
            settings=assembled.settings,
            library=assembled.library,
            supervisor=engine,  # type: ignore[arg-type]
            tokenizer=assembled.tokenizer,
            model=assembled.model,
            conversations=Conversations(tmp_path / "conversations.db"),
        )

    return with_engine


def _data(tmp_path: Path, models_dir: Path) -> Locations:
    locations = Locations.below(tmp_path / "data")
    locations.create()
    locations.models.rmdir()
    locations.models.symlink_to(models_dir.absolute(), target_is_directory=True)
    return locations


def _texts(tmp_path: Path) -> Path:
    folder = tmp_path / "texts"
    folder.mkdir()
    (folder / "bridge.txt").write_text("The middle arch was rebuilt in 1887 after the flood. It spans 11.4 metres.")
    (folder / "rules.txt").write_text("Certified copies cost 15 euros each and take three working days.")
    return folder


async def _all(events: AsyncGenerator[AskEvent, None]) -> list[AskEvent]:
    async with aclosing(events):
        return [event async for event in events]


def _answer(events: list[AskEvent]) -> Answer:
    assert isinstance(events[-1], Answer)
    return events[-1]


async def test_the_stream_is_stages_deltas_answer(make: Make) -> None:
    engine = Engine("The middle arch was rebuilt in 1887.")
    events = await _all(make(engine).ask(Question(text="When was the middle arch rebuilt?")))
    assert [event.name for event in events if isinstance(event, Stage)] == ["start", "plan", "read", "read"]
    assert "".join(event.text for event in events if isinstance(event, Delta)) == "The middle arch was rebuilt in 1887."
    answer = _answer(events)
    assert answer.answer == "The middle arch was rebuilt in 1887. [1]"
    assert answer.citations[0].document.endswith("bridge.txt")
    assert answer.citations[0].verified
    assert (answer.receipt.documents, answer.receipt.completion, answer.receipt.cached) == (2, 7, 5)


async def test_citations_do_not_need_attention_but_use_it(make: Make) -> None:
    for attends in (False, True):
        answer = _answer(
            await _all(make(Engine("It was 1887.", attends=attends)).ask(Question(text="When was the arch rebuilt?")))
        )
        assert answer.citations[0].quote.startswith("The middle arch was rebuilt in 1887")


async def test_the_prefix_and_the_segments_are_the_same_for_every_question(make: Make) -> None:
    engine = Engine("Yes.")
    assistant = make(engine)
    await _all(assistant.ask(Question(text="When was the middle arch rebuilt?", store=False)))
    await _all(
        assistant.ask(
            Question(text="And what was it?", store=False, history=(Turn("user", "Hi"), Turn("assistant", "Hello")))
        )
    )
    first, second = engine.requests
    assert (first.prefix, first.segments) == (second.prefix, second.segments)


async def test_a_joint_collection_is_read_as_one_text_and_this_is_said_before_and_after(make: Make) -> None:
    engine = Engine("In 1887.")
    assistant = make(engine)
    with _composed(assistant, "joint"):
        events = await _all(assistant.ask(Question(text="When was the middle arch rebuilt?")))
    assert engine.requests[0].composition == "joint"
    plan, reading = [event.text for event in events if isinstance(event, Stage)][1:3]
    assert "read as one text (joint)" in plan
    assert "tokens have to be read: documents are one text" in reading
    receipt = _answer(events).receipt
    assert receipt.composition == "joint"
    assert any("as one text" in line for line in receipt_lines(receipt))
    with _composed(assistant, "composable"):
        answer = _answer(await _all(assistant.ask(Question(text="When was the middle arch rebuilt?"))))
    assert engine.requests[1].composition == answer.receipt.composition == "composable"
    assert not any("one text" in line for line in receipt_lines(answer.receipt))


@contextmanager
def _composed(assistant: Assistant, composition: Composing) -> Iterator[None]:
    assistant.library.compose("default", composition)
    try:
        yield
    finally:
        assistant.library.compose("default", "auto")


@pytest.mark.parametrize(
    ("mode", "most", "expected"),
    [("whole", 8192, "joint"), ("focused", 8192, "composable"), ("whole", 10, "composable")],
)
async def test_a_small_collection_that_is_read_whole_is_one_text_unless_it_says_otherwise(
    make: Make, monkeypatch: pytest.MonkeyPatch, mode: Literal["whole", "focused"], most: int, expected: str
) -> None:
    monkeypatch.setattr(routing, "_ONE_TEXT", most)
    engine = Engine("In 1887.")
    assistant = make(engine)
    question = Question(text="When was the middle arch rebuilt?", mode=mode, store=False)
    await _all(assistant.ask(question))
    # Whether all of it or a part is asked about.
    await _all(assistant.ask(msgspec.structs.replace(question, documents=("bridge",))))
    assert [request.composition for request in engine.requests] == [expected, expected]


async def test_a_conversation_goes_on(make: Make) -> None:
    engine = Engine("In 1887.")
    assistant = make(engine)
    first = _answer(await _all(assistant.ask(Question(text="When was the middle arch rebuilt?"))))
    second = _answer(await _all(assistant.ask(Question(text="Why?", conversation=first.conversation))))
    assert second.conversation == first.conversation
    assert isinstance(engine.requests[1], Generate)
    assert "middle arch rebuilt?" in assistant.tokenizer.decode(unpack_ids(engine.requests[1].prompt))
    stored = assistant.conversations.get(first.conversation)
    assert [exchange.question for exchange in stored.exchanges] == ["When was the middle arch rebuilt?", "Why?"]


async def test_what_is_not_to_be_kept_is_not_kept(make: Make) -> None:
    assistant = make(Engine("In 1887."))
    await _all(assistant.ask(Question(text="When?", store=False)))
    assert assistant.conversations.list() == []


async def test_without_a_collection_nothing_is_read_and_nothing_marked(make: Make) -> None:
    engine = Engine("Paris is in France.")
    answer = _answer(await _all(make(engine).ask(Question(text="Where is Paris?", collection=""))))
    assert (answer.answer, answer.receipt.documents) == ("Paris is in France.", 0)
    assert engine.requests[0].segments == ()


async def test_an_answer_ends_where_it_repeats_itself(make: Make) -> None:
    answer = _answer(await _all(make(Engine("It was in 1887. " * 9 + "End.")).ask(Question(text="When was it?"))))
    assert answer.text == "It was in 1887."
    assert answer.receipt.finish == "stop"
    assert "repeat" in answer.receipt.notes[-1]


async def test_errors_are_raised_and_nothing_is_stored(make: Make) -> None:
    assistant = make(Engine("x", fails=True))
    with pytest.raises(EngineDied, match="signal 9"):
        await _all(assistant.ask(Question(text="When?")))
    with pytest.raises(NothingToRead):
        await _all(assistant.ask(Question(text="When?", documents=("none.pdf",))))
    with pytest.raises(ConversationNotFound):
        await _all(assistant.ask(Question(text="When?", conversation="c_none")))
    with pytest.raises(ContextTooLong):
        await _all(assistant.ask(Question(text="When?", sampling=Sampling(max_tokens=49_900))))
    assert assistant.conversations.list() == []


async def test_closing_the_stream_closes_the_engines(make: Make) -> None:
    engine = Engine("one two three")
    events = make(engine).ask(Question(text="When?"))
    while not isinstance(await anext(events), Delta):
        pass
    await events.aclose()
    assert engine.closed == 1


async def test_a_completion_has_no_template_and_no_documents(make: Make) -> None:
    engine = Engine("and so on")
    assistant = make(engine)
    events = [event async for event in assistant.complete("Once", Sampling())]
    assert isinstance(events[-1], Completed)
    assert events[-1].text == " and so on"
    assert isinstance(engine.requests[0], Generate)
    assert unpack_ids(engine.requests[0].prompt) == assistant.tokenizer.encode("Once")


async def test_what_a_question_leaves_open_is_as_the_settings_say(make: Make) -> None:
    engine = Engine("In 1887.")
    assistant = make(engine)
    await _all(assistant.ask(Question(text="When?", store=False)))
    await _all(assistant.ask(Question(text="When?", store=False, sampling=Sampling(max_tokens=7))))
    limits = [request.sampling.max_tokens for request in engine.requests if isinstance(request, Generate)]
    assert limits == [assistant.settings.answer.max_tokens, 7]


async def test_an_answer_outlives_a_history_that_cannot_be_written(make: Make) -> None:
    assistant = make(Engine("In 1887."))
    first = _answer(await _all(assistant.ask(Question(text="When?"))))
    path = assistant.conversations.path
    path.write_bytes(b"no database at all " * 400)
    answer = _answer(await _all(assistant.ask(Question(text="When?"))))
    assert (answer.text, answer.conversation) == ("In 1887.", "")
    assert [note for note in answer.receipt.notes if "not kept" in note and "damaged" in note and str(path) in note]
    with pytest.raises(HistoryUnavailable, match="damaged"):
        await _all(assistant.ask(Question(text="When?", conversation=first.conversation)))


async def test_a_note_for_every_section_does_not_bury_the_answer(make: Make) -> None:
    notes = tuple(f"stored KV {number} is unusable" for number in range(900))
    answer = _answer(await _all(make(Engine("In 1887.", notes=notes)).ask(Question(text="When?"))))
    assert answer.receipt.notes[-4:] == (*notes[:3], "and 897 more notes of this kind")


async def test_without_a_history_there_is_no_conversation_to_go_on_with(make: Make) -> None:
    assistant = make(Engine("In 1887."))
    off = assistant.settings.answer.model_copy(update={"keep_history": False})
    assistant.settings = assistant.settings.model_copy(update={"answer": off})
    assert _answer(await _all(assistant.ask(Question(text="When?")))).conversation == ""


@pytest.mark.slow
async def test_the_real_model_finds_a_fact_and_cites_it(tmp_path: Path, models_dir: Path) -> None:
    assistant = assemble(Settings(), _data(tmp_path, models_dir))
    for _ in add(assistant.library, [_texts(tmp_path)], "default", assistant.tokenizer, AddOptions(jobs=1)):
        pass
    try:
        question = Question(text="When was the middle arch rebuilt?", sampling=Sampling(max_tokens=24))
        first = _answer(await _all(assistant.ask(question)))
        second = _answer(await _all(assistant.ask(question)))
    finally:
        await assistant.close()
        assistant.library.close()
    assert "1887" in first.answer
    assert first.citations[0].verified
    assert second.text == first.text
    assert second.receipt.cached >= second.receipt.tokens
