"""The worker as a real process, spoken to over its socket, with a backend that does what prompts say."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from unabridged.engine.events import (
    Cancel,
    Event,
    Failed,
    Finished,
    Generate,
    Queued,
    Ready,
    Request,
    Shutdown,
    Token,
    decode_event,
    encode,
    pack_ids,
)
from unabridged.engine.wire import frame, read_frame

EMIT, SLEEP, IDLE, KILL, RAISE, EXIT, END_EARLY, STUMBLE = range(8)


class Peer:
    """The server's end of a worker."""

    def __init__(self, folder: Path, model: str = "well", queue: int = 8) -> None:
        self.sock, theirs = socket.socketpair()
        self.sock.settimeout(20)
        self.log = folder / "worker.log"
        words = ["--backend", "scripted_backend:ScriptedBackend", "--model", model, "--queue", str(queue)]
        with theirs, self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "unabridged.engine.worker", "--fd", str(theirs.fileno()), *words],
                pass_fds=(theirs.fileno(),),
                stderr=log,
                env={**os.environ, "PYTHONPATH": str(Path(__file__).parent)},
            )

    def send(self, *requests: Request) -> None:
        self.sock.sendall(b"".join(frame(encode(request)) for request in requests))

    def receive(self) -> Event | None:
        body = read_frame(self.sock)
        return None if body is None else decode_event(body)

    def until(self, kind: type[Queued | Token | Finished | Failed], id: str) -> list[Event]:
        """Events up to the one of that kind and request."""
        got: list[Event] = []
        while not (got and isinstance(got[-1], kind) and got[-1].id == id):
            event = self.receive()
            assert event is not None, self.lines()
            got.append(event)
        return got

    def status(self) -> int:
        return self.process.wait(20)

    def lines(self) -> str:
        return self.log.read_text()

    def close(self) -> None:
        self.sock.close()
        self.process.kill()
        self.process.wait()


@pytest.fixture
def peer(tmp_path: Path) -> Iterator[Peer]:
    one = Peer(tmp_path)
    assert isinstance(one.receive(), Ready)
    yield one
    one.close()


def generate(id: str, *script: int) -> Generate:
    return Generate(id=id, prefix=b"", segments=(), prompt=pack_ids(script))


def ends(events: list[Event]) -> list[str]:
    return [event.id for event in events if isinstance(event, Finished)]


def test_requests_run_in_order_and_know_their_place(peer: Peer) -> None:
    peer.send(generate("a", IDLE, 300), generate("b", EMIT, 2), generate("c", EMIT, 1))
    events = peer.until(Finished, "c")
    assert ends(events) == ["a", "b", "c"]
    places = [(event.id, event.ahead) for event in events if isinstance(event, Queued) and event.id == "c"]
    assert places[-2:] == [("c", 2), ("c", 1)]
    assert [event.text for event in events if isinstance(event, Token)] == ["0 ", "1 ", "0 "]


def test_a_backend_with_two_slots_runs_two_requests_at_once(tmp_path: Path) -> None:
    peer = Peer(tmp_path, model="pair")
    assert isinstance(peer.receive(), Ready)
    peer.send(generate("a", IDLE, 300, EMIT, 3), generate("b", EMIT, 3, RAISE, 1), generate("c", EMIT, 2))
    events = peer.until(Finished, "a")
    assert [event.id for event in events if isinstance(event, Failed)] == ["b"]
    assert ends(events) == ["c", "a"]
    assert len([event for event in events if isinstance(event, Token) and event.id == "a"]) == 3
    peer.close()


def test_a_queued_request_is_cancelled_without_a_step(peer: Peer) -> None:
    peer.send(generate("a", IDLE, 100), generate("b", KILL, signal.SIGKILL), Cancel(id="b"), Cancel(id="nobody"))
    events = peer.until(Finished, "a")
    assert ends(events) == ["b", "a"]


def test_a_running_request_is_cancelled_within_one_step(peer: Peer) -> None:
    peer.send(generate("a", EMIT, 3, IDLE, 60_000))
    peer.until(Token, "a")
    begin = time.monotonic()
    peer.send(Cancel(id="a"), generate("b", EMIT, 1))
    finished = [event for event in peer.until(Finished, "b") if isinstance(event, Finished)]
    assert time.monotonic() - begin < 1
    assert (finished[0].id, finished[0].reason, finished[0].usage.prompt) == ("a", "cancelled", 4)
    assert finished[0].usage.completion == 3
    assert "closed a after 3" in peer.lines()


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (0, "context_length_exceeded", "a context of 9 tokens"),
        (1, "internal", "ValueError: the backend broke"),
        (2, "out_of_memory", "memory is exhausted"),
        (5, "internal", "out of memory"),
    ],
)
def test_an_error_fails_its_request_alone(peer: Peer, error: int, code: str, words: str) -> None:
    peer.send(generate("a", EMIT, 1, RAISE, error), generate("b", EMIT, 1))
    failed = next(event for event in peer.until(Finished, "b") if isinstance(event, Failed))
    assert (failed.id, failed.code) == ("a", code)
    assert words in failed.message
    assert ("Traceback" in peer.lines()) == (error > 0)


@pytest.mark.parametrize("error", [3, 4])
def test_a_lost_gpu_fails_its_request_and_ends_the_process(peer: Peer, error: int) -> None:
    peer.send(generate("a", EMIT, 1, RAISE, error), generate("b", EMIT, 1))
    failed = peer.until(Failed, "a")[-1]
    assert isinstance(failed, Failed)
    assert "an illegal memory access" in failed.message
    assert peer.status() == 5
    assert "backend closed" in peer.lines()


def test_an_error_while_a_request_is_cancelled_fails_it_alone(peer: Peer) -> None:
    peer.send(generate("a", STUMBLE, 1))
    peer.until(Token, "a")
    peer.send(Cancel(id="a"), generate("b", EMIT, 1))
    failed = peer.until(Failed, "a")[-1]
    assert isinstance(failed, Failed)
    assert "the backend broke" in failed.message
    peer.until(Finished, "b")


def test_a_backend_that_ends_without_a_result_is_an_internal_error(peer: Peer) -> None:
    peer.send(generate("a", END_EARLY, 0))
    failed = peer.until(Failed, "a")[-1]
    assert isinstance(failed, Failed)
    assert failed.code == "internal"


def test_more_requests_than_may_wait_are_refused_by_name(tmp_path: Path) -> None:
    peer = Peer(tmp_path, queue=1)
    assert isinstance(peer.receive(), Ready)
    peer.send(generate("a", IDLE, 200), generate("b", EMIT, 1), generate("c", EMIT, 1))
    events = peer.until(Finished, "b")
    assert [(event.id, event.code) for event in events if isinstance(event, Failed)] == [("c", "queue_full")]
    peer.close()


def test_a_reader_that_sleeps_does_not_hold_up_the_engine(peer: Peer) -> None:
    """40,000 tokens are far more than the socket buffers; the worker finishes them and the next request unread."""
    peer.send(generate("a", EMIT, 40_000))
    deadline = time.monotonic() + 20
    while "closed a after 40000" not in peer.lines():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert len(peer.until(Finished, "a")) == 40_001


def test_shutdown_closes_the_request_and_the_backend(peer: Peer) -> None:
    peer.send(generate("a", IDLE, 60_000), generate("b", EMIT, 1))
    peer.until(Queued, "b")
    peer.send(Shutdown())
    assert peer.status() == 0
    assert peer.lines().splitlines()[-2:] == ["closed a after 0", "backend closed"]


def test_sigterm_ends_the_worker_gracefully_and_sigint_does_not(peer: Peer) -> None:
    peer.process.send_signal(signal.SIGINT)
    peer.send(generate("a", EMIT, 1))
    peer.until(Finished, "a")
    peer.process.send_signal(signal.SIGTERM)
    assert peer.status() == 0
    assert peer.lines().endswith("backend closed\n")


@pytest.mark.parametrize("script", [(IDLE, 60_000), ()])
def test_the_end_of_the_server_ends_the_worker(peer: Peer, script: tuple[int, ...]) -> None:
    peer.send(generate("a", *script))
    peer.sock.close()
    assert peer.status() == 0
    assert "the server is gone" in peer.lines()
    assert "backend closed\n" in peer.lines()


def test_the_end_of_the_server_ends_a_worker_that_still_loads(tmp_path: Path) -> None:
    peer = Peer(tmp_path, model="hangs")
    time.sleep(0.5)
    peer.sock.close()
    assert peer.status() == 0
    peer.close()


@pytest.mark.parametrize("garbage", [b"GET / HTTP/1.1\r\n\r\n", frame(b"\xc1"), frame(encode(Queued(id="a", ahead=1)))])
def test_garbage_ends_the_worker_with_a_clear_log(peer: Peer, garbage: bytes) -> None:
    peer.sock.sendall(garbage)
    assert peer.status() == 4
    assert "the server sent what is not a request" in peer.lines()


def test_an_engine_that_cannot_start_says_why(tmp_path: Path) -> None:
    peer = Peer(tmp_path, model="fails")
    failed = peer.receive()
    assert failed == Failed(
        id=None,
        code="engine_unavailable",
        message="the model folder is empty",
        hint="unabridged models add smollm2-135m",
    )
    assert peer.receive() is None
    assert peer.status() == 3
    peer.close()
