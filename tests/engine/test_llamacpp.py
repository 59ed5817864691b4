"""The llama.cpp engine on the real default model."""

from array import array
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("llama_cpp", reason="needs the extra: pip install 'unabridged[llama-cpp]'")

from unabridged.engine.errors import BadRequest, ContextTooLong
from unabridged.engine.events import Event, Finished, Generate, Prefill, Progress, Sampling, Segment, Token, pack_ids
from unabridged.engine.llamacpp import LlamaCppBackend
from unabridged.engine.options import EngineOptions
from unabridged.models.errors import ModelUnsupported
from unabridged.models.tokenizer import Tokenizer

DOCUMENT = """Minutes of the works council, 14 March. The new coffee machine for the third floor costs 1,240 euros and
will be delivered on Thursday. Mrs. Okonkwo asked for a second bicycle stand. The canteen closes at three on Fridays."""
CHUNK = 32


@pytest.fixture(scope="module")
def tokenizer(smollm2: Path) -> Tokenizer:
    return Tokenizer.load(smollm2)


@pytest.fixture(scope="module")
def backend(smollm2: Path) -> Iterator[LlamaCppBackend]:
    one = LlamaCppBackend(smollm2, EngineOptions(threads=1, prefill_chunk=CHUNK))
    yield one
    one.close()


def request(tokenizer: Tokenizer, question: str, sampling: Sampling, id: str = "a") -> Generate:
    before, after = tokenizer.chat_around([("user", f"@@\n\n{question}")], "@@")
    segment = Segment(pack_ids(tokenizer.encode(DOCUMENT)))
    return Generate(id=id, prefix=pack_ids(before), segments=(segment,), prompt=pack_ids(after), sampling=sampling)


def finish(events: list[Event | None]) -> Finished:
    last = events[-1]
    assert isinstance(last, Finished)
    return last


def text(events: list[Event | None]) -> str:
    return "".join(event.text for event in events if isinstance(event, Token))


def ids(events: list[Event | None]) -> list[int]:
    return [id for event in events if isinstance(event, Token) for id in event.ids]


def test_it_answers_from_the_document_and_says_what_it_did(backend: LlamaCppBackend, tokenizer: Tokenizer) -> None:
    asked = request(tokenizer, "What does the coffee machine cost?", Sampling(max_tokens=40))
    events = list(backend.run(asked))
    assert "1,240 euros" in text(events)
    last = finish(events)
    assert last.reason == "stop"
    assert last.usage.prompt == (len(asked.prefix) + len(asked.segments[0].ids) + len(asked.prompt)) // 4
    assert last.usage.completion == len(ids(events)) + 1  # the end token
    assert tokenizer.decode([id for id in ids(events) if id not in tokenizer.eos_ids]) == text(events)
    assert last.attention is not None
    assert last.attention.kind == "dense"


def test_ready_states_the_window_and_that_it_cannot_read_past_it(backend: LlamaCppBackend) -> None:
    ready = backend.ready()
    assert (ready.engine, ready.window, ready.max_context, ready.whole) == ("llama-cpp", 8192, 8192, False)


def test_progress_counts_what_is_computed_and_a_second_question_reads_only_what_is_new(
    backend: LlamaCppBackend, tokenizer: Tokenizer
) -> None:
    short = Sampling(max_tokens=4)
    list(backend.run(Prefill(id="p", prefix=pack_ids([5]), segments=())))
    first = list(backend.run(request(tokenizer, "Who asked for a bicycle stand?", short)))
    second = list(backend.run(request(tokenizer, "When does the canteen close?", short)))
    alone = [event for event in first if isinstance(event, Progress) and event.phase == "read"]
    assert alone[-1].done == alone[-1].total
    assert len(alone) == -(-(alone[-1].total - 1) // CHUNK) + 1
    assert not [event for event in second if isinstance(event, Progress) and event.phase == "read"]
    assert finish(first).usage.cached == 0
    assert finish(second).usage.cached >= alone[-1].total


def test_what_was_kept_changes_no_answer(backend: LlamaCppBackend, tokenizer: Tokenizer) -> None:
    asked = request(tokenizer, "What was decided on 14 March?", Sampling(max_tokens=24))
    list(backend.run(Prefill(id="p", prefix=pack_ids([5]), segments=())))
    fresh = list(backend.run(asked))
    kept = list(backend.run(asked))
    assert finish(kept).usage.cached == finish(kept).usage.prompt - 1
    assert ids(kept) == ids(fresh)


def test_the_same_seed_gives_the_same_answer_whatever_was_asked_before(
    backend: LlamaCppBackend, tokenizer: Tokenizer
) -> None:
    sampling = Sampling(max_tokens=12, temperature=1.0, top_p=0.95, min_p=0.01, seed=7, repetition_penalty=1.1)
    asked = request(tokenizer, "Write a poem about it.", sampling)
    list(backend.run(request(tokenizer, "When does the canteen close?", Sampling(max_tokens=2))))
    runs = [list(backend.run(asked)) for _ in range(2)]
    assert ids(runs[0]) == ids(runs[1])
    assert finish(runs[0]).reason == "length"
    assert len(ids(runs[0])) == 12


def test_a_closed_run_leaves_what_it_read_for_the_next(backend: LlamaCppBackend, tokenizer: Tokenizer) -> None:
    asked = request(tokenizer, "Who asked for a bicycle stand?", Sampling(max_tokens=4))
    list(backend.run(Prefill(id="p", prefix=pack_ids([5]), segments=())))
    run = backend.run(asked)
    assert isinstance(next(run), Progress)
    run.close()
    events = list(backend.run(asked))
    assert finish(events).usage.cached == CHUNK


def test_a_stop_string_ends_the_answer_before_itself(backend: LlamaCppBackend, tokenizer: Tokenizer) -> None:
    question = "What does the coffee machine cost?"
    events = list(backend.run(request(tokenizer, question, Sampling(max_tokens=40, stop=(" euros",)))))
    assert text(events).endswith("1,240")
    assert finish(events).reason == "stop"


def test_a_context_past_the_window_is_refused_with_the_numbers(backend: LlamaCppBackend) -> None:
    with pytest.raises(ContextTooLong, match=r"8,192 tokens, llama\.cpp holds 8,192") as caught:
        next(backend.run(Generate(id="a", prefix=b"", segments=(), prompt=pack_ids([1] * 8192))))
    assert (caught.value.tokens, caught.value.limit) == (8192, 8191)


@pytest.mark.slow
def test_an_answer_that_meets_the_end_of_the_context_says_so(smollm2: Path, tokenizer: Tokenizer) -> None:
    """kv_bytes for 256 tokens stands for a machine without memory for the window."""
    small = LlamaCppBackend(smollm2, EngineOptions(threads=1, kv_bytes=256 * 2 * 2 * 30 * 3 * 64))
    assert small.ready().max_context == 256
    prompt = pack_ids(tokenizer.encode("One, two, three, four, five, six, " * 32)[:250])
    events = list(small.run(Generate(id="a", prefix=b"", segments=(), prompt=prompt, sampling=Sampling(max_tokens=50))))
    assert finish(events).reason == "length"
    assert finish(events).usage.completion == 7
    assert "256 tokens" in finish(events).notes[0]
    small.close()


@pytest.mark.parametrize(
    ("prompt", "sampling"),
    [([], Sampling()), ([-1], Sampling()), ([49152], Sampling()), ([1], Sampling(temperature=-1.0))],
)
def test_what_cannot_be_done_is_refused(backend: LlamaCppBackend, prompt: list[int], sampling: Sampling) -> None:
    with pytest.raises(BadRequest):
        next(backend.run(Generate(id="a", prefix=b"", segments=(), prompt=pack_ids(prompt), sampling=sampling)))


def test_a_model_that_is_not_gguf_is_refused_with_the_way_out(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "model.safetensors").write_bytes(b"")
    with pytest.raises(ModelUnsupported, match="safetensors") as caught:
        LlamaCppBackend(tmp_path, EngineOptions())
    assert "torch engine" in caught.value.hint


@pytest.mark.slow
def test_greedy_answers_are_llama_cpp_s_own(backend: LlamaCppBackend, tokenizer: Tokenizer, smollm2: Path) -> None:
    from llama_cpp import Llama

    asked = request(tokenizer, "Where does the coffee machine stand?", Sampling(max_tokens=16))
    events = list(backend.run(asked))
    whole = array("i", asked.prefix + asked.segments[0].ids + asked.prompt).tolist()
    theirs = Llama(str(next(smollm2.glob("*.gguf"))), n_ctx=512, n_threads=1, verbose=False)
    theirs.eval(whole[:-1])
    expected = [id for id, _ in zip(theirs.generate(whole, temp=0.0, repeat_penalty=1.0), range(16), strict=False)]
    theirs.close()
    ours = ids(events)
    assert ours == expected[: len(ours)]
    assert len(ours) > 5
