"""Recognition by tesseract, if the system has it: a process of its own for each page, image in and words out by pipes.

Tested with 5.3. It gets no file, no network and no more memory than its parent; it ends with it, and after
`limits.ocr_seconds` of processor time. Words come as TSV with a confidence each.
"""

import ctypes
import os
import re
import resource
import signal
import subprocess
from collections.abc import Sequence
from functools import cache

from unabridged.ingest.limits import Limits
from unabridged.ingest.ocr import system
from unabridged.ingest.ocr.image import Gray
from unabridged.ingest.ocr.recognise import OcrFailed, Recognised

_ENGLISH = "eng"
_AT_ONCE = 6  # languages: each makes a page slower, and more of them are not meant to be used together
_NO_LANGUAGES = frozenset({"osd", "equ"})
_DOUBT = 0.6  # clean print has 0.9 and more
_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG
_WAIT = 2  # times the processor time, where the machine is busy
_LIST_SECONDS = 30
_PAGE, _PARAGRAPH, _LINE, _CONFIDENCE, _TEXT = 1, 3, 4, 10, 11


def read(image: Gray, limits: Limits) -> Recognised:
    """The text of an image. Raises OcrFailed."""
    wanted = languages(limits.ocr_languages)
    mode = "1" if "osd" in _installed() else "3"  # with orientation, where its data is there
    command = ["tesseract", "stdin", "stdout", "-l", "+".join(wanted), "--psm", mode, "--dpi", str(image.dpi)]
    header = f"P5 {image.width} {image.height} 255\n".encode()
    answer = _run([*command, "-c", "tessedit_create_tsv=1"], header + image.rows, limits.ocr_seconds)
    text, confidence = words(answer.decode("utf-8", "replace"))
    return Recognised(text, confidence, f"{version()} ({'+'.join(wanted)})", bool(text) and confidence < _DOUBT)


def languages(wanted: Sequence[str]) -> tuple[str, ...]:
    """The languages to read with. None wanted: all that are installed, or English where these are many. Raises
    OcrFailed for one that is not there."""
    there = installed()
    if lacking := [name for name in wanted if name not in _installed()]:
        raise OcrFailed(f"tesseract has no language {lacking[0]!r}: install it, or change ingest.ocr_languages")
    if wanted:
        return tuple(wanted)
    if not there:
        raise OcrFailed("tesseract has no language: install tesseract-ocr-eng, or what else is needed")
    if len(there) <= _AT_ONCE:
        return there
    return tuple(name for name in dict.fromkeys((system.language(), _ENGLISH)) if name in there) or (there[0],)


def installed() -> tuple[str, ...]:
    """The languages that are there. Raises OcrFailed."""
    return tuple(name for name in _installed() if name not in _NO_LANGUAGES and "/" not in name)


@cache
def version() -> str:
    """Name and version."""
    match = re.search(rb"tesseract v?([\d.]+)", _run(["tesseract", "--version"], b"", _LIST_SECONDS))
    return f"tesseract {match[1].decode()}" if match else "tesseract"


@cache
def _installed() -> tuple[str, ...]:
    lines = _run(["tesseract", "--list-langs"], b"", _LIST_SECONDS).decode("utf-8", "replace").splitlines()
    return tuple(line.strip() for line in lines if line.strip() and ":" not in line)


def words(tsv: str) -> tuple[str, float]:
    """Text and confidence: words make lines, lines paragraphs with an empty line between them."""
    out: list[str] = []
    before: list[str] = []
    weight = total = 0.0
    for row in tsv.splitlines()[1:]:
        cells = row.split("\t")
        if len(cells) <= _TEXT or not (word := cells[_TEXT].strip()):
            continue
        place = cells[_PAGE:_CONFIDENCE]
        if before:
            paragraph = place[:_PARAGRAPH] != before[:_PARAGRAPH]
            line = place[:_LINE] != before[:_LINE]
            out.append("\n\n" if paragraph else "\n" if line else " ")
        before = place
        out.append(word)
        weight += len(word)
        total += len(word) * max(0.0, float(cells[_CONFIDENCE]))
    return "".join(out), total / weight / 100 if weight else 0.0


def _run(command: list[str], image: bytes, seconds: float) -> bytes:
    environment = {**os.environ, "OMP_THREAD_LIMIT": "1", "LC_ALL": "C"}

    def confine() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (int(seconds) + 1, int(seconds) + 2))
        ctypes.CDLL(None).prctl(_DEATH_SIGNAL, signal.SIGKILL)

    try:
        done = subprocess.run(
            command, input=image, capture_output=True, timeout=seconds * _WAIT, env=environment, preexec_fn=confine
        )
    except subprocess.TimeoutExpired as error:
        raise OcrFailed(f"tesseract takes more than {seconds:g} seconds") from error
    except OSError as error:
        raise OcrFailed(f"tesseract does not start: {error.strerror}") from error
    if done.returncode in (-signal.SIGXCPU, -signal.SIGKILL):
        raise OcrFailed(f"tesseract takes more than {seconds:g} seconds of processor time")
    if done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise OcrFailed(f"tesseract failed: {(said or [f'exit code {done.returncode}'])[-1][:200]}")
    return done.stdout
