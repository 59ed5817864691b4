"""Documents by sender, recipient, date, tag, kind and thread."""

import os
from collections.abc import Iterator
from datetime import date
from pathlib import Path

import pytest
from tests.ingest.letters import add_files, letter, store

from unabridged.ingest.catalog import filters
from unabridged.ingest.catalog.filters import Filter, first_day, last_day
from unabridged.ingest.errors import FilterInvalid
from unabridged.ingest.library import Library


@pytest.fixture
def library(tmp_path: Path) -> Iterator[Library]:
    with Library.open(tmp_path / "library.db") as opened:
        store(
            opened,
            "box",
            [
                letter(1, sender="Inès Vega <ines@harbour.example>", date="2026-03-15T23:30:00-05:00"),
                letter(
                    2, subject="Re: Dredging", references="1@x", sender="Pavel Novák <p@mill.example>", cc="Inès <i@x>"
                ),
                letter(3, subject="Ferry", date="", date_raw="gestern", labels="Inbox,Work/Port", flags="seen flagged"),
            ],
        )
        yield opened


def _names(library: Library, **where: object) -> list[str]:
    rows = library.documents(patterns=Filter(**where))  # type: ignore[arg-type]
    return [row.path.removeprefix("/case/") for row in rows]


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ({"sender": "ines harbour.example"}, ["box#1", "box#3"]),
        ({"sender": "VËGA ines"}, ["box#1", "box#3"]),
        ({"sender": "@mill.example"}, ["box#2"]),
        ({"recipient": "inès"}, ["box#2"]),
        ({"recipient": "pavel", "sender": "vega"}, ["box#1", "box#3"]),
        ({"since": "2026-03-15", "until": "2026-03-15"}, ["box#1"]),
        ({"until": "2026-03-14"}, ["box#2"]),
        ({"since": "2026"}, ["box#1", "box#2"]),
        ({"since": "2027"}, []),
        ({"tags": ("inbox",)}, ["box#3"]),
        ({"tags": ("Inbox", "FLAGGED")}, ["box#3"]),
        ({"tags": ("inbox", "spam")}, []),
        ({"kinds": ("mail",), "patterns": ("box#2",)}, ["box#2"]),
        ({"kinds": ("mailbox",)}, ["box"]),
        ({"thread": "2@x"}, ["box#1", "box#2"]),
        ({"thread": "<1@x>"}, ["box#1", "box#2"]),
        ({"thread": "box#3"}, ["box#3"]),
        ({"thread": "999"}, []),
        ({}, ["box", "box#1", "box#2", "box#3"]),
    ],
)
def test_a_filter_means_what_it_says(library: Library, where: dict[str, object], expected: list[str]) -> None:
    assert _names(library, **where) == expected


def test_a_thread_is_named_by_the_number_that_its_rows_have(library: Library) -> None:
    rows = {row.path: row for row in library.documents()}
    assert _names(library, thread=str(rows["/case/box#2"].thread)) == ["box#1", "box#2"]


def test_what_has_no_date_is_told_apart_from_what_is_too_old(library: Library) -> None:
    rows = library.documents()
    missing = filters.undated(rows, Filter(since="2026", sender="vega"))
    assert [row.path for row in missing] == ["/case/box#3"]
    assert filters.undated(rows, Filter(sender="vega")) == []


def test_a_filter_that_means_nothing_says_which_part(library: Library) -> None:
    where = Filter(sender="vega", since="2027")
    assert str(where) == "--from vega --since 2027"
    assert filters.explain(library.documents(), where) == "taken alone, --from vega: 2, --since 2027: 0"


def test_a_message_that_says_no_date_has_that_of_its_file_and_does_not_show_it(tmp_path: Path) -> None:
    path = tmp_path / "a.eml"
    path.write_text("From: a@x\nDate: Mon, 99 Foo 2025 99:99:99 +9999\nSubject: s\n\nbody\n")
    os.utime(path, (1_717_000_000, 1_717_000_000))
    with Library.open(tmp_path / "library.db") as library:
        add_files(library, path)
        (row,) = library.documents()
        assert (row.date[:7], row.dated) == ("2024-05", "file")
        shown = library.page(row.id, 1).text
    assert "Date: Mon, 99 Foo 2025 99:99:99 +9999" in shown
    assert "2024" not in shown


def test_attachments_follow_their_message_and_files_their_folders(tmp_path: Path) -> None:
    folder = tmp_path / "case"
    (folder / "contracts" / "2024").mkdir(parents=True)
    (folder / "contracts" / "2024" / "lease.txt").write_text("The lease.")
    os.utime(folder / "contracts" / "2024" / "lease.txt", (1_717_000_000, 1_717_000_000))
    (folder / "a.eml").write_text(
        "From: Ines <ines@x.example>\nTo: p@x.example\nDate: Mon, 2 Mar 2026 10:00:00 +0000\nMessage-ID: <a@x>\n"
        'Subject: Lease\nMIME-Version: 1.0\nContent-Type: multipart/mixed; boundary="b"\n\n--b\n'
        'Content-Type: text/plain\n\nSee.\n--b\nContent-Type: text/plain; name="note.txt"\n'
        'Content-Disposition: attachment; filename="note.txt"\n\nThe note.\n--b--\n'
    )
    with Library.open(tmp_path / "library.db") as library:
        add_files(library, folder)

        def names(where: Filter) -> list[str]:
            return [row.path.removeprefix(f"{folder}/") for row in library.documents(patterns=where)]

        assert names(Filter(sender="ines")) == ["a.eml", "a.eml/note.txt"]
        assert names(Filter(sender="ines", kinds=("text",))) == ["a.eml/note.txt"]
        assert names(Filter(since="2026-03", until="2026-03")) == ["a.eml", "a.eml/note.txt"]
        assert names(Filter(until="2024-06")) == ["contracts/2024/lease.txt"]
        assert names(Filter(tags=("Contracts", "2024"))) == ["contracts/2024/lease.txt"]
        rows = {row.path.rpartition("/")[2]: row for row in library.documents()}
        assert (rows["lease.txt"].dated, rows["note.txt"].dated) == ("file", "message")
        assert rows["note.txt"].thread == rows["a.eml"].thread
        assert library.document(rows["note.txt"].id) == rows["note.txt"]


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        ("2024", "2024-01-01", "2024-12-31"),
        ("2024-2", "2024-02-01", "2024-02-29"),
        ("2024-12", "2024-12-01", "2024-12-31"),
        ("2024-03-15", "2024-03-15", "2024-03-15"),
        ("20240315", "2024-03-15", "2024-03-15"),
        ("30d", "2026-01-31", "2026-01-31"),
        ("2w", "2026-02-16", "2026-02-16"),
        ("1y", "2025-03-02", "2025-03-02"),
        ("today", "2026-03-02", "2026-03-02"),
        ("yesterday", "2026-03-01", "2026-03-01"),
    ],
)
def test_dates_are_whole_periods(text: str, first: str, last: str) -> None:
    today = date(2026, 3, 2)
    assert (first_day(text, today), last_day(text, today)) == (first, last)


@pytest.mark.parametrize("text", ["", "soon", "2024-13", "2024-02-30", "99999d99", "9999y", "-3d", "24"])
def test_what_is_no_date_says_how_to_write_one(text: str) -> None:
    with pytest.raises(FilterInvalid, match="is no date"):
        first_day(text)


def test_filters_without_meaning_are_errors_with_a_way_out(library: Library) -> None:
    with pytest.raises(FilterInvalid, match="no kind of document is called 'letters'") as error:
        _names(library, kinds=("letters",))
    assert "pdf" in error.value.hint
    with pytest.raises(FilterInvalid, match="--since 2027 is behind --until 2026"):
        _names(library, since="2027", until="2026")
