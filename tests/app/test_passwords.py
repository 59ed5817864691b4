"""Passwords of locked files: read from a file, or asked for, each tried on every file that is locked."""

import io
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import pytest
from rich.console import Console
from tests.ingest.made import data, line, pdf

from unabridged.app.commands import passwords
from unabridged.app.schema import AddFiles
from unabridged.app.tally import Tally
from unabridged.ingest.adding.add import AddOptions, add
from unabridged.ingest.adding.locked import locked_files
from unabridged.ingest.catalog.rows import AddItem, FileDone
from unabridged.ingest.library import Library

Answers = Iterator[str]


@pytest.fixture
def case(tmp_path: Path) -> Path:
    """Two files of one password, one of another, and one that is open."""
    folder = tmp_path / "case"
    folder.mkdir()
    for name, password in {"a.pdf": "kestrel", "b.pdf": "kestrel", "c.pdf": "heron", "d.pdf": ""}.items():
        writer = pdf(line(f"The text of {name}."))
        if password:
            writer.encrypt(password, algorithm="RC4-128")
        (folder / name).write_bytes(data(writer))
    return folder


def _asked(case: Path, tmp_path: Path, answers: Sequence[str | None], monkeypatch: pytest.MonkeyPatch) -> Any:
    """Adds the folder and answers; what was asked, what was said, and the statuses afterwards."""
    questions: list[str] = []
    left = iter(answers)

    def prompt(question: str, **options: object) -> str:
        assert options["hide_input"]
        questions.append(question)
        answer = next(left)
        if answer is None:
            raise click.Abort
        return answer

    monkeypatch.setattr(click, "prompt", prompt)
    said = io.StringIO()
    app: Any = SimpleNamespace(console=Console(file=said, width=200))
    watched = passwords.Watched([case])
    tally = Tally()
    with Library.open(tmp_path / "library.db") as library:

        def read(paths: Sequence[str], tried: Sequence[str]) -> Iterable[AddItem]:
            return add(library, paths, options=AddOptions(jobs=1, passwords=tuple(tried)))

        for item in watched.through(add(library, [case], options=AddOptions(jobs=1))):
            if isinstance(item, FileDone):
                tally.file(item)
        passwords.ask(app, lambda: locked_files(library.connection, "default"), watched, read, tally)
        locked = [Path(path).name for path in locked_files(library.connection, "default")]
    assert b"kestrel" not in (tmp_path / "library.db").read_bytes()
    return questions, said.getvalue(), locked, dict(tally.statuses)


def test_one_password_opens_all_files_that_it_fits(case: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    questions, said, locked, statuses = _asked(case, tmp_path, ["wrong", "kestrel", ""], monkeypatch)
    assert [question.split()[2] for question in questions] == ["a.pdf", "a.pdf", "c.pdf"]
    assert "that does not open it: try again" in said
    assert locked == ["c.pdf"]
    assert statuses == {"read": 3, "needs_password": 1}


def test_the_end_of_input_ends_the_questions(case: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    questions, _, locked, statuses = _asked(case, tmp_path, [None], monkeypatch)
    assert len(questions) == 1
    assert locked == ["a.pdf", "b.pdf", "c.pdf"]
    assert statuses == {"read": 1, "needs_password": 3}


def test_a_password_file_has_one_a_line(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes("\ufeffkestrel\r\n\n    \nStraße\nkestrel\n".encode())
    assert passwords.in_file(tmp_path / "secret") == ("kestrel", "    ", "Straße")


def test_an_empty_password_file_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("\n")
    with pytest.raises(click.UsageError, match="is empty"):
        passwords.in_file(tmp_path / "secret")


def test_a_request_may_hold_one_password_or_several() -> None:
    assert AddFiles(password="kestrel", passwords=("heron",)).all_passwords == ("kestrel", "heron")
    assert AddFiles().all_passwords == ()
