"""The server as a process: found by its runtime file, alone in its data directory, gone without a trace."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from unabridged.app import runtime
from unabridged.app.locations import ENVIRONMENT, Locations

SECONDS = 30.0

Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def start(locations: Locations) -> Iterator[Start]:
    """Starts `unabridged serve` in the test's data directory; whatever still runs at the end is killed."""
    started: list[subprocess.Popen[str]] = []

    def run(*arguments: str, port: int = 0) -> subprocess.Popen[str]:
        environ = os.environ | {ENVIRONMENT: str(locations.data), "UNABRIDGED_SERVER_PORT": str(port)}
        command = [sys.executable, "-m", "unabridged", "serve", *arguments]
        pipe = subprocess.PIPE
        process = subprocess.Popen(command, env=environ, stdin=pipe, stdout=pipe, stderr=pipe, text=True)
        started.append(process)
        return process

    yield run
    for process in started:
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout, process.stderr):
            assert stream is not None
            stream.close()


def wait(file: Path, process: subprocess.Popen[str]) -> runtime.Running:
    """The runtime file of `process`."""
    until = time.monotonic() + SECONDS
    while time.monotonic() < until and process.poll() is None:
        found = runtime.read(file)
        if found is not None and found.pid == process.pid:
            return found
        time.sleep(0.02)
    pytest.fail(f"no server: {process.communicate()[1] if process.poll() is not None else 'it says nothing'}")


def test_it_says_where_it_is_and_a_signal_ends_it_without_a_trace(start: Start, locations: Locations) -> None:
    process = start()
    running = wait(locations.server_file, process)
    health = httpx.get(f"{running.url}/health", trust_env=False).json()
    assert health["pid"] == process.pid
    process.send_signal(signal.SIGTERM)
    _, narration = process.communicate(timeout=SECONDS)
    assert process.returncode == 0
    assert running.url in narration
    assert "Traceback" not in narration
    assert not locations.server_file.exists()


def test_a_second_server_names_the_first_and_leaves_it_alone(start: Start, locations: Locations) -> None:
    first = start()
    running = wait(locations.server_file, first)
    second = start()
    output, narration = second.communicate(timeout=SECONDS)
    assert second.returncode == 3
    assert output == ""
    assert f"process {first.pid}" in narration
    assert running.url in narration
    assert httpx.get(f"{running.url}/health", trust_env=False).status_code in (200, 503)


@pytest.mark.slow
def test_a_taken_port_is_a_clear_message(start: Start, locations: Locations) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        process = start(port=port)
        _, narration = process.communicate(timeout=SECONDS)
    assert process.returncode == 3
    assert str(port) in narration
    assert "Traceback" not in narration


@pytest.mark.slow
def test_a_killed_server_leaves_no_lock(start: Start, locations: Locations) -> None:
    first = start()
    wait(locations.server_file, first)
    first.kill()
    first.wait()
    assert locations.server_file.exists()
    second = start()
    wait(locations.server_file, second)


@pytest.mark.slow
def test_shutdown_with_the_key_of_the_runtime_file_ends_it(start: Start, locations: Locations) -> None:
    process = start()
    running = wait(locations.server_file, process)
    key = {"Authorization": f"Bearer {running.key}"}
    assert httpx.post(f"{running.url}/v1/shutdown", trust_env=False).status_code == 401
    assert httpx.post(f"{running.url}/v1/shutdown", headers=key, trust_env=False).status_code == 200
    assert process.wait(SECONDS) == 0


@pytest.mark.slow
def test_a_child_ends_with_its_parents_pipe(start: Start, locations: Locations) -> None:
    process = start("--child")
    wait(locations.server_file, process)
    assert process.stdin is not None
    process.stdin.close()
    assert process.wait(SECONDS) == 0
    assert not locations.server_file.exists()


def test_neither_server_nor_client_imports_torch() -> None:
    heavy = "torch", "transformers", "textual", "pypdfium2"
    code = (
        "import sys; import unabridged.app.server, unabridged.app.launch, unabridged.app.openai_api;"
        f"print([name for name in {heavy!r} if name in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
