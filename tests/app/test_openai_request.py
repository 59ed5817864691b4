"""OpenAI's request fields: honoured or refused by name, never dropped."""

from typing import Any

import msgspec
import pytest

from unabridged.app.events import Question, Turn
from unabridged.app.openai_request import ChatRequest, CompletionRequest, prompt_of, question_of
from unabridged.app.replies import Refusal
from unabridged.app.settings import AnswerSettings
from unabridged.app.wire import decode_body

HELLO = [{"role": "user", "content": "hello"}]


def question(messages: list[dict[str, Any]] | None = None, **fields: Any) -> Question:
    body = msgspec.json.encode({"messages": HELLO if messages is None else messages, **fields})
    return question_of(decode_body(body, ChatRequest), "default", AnswerSettings(max_tokens=99))


def refusal(messages: list[dict[str, Any]] | None = None, **fields: Any) -> Refusal:
    with pytest.raises(Refusal) as caught:
        question(messages, **fields)
    return caught.value


def test_the_last_message_is_the_question_and_the_others_its_history() -> None:
    asked = question(
        [
            {"role": "developer", "content": "Be brief."},
            {"role": "user", "content": "one"},
            {"role": "assistant", "content": '1. [2]\n\nSources:\n[2] a.pdf, page 1: "x"'},
            {"role": "user", "content": [{"type": "text", "text": "and"}, {"type": "text", "text": "two"}]},
        ]
    )
    assert asked.text == "and\ntwo"
    assert asked.history[:2] == (Turn("system", "Be brief."), Turn("user", "one"))
    assert asked.history[2].role == "assistant"
    assert not asked.store


def test_absent_fields_come_from_the_settings_and_null_counts_as_absent() -> None:
    sampling = question(temperature=None, max_tokens=None, stop=None, seed=None).sampling
    assert (sampling.temperature, sampling.max_tokens, sampling.stop, sampling.seed) == (0.0, 99, (), None)


def test_sampling_fields_are_honoured() -> None:
    sampling = question(
        temperature=0.5, top_p=0.9, top_k=40, min_p=0.1, seed=7, stop=["a", "b"], max_tokens=5, repeat_penalty=1.1
    ).sampling
    assert msgspec.to_builtins(sampling) == {
        "temperature": 0.5,
        "top_p": 0.9,
        "top_k": 40,
        "min_p": 0.1,
        "repetition_penalty": 1.1,
        "seed": 7,
        "max_tokens": 5,
        "stop": ("a", "b"),
    }


def test_max_completion_tokens_is_the_newer_name() -> None:
    assert question(max_completion_tokens=3).sampling.max_tokens == 3
    assert question(max_completion_tokens=3, max_tokens=9).sampling.max_tokens == 3


def test_one_stop_text_may_stand_without_a_list() -> None:
    assert question(stop="END").sampling.stop == ("END",)


def test_unknown_fields_are_accepted_and_ineffective_values_too() -> None:
    question(
        user="me", metadata={"a": 1}, service_tier="auto", n=1, presence_penalty=0, frequency_penalty=0.0,
        logit_bias={}, logprobs=False, tools=[], response_format={"type": "text"}, modalities=["text"], made_up=[1],
    )  # fmt: skip


def test_documents_and_mode_travel_in_an_extension() -> None:
    asked = question(unabridged={"documents": ["*.pdf"], "mode": "focused"})
    assert (asked.documents, asked.mode) == (("*.pdf",), "focused")


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"n": 2}, "n"),
        ({"logprobs": True}, "logprobs"),
        ({"top_logprobs": 3}, "logprobs"),
        ({"response_format": {"type": "json_object"}}, "response_format"),
        ({"response_format": {"type": "json_schema", "json_schema": {}}}, "response_format"),
        ({"tools": [{"type": "function"}]}, "tools"),
        ({"functions": [{}]}, "functions"),
        ({"presence_penalty": 0.5}, "presence_penalty"),
        ({"frequency_penalty": -1}, "frequency_penalty"),
        ({"logit_bias": {"50256": -100}}, "logit_bias"),
        ({"modalities": ["text", "audio"]}, "modalities"),
        ({"temperature": 2.5}, "temperature"),
        ({"temperature": "hot"}, "temperature"),
        ({"top_p": 1.5}, "top_p"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": "many"}, "max_tokens"),
        ({"max_completion_tokens": -1}, "max_tokens"),
        ({"stop": ["x"] * 17}, "stop"),
        ({"stop": ""}, "stop"),
        ({"messages": "hello"}, "messages"),
        ({"unabridged": {"made_up": 1}}, "unabridged.made_up"),
        ({"unabridged": {"mode": "some"}}, "unabridged.mode"),
    ],
)
def test_what_cannot_be_honoured_is_refused_by_name(fields: dict[str, Any], param: str) -> None:
    refused = refusal(**fields)
    assert refused.param == param
    assert refused.code == "invalid_request"


@pytest.mark.parametrize(
    ("messages", "param"),
    [
        ([], "messages"),
        ([{"role": "user", "content": " "}], "messages"),
        ([{"role": "user", "content": None}], "messages"),
        ([{"role": "assistant", "content": "I"}], "messages"),
        ([{"role": "tool", "content": "4"}, *HELLO], "messages[0].role"),
        ([{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}], "messages[0].content[0]"),
        ([{"role": "user", "content": 3}], "messages[0].content"),
        ([{"content": "who?"}], "messages[0].role"),
    ],
)
def test_messages_that_cannot_be_read_are_refused_by_place(messages: list[dict[str, Any]], param: str) -> None:
    assert refusal(messages).param == param


def test_a_body_that_is_not_json_is_refused() -> None:
    for body in (b"", b"{", b"[]", b"\xff", b'"text"', b"null"):
        with pytest.raises(Refusal):
            decode_body(body, ChatRequest)


def prompt(**fields: Any) -> tuple[str, int]:
    body = msgspec.json.encode(fields)
    text, sampling = prompt_of(decode_body(body, CompletionRequest), AnswerSettings())
    return text, sampling.max_tokens


def test_a_completion_takes_one_prompt() -> None:
    assert prompt(prompt="Once", max_tokens=4) == ("Once", 4)
    assert prompt(prompt=["Once"], max_tokens=4) == ("Once", 4)


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"prompt": ["a", "b"]}, "prompt"),
        ({"prompt": [1, 2, 3]}, "prompt"),
        ({"prompt": ""}, "prompt"),
        ({}, "prompt"),
        ({"prompt": "a", "logprobs": 0}, "logprobs"),
        ({"prompt": "a", "echo": True}, "echo"),
        ({"prompt": "a", "suffix": "z"}, "suffix"),
        ({"prompt": "a", "best_of": 3}, "best_of"),
    ],
)
def test_a_completion_refuses_what_it_cannot_do(fields: dict[str, Any], param: str) -> None:
    with pytest.raises(Refusal) as caught:
        prompt(**fields)
    assert caught.value.param == param
