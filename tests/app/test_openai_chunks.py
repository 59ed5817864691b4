"""The exact shape of OpenAI's objects."""

import json
from typing import Any

from unabridged.app.assistant import Completed
from unabridged.app.events import Answer, Citation, Delta, Receipt, Sentence, Stage
from unabridged.app.openai_chunks import Shape, failed
from unabridged.app.replies import Refusal
from unabridged.engine.events import Usage

ANSWER = Answer(
    answer="It is red. [1]",
    text="It is red.",
    citations=(
        Citation(n=1, document="/a.txt", document_id=5, page=1, label="", quote="red", start=3, end=6, verified=True),
    ),
    sentences=(Sentence(start=0, end=14, citations=(1,), supported=True),),
    receipt=Receipt(
        mode="whole", why="it fits", model="m", engine="torch", documents=1, pages=1, tokens=100, context=150,
        cached=20, attended=120, coverage=1.0, attention="dense", completion=9, seconds_to_first_token=0.1,
        seconds=0.2, finish="length",
    ),
    conversation="",
)  # fmt: skip
EVENTS = (Stage(name="read", done=50, total=100, unit="tokens"), Delta(text="It is "), Delta(text="red.\u2028"), ANSWER)


def chunks(shape: Shape, *events: Any) -> list[Any]:
    raw = b"".join([*shape.opening(), *(chunk for event in events for chunk in shape.event(event))])
    assert raw.isascii()
    parts = raw.split(b"\n\n")
    assert parts.pop() == b""
    assert all(part.startswith(b"data: ") for part in parts)
    return [part[6:].decode() if part == b"data: [DONE]" else json.loads(part[6:]) for part in parts]


def test_a_stream_begins_with_the_role_and_ends_with_reason_and_done() -> None:
    role, first, second, sources, last, done = chunks(Shape.of_chat("case"), *EVENTS)
    assert role["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert [first["choices"][0]["delta"], second["choices"][0]["delta"]] == [
        {"content": "It is "},
        {"content": "red.\u2028"},
    ]
    assert sources["choices"][0]["delta"]["content"].startswith("\n\nSources:\n[1] a.txt, page 1")
    assert sources["citations"][0]["quote"] == "red"
    assert sources["unabridged"]["answer"] == "It is red. [1]"
    assert sources["unabridged"]["receipt"]["documents"] == 1
    assert last["choices"][0]["delta"] == {}
    assert last["choices"][0]["finish_reason"] == "length"
    assert done == "[DONE]"


def test_every_chunk_has_the_same_id_and_time_and_a_finish_reason() -> None:
    *all_chunks, _ = chunks(Shape.of_chat("case"), *EVENTS)
    assert len({(c["id"], c["created"], c["model"], c["object"]) for c in all_chunks}) == 1
    assert all_chunks[0]["object"] == "chat.completion.chunk"
    assert [c["choices"][0]["finish_reason"] for c in all_chunks] == [None, None, None, None, "length"]


def test_usage_comes_alone_and_only_when_asked_for() -> None:
    assert not any("usage" in c for c in chunks(Shape.of_chat("m"), *EVENTS)[:-1])
    *others, usage, done = chunks(Shape.of_chat("m", include_usage=True), *EVENTS)
    assert done == "[DONE]"
    assert usage["choices"] == []
    assert usage["usage"] == {
        "prompt_tokens": 150,
        "completion_tokens": 9,
        "total_tokens": 159,
        "prompt_tokens_details": {"cached_tokens": 20},
    }
    assert all(c["usage"] is None for c in others)


def test_progress_comes_only_when_asked_for() -> None:
    assert not any("prompt_progress" in c for c in chunks(Shape.of_chat("m"), *EVENTS)[:-1])
    progress = chunks(Shape.of_chat("m", progress=True), *EVENTS)[1]
    assert progress["choices"][0] == {"index": 0, "delta": {}, "logprobs": None, "finish_reason": None}
    assert (progress["prompt_progress"]["processed"], progress["prompt_progress"]["total"]) == (50, 100)


def test_the_list_of_sources_can_be_left_out() -> None:
    sources = chunks(Shape.of_chat("m", sources=False), *EVENTS)[3]
    assert sources["choices"][0]["delta"] == {"content": ""}
    assert sources["citations"]


def test_a_whole_reply_carries_marks_sources_and_both_as_data() -> None:
    reply = Shape.of_chat("case").answered(ANSWER)
    assert reply["object"] == "chat.completion"
    choice = reply["choices"][0]
    assert choice["finish_reason"] == "length"
    assert choice["message"]["content"] == 'It is red. [1]\n\nSources:\n[1] a.txt, page 1: "red"'
    assert choice["message"]["citations"] == reply["unabridged"]["citations"]
    assert reply["usage"]["total_tokens"] == 159


def test_a_plain_completion_has_text_and_no_role() -> None:
    done = Completed(text="upon a time", reason="cancelled", usage=Usage(prompt=3, cached=0, completion=4))
    reply = Shape.of_text("m").completed(done)
    assert (reply["object"], reply["choices"][0]["text"]) == ("text_completion", "upon a time")
    assert reply["choices"][0]["finish_reason"] == "stop"
    first, last, usage, end = chunks(Shape.of_text("m", include_usage=True), Delta(text="upon"), done)
    assert first["choices"][0]["text"] == "upon"
    assert first["choices"][0]["finish_reason"] is None
    assert last["choices"][0] == {"index": 0, "text": "", "logprobs": None, "finish_reason": "stop"}
    assert usage["usage"]["total_tokens"] == 7
    assert end == "[DONE]"


def test_a_failure_in_a_stream_is_an_error_object() -> None:
    raw = failed(Refusal("too long", "shorten it", code="context_length_exceeded", param="messages"))
    assert json.loads(raw.removeprefix(b"data: ")) == {
        "error": {
            "message": "too long (shorten it)",
            "type": "invalid_request_error",
            "param": "messages",
            "code": "context_length_exceeded",
            "hint": "shorten it",
        }
    }
