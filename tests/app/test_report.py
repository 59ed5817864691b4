"""Reports: every file and page is accounted for, for people and for programs."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from unabridged.app import cli
from unabridged.ingest.catalog.storing import ContentWriter
from unabridged.ingest.catalog.writes import Seen, attach, ensure_collection
from unabridged.ingest.document import Closed, Flag, Kind, Opened, Page, Part, PartKind, Status
from unabridged.ingest.library import Library

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def scan(tmp_path: Path) -> None:
    """A PDF of six pages, some of which were not read, in the library."""
    pages = [
        Page(ref=0, number=1, text="Contents", label="i"),
        Page(ref=0, number=2, text="", flags=(Flag.SCANNED,), score=0.0),
        Page(ref=0, number=3, text="", flags=(Flag.SCANNED,), score=0.0),
        Page(ref=0, number=4, text="The mill.\nhidden", flags=(Flag.HIDDEN,), parts=(Part(PartKind.HIDDEN, 10, 16),)),
        Page(ref=0, number=5, text="recognised", flags=(Flag.SCANNED, Flag.OCR), score=0.9),
        Page(ref=0, number=6, text="", flags=(Flag.UNREAD,), score=0.0),
    ]
    meta = {"outline": '[[0,"Contents",1],[1,"The mill",4]]'}
    with Library.open(tmp_path / "data" / "library.db") as library:
        writer = ContentWriter(library.connection, "x", 1)
        writer.put(Opened(ref=0, parent=None, name="scan.pdf", kind=Kind.PDF, meta=meta))
        for page in pages:
            writer.put(page)
        writer.put(Closed(ref=0, status=Status.PARTIAL, reason="3 pages unread"))
        writer.finish()
        number = ensure_collection(library.connection, "default")
        attach(library.connection, Seen("/d/scan.pdf", 1, 1), writer.content, number)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Nine files, five of which rules leave out."""
    root = tmp_path / "case"
    for name in ("a.txt", "b.txt", "empty.txt", "c.tmp", "d.tmp", ".hidden", "old/x.txt", "old/y.txt"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("" if name.startswith("empty") else f"This is {name}.")
    (root / ".unabridgedignore").write_text("*.tmp\n")
    return root


def test_every_file_of_a_folder_adds_up(run: Run, folder: Path) -> None:
    code, out, error = run("add", str(folder), "--exclude", "old/", "--json", "--list-ignored")
    *lines, account = [json.loads(line) for line in out.splitlines()]
    assert code == cli.PARTLY
    assert account["statuses"] == {"read": 2, "no_text": 1}
    assert account["ignored"] == {"hidden": 2, ".unabridgedignore: *.tmp": 2, "--exclude old/": 2}
    everything = sum(path.is_file() for path in folder.rglob("*"))
    assert sum(account["statuses"].values()) + sum(account["ignored"].values()) == everything
    assert {Path(one["path"]).name for one in lines if "ignored" in one} == {".hidden", ".unabridgedignore"} | {
        "c.tmp",
        "d.tmp",
        "old",
    }
    assert "left out besides: 6 files" in error


def test_what_is_ignored_is_listed_and_rules_are_remembered_until_told_otherwise(run: Run, folder: Path) -> None:
    run("add", str(folder), "--exclude", "old/")
    assert run("ls", "--ignored")[1].count("ignored  ") == 5
    assert "old/: " not in run("add")[2]
    assert "2 by --exclude old/" in run("add")[2]
    assert "(2 new, 3 unchanged)" in run("add", str(folder), "--forget-rules")[2]
    assert run("add", str(folder), "--exclude", "!")[0] == cli.FAILED


def test_problems_are_told_by_page(run: Run, scan: None) -> None:
    _, out, _ = run("ls", "--problems")
    assert out.splitlines() == [
        "partial  /d/scan.pdf: 3 pages unread",
        "    pages 2-3: scanned",
        "    page 6: unread",
    ]
    (found,) = [json.loads(line) for line in run("ls", "--problems", "--json")[1].splitlines()]
    assert [page["number"] for page in found["problem_pages"]] == [2, 3, 6]


def test_the_map_of_a_document_says_what_became_of_each_page(run: Run, scan: None) -> None:
    _, out, _ = run("show", "scan.pdf", "--map", "--json")
    found = json.loads(out)
    assert [page["status"] for page in found["map"]] == ["read", "unread", "unread", "read", "read", "unread"]
    assert found["map"][3]["parts"] == {"hidden": 6}
    assert found["outline"][1] == {"level": 1, "title": "The mill", "page": 4}
    _, out, error = run("show", "scan.pdf", "--map")
    assert "3 pages unread" in error
    assert len(out.splitlines()) == 8
    assert out.splitlines()[-1] == "  The mill  4"
