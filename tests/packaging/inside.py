"""What is done on the machine without a network: `python inside.py COMMAND HOME`, in a namespace without any route.

Prints a transcript on standard output; exit status 0 when everything went as it should. The API is driven with OpenAI's
own client, from the environment of the tests; all else is the installed command.
"""

import fcntl
import os
import pty
import select
import shlex
import signal
import socket
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

SECONDS = 900
QUESTION = "To which date was the dredging of the north basin moved?"
FACT = "12 May 2025"


def main() -> None:
    """All scenes."""
    command, home = sys.argv[1], Path(sys.argv[2])
    os.environ["HOME"] = str(home)
    os.environ["PATH"] = f"{Path(command).parent}:{os.environ['PATH']}"
    no_route()
    papers = Path(command).resolve().parents[1] / "share/demo/papers"
    run("unabridged", "--version")
    run("unabridged", "verify", "--signers", str(home / "allowed_signers"))
    run("unabridged", "doctor")
    run("unabridged", "add", str(papers))
    answer = run("unabridged", "ask", QUESTION)
    assert FACT in answer, answer
    assert "harbour-office.mbox#3, page 1" in answer, answer
    api()
    tui()
    run("unabridged", "doctor", "--prove-offline")


def no_route() -> None:
    """This is what the whole test stands on."""
    try:
        socket.create_connection(("192.0.2.1", 443), 3)
    except OSError as error:
        names = ", ".join(name for _, name in socket.if_nameindex())
        print(f"# a connection to 192.0.2.1: {error.strerror}; interfaces: {names}")
    else:
        raise AssertionError("there is a network")


def run(*words: str) -> str:
    """Run the installed command; its output, which is printed too."""
    print(f"\n$ {shlex.join(words)}", flush=True)
    done = subprocess.run(
        words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=SECONDS, check=False
    )
    print(done.stdout, end="", flush=True)
    assert done.returncode == 0, f"{words[:3]} ended with {done.returncode}"
    return done.stdout


def api() -> None:
    """The server, asked through OpenAI's client, streamed and not."""
    from openai import OpenAI

    print("\n$ unabridged serve --port 0", flush=True)
    server = subprocess.Popen(["unabridged", "serve", "--port", "0"], stderr=subprocess.PIPE, text=True)
    assert server.stderr is not None
    try:
        line = server.stderr.readline()
        print(line, end="")
        url = next(word for word in line.split() if word.startswith("http://"))
        client = OpenAI(base_url=f"{url}/v1", api_key="any", timeout=SECONDS, max_retries=0)
        model = client.models.list().data[0].id
        asked = [{"role": "user", "content": "How much does a scan of a map cost?"}]
        print(f">>> OpenAI(base_url={url + '/v1'!r}).chat.completions.create(model={model!r}, messages={asked})")
        reply = client.chat.completions.create(model=model, messages=asked)  # type: ignore[arg-type]
        text = reply.choices[0].message.content or ""
        print(text)
        assert "12" in text, text
        assert "reading-room-rules.txt" in text, text
        pieces = 0
        with client.chat.completions.stream(model=model, messages=asked) as stream:  # type: ignore[arg-type]
            for event in stream:
                pieces += event.type == "content.delta"
            assert "12" in (stream.get_final_completion().choices[0].message.content or "")
        print(f"# streamed: {pieces} pieces")
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(60)


def tui() -> None:
    """The interface in a terminal: a question is typed, the answer shown, then it is told to quit."""
    print("\n$ unabridged chat", flush=True)
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 140, 0, 0))
    environment = {**os.environ, "TERM": "xterm-256color"}
    process = subprocess.Popen(["unabridged", "chat"], stdin=theirs, stdout=theirs, stderr=theirs, env=environment)
    os.close(theirs)
    try:
        wait_for(ours, b"harbour-office.mbox")
        os.write(ours, QUESTION.encode() + b"\r")
        wait_for(ours, FACT.encode())
        print(f"# typed: {QUESTION}; on the screen: {FACT}")
        os.write(ours, b"\x11")
        until = time.monotonic() + 60
        while process.poll() is None and time.monotonic() < until:
            if select.select([ours], [], [], 1)[0]:
                try:
                    os.read(ours, 65536)
                except OSError:
                    break
        assert process.wait(10) == 0
    finally:
        process.kill()
        os.close(ours)


def wait_for(terminal: int, wanted: bytes) -> None:
    """Read the terminal until it has printed this."""
    seen, until = b"", time.monotonic() + SECONDS
    while wanted not in seen:
        assert select.select([terminal], [], [], max(0.0, until - time.monotonic()))[0], f"{wanted!r} was not shown"
        seen += os.read(terminal, 65536)


if __name__ == "__main__":
    main()
