"""OpenAI's own Python client against the real server with the real model, over real files."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import httpx
import msgspec
import openai
import pytest
from openai import OpenAI

from unabridged.app import runtime
from unabridged.app.locations import ENVIRONMENT, Locations
from unabridged.app.schema import Health

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

KEY = "sk-test"
SECONDS = 300.0
T = TypeVar("T")
LEASE = "The monthly rent of the flat is 845 euros. The deposit is 1700 euros and is due on the first of May.\n"
BOAT = "The boat is called Marigold. It is moored in the harbour of Oban and was built in 1962.\n"
QUESTION: Any = [{"role": "user", "content": "What is the boat called?"}]
LONG: Any = [{"role": "user", "content": "Count from one to five hundred in words, one number a line."}]


class Server:
    """A running `unabridged serve` with two documents in it and little memory for its context."""

    def __init__(self, root: Path, models: Path) -> None:
        self.locations = Locations.below(root / "data")
        self.locations.create()
        self.locations.models.rmdir()
        self.locations.models.symlink_to(models)
        environ = os.environ | {
            ENVIRONMENT: str(self.locations.data),
            "UNABRIDGED_SERVER_PORT": "0",
            "UNABRIDGED_SERVER_API_KEY": KEY,
            "UNABRIDGED_SERVER_PING_SECONDS": "0.2",
            "UNABRIDGED_ENGINE_KV_MEMORY_MIB": "512",
            "UNABRIDGED_ENGINE_THREADS": "2",
        }
        with (root / "log").open("wb") as log:
            command = [sys.executable, "-m", "unabridged", "serve"]
            self.process = subprocess.Popen(command, env=environ, stdout=log, stderr=log)
        self.log = root / "log"
        self.url = until(self._url, "a server")
        self.http = httpx.Client(
            base_url=self.url, headers={"Authorization": f"Bearer {KEY}"}, trust_env=False, timeout=SECONDS
        )
        self.openai = OpenAI(base_url=f"{self.url}/v1", api_key=KEY, max_retries=0, timeout=SECONDS)

    def _url(self) -> str | None:
        assert self.process.poll() is None, self.log.read_text()
        found = runtime.read(self.locations.server_file)
        return found.url if found else None

    def health(self) -> Health:
        return msgspec.json.decode(self.http.get("/health").content, type=Health)

    def idle(self) -> bool:
        return self.health().requests == 0

    def close(self) -> None:
        self.openai.close()
        self.http.close()
        self.process.terminate()
        assert self.process.wait(20) == 0


def until(probe: Callable[[], T | None], what: str, seconds: float = SECONDS) -> T:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if found := probe():
            return found
        time.sleep(0.02)
    pytest.fail(f"no {what} within {seconds:g} s")


def take(stream: Iterable[object], count: int | None = None) -> None:
    """Read `count` chunks, or all."""
    for _ in islice(iter(stream), count):
        pass


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, smollm2: Path) -> Iterator[Server]:
    """One for all tests of this module."""
    root = tmp_path_factory.mktemp("openai")
    files = root / "files"
    files.mkdir()
    (files / "lease.txt").write_text(LEASE)
    (files / "boat.txt").write_text(BOAT)
    running = Server(root, smollm2.parent)
    reply = running.http.post("/v1/documents", json={"paths": [str(files)]})
    assert '"type":"added"' in reply.text
    until(lambda: running.health().status == "ok", "engine")
    yield running
    running.close()


def test_models_are_listed_with_the_context_in_force(server: Server) -> None:
    listed = {model.id: model for model in server.openai.models.list()}
    assert set(listed) == {"unabridged", "default", "smollm2-135m"}
    extra = listed["unabridged"].model_extra
    assert extra is not None
    assert extra["context_length"] == extra["max_model_len"] == server.health().engine.max_context
    assert extra["meta"]["n_ctx_train"] == 8192
    assert server.openai.models.retrieve("unabridged").id == "unabridged"


def test_a_question_is_answered_with_sources_and_a_receipt(server: Server) -> None:
    reply = server.openai.chat.completions.create(model="unabridged", messages=QUESTION, max_tokens=40)
    content = reply.choices[0].message.content
    assert content is not None
    assert "Marigold" in content
    assert "Sources:\n[1] boat.txt, page 1:" in content
    assert reply.choices[0].finish_reason in ("stop", "length")
    assert reply.usage is not None
    assert reply.usage.total_tokens == reply.usage.prompt_tokens + reply.usage.completion_tokens
    extra = reply.model_extra
    assert extra is not None
    assert extra["unabridged"]["receipt"]["documents"] == 2
    assert Path(extra["unabridged"]["citations"][0]["document"]).name == "boat.txt"


def test_a_stream_says_what_the_whole_reply_says(server: Server) -> None:
    ask = server.openai.chat.completions.create
    whole = ask(model="unabridged", messages=QUESTION, max_tokens=30)
    stream = ask(
        model="unabridged", messages=QUESTION, max_tokens=30, stream=True, stream_options={"include_usage": True}
    )
    chunks = list(stream)
    assert chunks[0].choices[0].delta.role == "assistant"
    assert len({(chunk.id, chunk.created) for chunk in chunks}) == 1
    *texts, last, usage = chunks
    assert last.choices[0].finish_reason in ("stop", "length")
    assert all(chunk.choices[0].finish_reason is None for chunk in texts)
    assert usage.choices == []
    assert usage.usage is not None
    assert whole.usage is not None
    assert usage.usage.completion_tokens == whole.usage.completion_tokens
    text = "".join(chunk.choices[0].delta.content or "" for chunk in texts)
    assert whole.model_extra is not None
    assert text.startswith(whole.model_extra["unabridged"]["text"])
    assert "Sources:\n[1] boat.txt" in text
    assert texts[-1].model_extra is not None
    assert texts[-1].model_extra["citations"][0]["page"] == 1


def test_a_question_asked_again_is_read_from_the_cache(server: Server) -> None:
    ask = server.openai.chat.completions.create
    first = ask(model="default", messages=QUESTION, max_tokens=5).usage
    second = ask(model="default", messages=QUESTION, max_tokens=5).usage
    assert first is not None
    assert second is not None
    assert second.prompt_tokens_details is not None
    assert second.prompt_tokens == first.prompt_tokens
    assert (second.prompt_tokens_details.cached_tokens or 0) > 0


def test_the_model_itself_answers_without_documents(server: Server) -> None:
    reply = server.openai.chat.completions.create(
        model="smollm2-135m",
        messages=[
            {"role": "developer", "content": "Be brief."},
            {"role": "user", "content": [{"type": "text", "text": "Hi"}]},
        ],
        max_completion_tokens=8,
        seed=1,
        temperature=0.7,
        top_p=0.9,
        stop=["\n\n"],
    )
    assert reply.choices[0].message.content
    assert "Sources" not in reply.choices[0].message.content


def test_plain_completions(server: Server) -> None:
    whole = server.openai.completions.create(model="smollm2-135m", prompt="One, two, three,", max_tokens=6)
    assert whole.usage is not None
    assert whole.usage.completion_tokens <= 6
    stream = server.openai.completions.create(
        model="smollm2-135m", prompt="One, two, three,", max_tokens=6, stream=True
    )
    assert "".join(chunk.choices[0].text for chunk in stream if chunk.choices) == whole.choices[0].text


def test_leaving_a_stream_stops_the_engine(server: Server) -> None:
    stream = server.openai.chat.completions.create(model="smollm2-135m", messages=LONG, max_tokens=2000, stream=True)
    take(stream, 3)
    assert server.health().requests == 1
    stream.close()
    until(server.idle, "end of the request", 3)
    begun = time.monotonic()
    server.openai.chat.completions.create(model="smollm2-135m", messages=LONG, max_tokens=1)
    # The engine is free: this one did not wait for 2,000 tokens.
    assert time.monotonic() - begun < 10


def test_a_client_that_gives_up_on_a_whole_reply_stops_the_engine(server: Server) -> None:
    impatient = server.openai.with_options(timeout=0.2)
    with pytest.raises(openai.APITimeoutError):
        impatient.chat.completions.create(model="smollm2-135m", messages=LONG, max_tokens=2000)
    until(server.idle, "end of the request", 3)


def test_errors_are_those_that_the_client_knows(server: Server) -> None:
    chat = server.openai.chat.completions
    with pytest.raises(openai.NotFoundError) as unknown:
        chat.create(model="gpt-4o", messages=QUESTION)
    assert (unknown.value.code, unknown.value.param) == ("model_not_found", "model")
    with pytest.raises(openai.BadRequestError) as several:
        chat.create(model="unabridged", messages=QUESTION, n=2)
    assert several.value.param == "n"
    with pytest.raises(openai.BadRequestError) as structured:
        chat.create(model="unabridged", messages=QUESTION, response_format={"type": "json_object"})
    assert structured.value.param == "response_format"
    with pytest.raises(openai.AuthenticationError) as stranger:
        server.openai.with_options(api_key="sk-other").models.list()
    assert stranger.value.code == "invalid_api_key"


@pytest.mark.parametrize("stream", [False, True])
def test_a_context_that_is_too_long_is_refused_with_the_numbers(server: Server, stream: bool) -> None:
    limit = server.health().engine.max_context
    with pytest.raises(openai.BadRequestError) as caught:
        server.openai.completions.create(model="smollm2-135m", prompt="word " * (limit + 500), stream=stream)
    assert caught.value.code == "context_length_exceeded"
    assert isinstance(caught.value.body, dict)
    assert caught.value.body["n_ctx"] == limit
    assert caught.value.body["n_prompt_tokens"] > limit


def test_reading_is_announced_by_pings_and_by_progress_on_request(server: Server, tmp_path: Path) -> None:
    book = tmp_path / "book.txt"
    book.write_text("".join(f"In chapter {n} the number of the day is {n * 7}.\n" for n in range(60)))
    server.http.post("/v1/documents", json={"paths": [str(book)], "collection": "book"})
    body = {"model": "book", "messages": QUESTION, "max_tokens": 4, "stream": True, "return_progress": True}
    events: list[str] = []
    with server.http.stream("POST", "/v1/chat/completions", json=body) as reply:
        assert reply.headers["content-type"].startswith("text/event-stream")
        events.extend(line for line in reply.iter_lines() if line)
    assert events[-1] == "data: [DONE]"
    assert any("prompt_progress" in event for event in events)
    assert '"role":"assistant"' in events[0]


def test_an_engine_that_dies_ends_the_stream_with_an_error_and_comes_back(server: Server) -> None:
    stream = server.openai.chat.completions.create(model="smollm2-135m", messages=LONG, max_tokens=2000, stream=True)
    take(stream, 3)
    os.kill(server.health().engine.pid, signal.SIGKILL)
    with pytest.raises(openai.APIError) as caught:
        take(stream)
    assert caught.value.code == "engine_died"
    reply = server.openai.chat.completions.create(model="smollm2-135m", messages=QUESTION, max_tokens=2)
    assert reply.choices[0].finish_reason == "length"


def test_a_stopping_server_ends_its_streams_with_an_error(server: Server, tmp_path: Path, smollm2: Path) -> None:
    other = Server(tmp_path, smollm2.parent)
    stream = other.openai.chat.completions.create(model="smollm2-135m", messages=LONG, max_tokens=2000, stream=True)
    take(stream, 3)
    other.process.terminate()
    with pytest.raises(openai.APIError, match="stopping"):
        take(stream)
    other.close()


def test_what_goes_over_the_wire_is_ascii_json(server: Server) -> None:
    body = {"model": "unabridged", "messages": QUESTION, "max_tokens": 4, "stream": True}
    raw = server.http.post("/v1/chat/completions", json=body).content
    assert raw.isascii()
    for event in raw.decode().split("\n\n")[:-2]:
        json.loads(event.removeprefix("data: ")) if event.startswith("data: ") else None
