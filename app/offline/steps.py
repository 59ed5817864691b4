"""What a user does, once each: `python -m unabridged.app.offline.steps FOLDER MODEL`. One JSON object a step on
standard output: name, whether it went well, seconds, what came of it.

Every step is the program itself in a process of its own, as a user would start it; a failed step does not keep the
others from being tried. Exit status 1 when one failed.
"""

import fcntl
import json
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unabridged.app.offline import papers

if TYPE_CHECKING:
    from httpx import Response

_SECONDS = 600
_QUIT = b"\x11"


class _Failed(Exception):
    """A step did not do what it should; the text says what."""


def main() -> int:
    """Do all steps."""
    folder, model = Path(sys.argv[1]), sys.argv[2]
    files = folder / "papers"
    files.mkdir()
    papers.write(files)
    program = [sys.executable, "-P", "-m", "unabridged", "--data-dir", str(folder / "data")]
    os.environ["UNABRIDGED_MODEL_NAME"] = model
    os.environ["UNABRIDGED_ANSWER_MAX_TOKENS"] = "32"
    failed = False
    for name, step in (("ingestion", _add), ("prefill", _prefill), ("question", _ask), ("API", _api), ("TUI", _chat)):
        began = time.monotonic()
        try:
            good, text = True, step(program, files)
        except (_Failed, OSError, subprocess.SubprocessError) as error:
            good, text = False, str(error)
        failed = failed or not good
        seconds = round(time.monotonic() - began, 1)
        print(json.dumps({"name": name, "good": good, "seconds": seconds, "text": text}), flush=True)
    return 1 if failed else 0


def _add(program: Sequence[str], files: Path) -> str:
    _run([*program, "add", str(files)])
    listed = [json.loads(line) for line in _run([*program, "ls", "--json"]).splitlines()]
    unread = [entry["title"] for entry in listed if entry["status"] != "read"]
    if unread or len(listed) < len(list(files.iterdir())):
        raise _Failed(f"of {len(listed)} documents these were not read: {', '.join(unread) or 'some are missing'}")
    return f"{len(listed)} documents read: {', '.join(sorted(path.suffix for path in files.iterdir()))}"


def _prefill(program: Sequence[str], files: Path) -> str:
    _run([*program, "add", str(files), "--prefill"])
    return "the model has read the collection"


def _ask(program: Sequence[str], files: Path) -> str:
    told = json.loads(_run([*program, "ask", "--json", papers.QUESTION]))
    return f"{told['answer'].strip()[:120]!r}, {len(told['citations'])} citations"


def _api(program: Sequence[str], files: Path) -> str:
    import httpx

    with _served(program) as url, httpx.Client(base_url=url, trust_env=False, timeout=_SECONDS) as client:
        models = client.get("/v1/models")
        asked = {"model": _body(models)["data"][0]["id"], "messages": [{"role": "user", "content": papers.QUESTION}]}
        reply = _body(client.post("/v1/chat/completions", json=asked))
    return f"{url}: {reply['choices'][0]['message']['content'].strip()[:120]!r}"


def _body(reply: "Response") -> Any:
    if not reply.is_success:
        raise _Failed(f"{reply.url} answered {reply.status_code}: {reply.text[:200]}")
    return reply.json()


def _chat(program: Sequence[str], files: Path) -> str:
    """In a terminal of its own, until it shows a document's name; then it is told to quit."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
    process = subprocess.Popen(
        [*program, "chat"],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**os.environ, "TERM": "xterm-256color"},
        start_new_session=True,
    )
    os.close(theirs)
    try:
        _wait_for(ours, b"survey.pdf")
        os.write(ours, _QUIT)
        _drain(ours)
        status = process.wait(30)
    finally:
        process.kill()
        os.close(ours)
    if status:
        raise _Failed(f"it ended with exit status {status}")
    return "the terminal interface showed the documents and quit"


@contextmanager
def _served(program: Sequence[str]) -> Iterator[str]:
    """The address of a server that runs meanwhile."""
    process = subprocess.Popen([*program, "serve", "--port", "0"], stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    try:
        with closing(process.stderr):
            line = process.stderr.readline()
            words = [word for word in line.split() if word.startswith("http://")]
            if not words:
                raise _Failed(f"the server did not start: {line.strip()}")
            yield words[0]
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)


def _run(words: Sequence[str]) -> str:
    done = subprocess.run(
        words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_SECONDS, check=False
    )
    if done.returncode:
        raise _Failed(f"exit status {done.returncode}: {(done.stderr.strip().splitlines() or ['no word'])[-1]}")
    return done.stdout


def _wait_for(terminal: int, wanted: bytes) -> None:
    seen, until = b"", time.monotonic() + 120
    while wanted not in seen:
        if not select.select([terminal], [], [], max(0.0, until - time.monotonic()))[0]:
            raise _Failed("the terminal interface did not show the documents within 120 s")
        seen += os.read(terminal, 65536)


def _drain(terminal: int) -> None:
    """Read what it still prints; a terminal whose program has ended gives an error."""
    try:
        while os.read(terminal, 65536):
            pass
    except OSError:
        return


if __name__ == "__main__":
    sys.exit(main())
