"""What a reader process may and may not do, and how limits end a file."""

import subprocess
import sys
from pathlib import Path

import pytest
from tests.ingest.made import data, end, line, opened, pages, pdf, sound

from unabridged.ingest.document import Flag, Kind, Status
from unabridged.ingest.limits import Limits
from unabridged.ingest.worker import Workers, read_file

FROM = b"From a@b.c Tue Mar  3 09:15:00 2026\nFrom: a@b.c\nSubject: m%d\nContent-Type: text/html\n\n%s\n\n"


def test_a_reader_can_write_no_file_and_needs_no_network() -> None:
    program = """
from unabridged.ingest.limits import Limits
from unabridged.ingest.reader import confine
import signal, sys
confine(Limits())
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
try:
    open(sys.argv[1], "wb", buffering=0).write(b"x")
except OSError:
    print("refused", "torch" in sys.modules, "socket" in sys.modules)
"""
    out = subprocess.run(
        [sys.executable, "-c", program, "/tmp/unabridged-none"], capture_output=True, text=True, check=True
    )
    assert out.stdout.split() == ["refused", "False", "False"]


def test_a_reader_takes_no_module_from_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "chardet.py").write_text("raise SystemExit(7)")
    (tmp_path / "a.txt").write_bytes("naïve café".encode("cp1252"))
    monkeypatch.chdir(tmp_path)
    assert end(list(read_file(Path("a.txt")))).status == Status.READ


@pytest.mark.slow
def test_a_message_that_takes_too_long_costs_only_itself(tmp_path: Path) -> None:
    bodies = [b"one", b"<div>" * 120_000, b"three"]
    (tmp_path / "box").write_bytes(b"".join(FROM % (n, body) for n, body in enumerate(bodies, 1)))
    items = list(read_file(tmp_path / "box", Limits(page_seconds=2)))
    sound(items)
    messages = [document for document in opened(items) if document.kind == Kind.MESSAGE]
    assert [end(items, message.ref).status for message in messages] == [Status.READ, Status.DAMAGED, Status.READ]
    assert end(items).status == Status.PARTIAL
    assert end(items).reason == "message 2 unread: stopped: takes too much processor time"


@pytest.mark.slow
def test_a_page_that_takes_too_long_costs_only_itself(tmp_path: Path) -> None:
    heavy = "".join(f"BT /F1 1 Tf {n % 600} {n % 790} Td (a) Tj ET\n" for n in range(150_000))
    (tmp_path / "a.pdf").write_bytes(data(pdf(line("one"), heavy, line("three"))))
    items = list(read_file(tmp_path / "a.pdf", Limits(page_seconds=1)))
    sound(items)
    assert [page.number for page in pages(items)] == [1, 2, 3]
    assert pages(items)[2].text == "three"
    if Flag.UNREAD in pages(items)[1].flags:
        assert end(items).status == Status.PARTIAL


def test_memory_is_bounded(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"\xe9 some text\n" * 3_000_000)
    items = list(read_file(tmp_path / "a.txt", Limits(memory_bytes=150 << 20)))
    sound(items)
    assert end(items).status == Status.DAMAGED
    assert end(items).reason == "needs more than 150 MB of memory"


def test_a_whole_file_that_is_slow_is_stopped_between_two_pages(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("A line of text.\n" * 60_000)
    items = list(read_file(tmp_path / "a.txt", Limits(cpu_seconds=0.0, page_credit=0.0)))
    sound(items)
    assert end(items).status in (Status.PARTIAL, Status.DAMAGED)
    assert "processor time" in end(items).reason


def test_one_process_reads_many_files(tmp_path: Path) -> None:
    for number in range(30):
        (tmp_path / f"{number}.txt").write_text(f"File {number}.")
    with Workers(1) as workers:
        assert all(end(list(workers.read(path))).status == Status.READ for path in tmp_path.iterdir())
        assert workers.peak_bytes > 0


def test_a_reader_is_not_charged_for_the_size_of_its_parent(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("Small.")
    large = bytearray(600 << 20)
    large[:: 1 << 12] = b"x" * len(large[:: 1 << 12])
    with Workers(1) as workers:
        list(workers.read(tmp_path / "a.txt"))
        assert 0 < workers.peak_bytes < 200 << 20


def test_a_name_as_long_as_a_name_may_be_is_read(tmp_path: Path) -> None:
    file = tmp_path / ("n" * 251 + ".txt")
    file.write_text("It is long.")
    items = list(read_file(file))
    assert end(items).status == Status.READ
    assert pages(items)[0].text == "It is long."
