"""Tables in text files, and text whose lines are cited."""

import json

import pytest
from tests.ingest.made import end, opened, pages, read, text

from unabridged.ingest.document import Kind, Status
from unabridged.ingest.limits import Limits


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("a,b\n1,2\n", "a\tb\n1\t2"),
        ("a;b\n1,5;2,5\n", "a\tb\n1,5\t2,5"),
        ("a\tb\n1\t2\n", "a\tb\n1\t2"),
        ("a|b\n1|2\n", "a\tb\n1\t2"),
        ("sep=;\na;b\n1,2;3\n", "a\tb\n1,2\t3"),
        ('a,b\n"x, y","line\none"\n', "a\tb\nx, y\tline one"),
        ('a,b\n5" pipe,2\n6" pipe,3\n', 'a\tb\n5" pipe\t2\n6" pipe\t3'),
        ("only one column\nof text\n", "only one column\nof text"),
        ("a,b\r1,2\r", "a\tb\n1\t2"),
        ("a,b\n\n\n1,2\n", "a\tb\n1\t2"),
    ],
)
def test_the_separator_is_found(content: str, expected: str) -> None:
    items = read("a.csv", content.encode())
    assert text(items) == expected
    assert opened(items)[0].kind == Kind.SHEET


def test_charsets_are_found_and_rows_are_numbered_by_the_file() -> None:
    content = "jméno;částka\n" + "".join(f"Žofie {n};{n}\n" for n in range(2, 900))
    for codec in ("utf-8", "utf-8-sig", "utf-16", "cp1250"):
        items = read("a.csv", content.encode(codec))
        found = pages(items)
        assert found[0].text.startswith("jméno\tčástka\nŽofie 2\t2\n")
        assert all(page.text.startswith("jméno\tčástka\n") for page in found)
        assert found[0].label.startswith("rows 1-")
        assert found[-1].label.endswith("-899")


def test_a_mark_that_is_never_closed_swallows_no_rows() -> None:
    content = 'a,b\n"broken,1\n' + "".join(f"row {n},{n}\n" for n in range(2_000))
    items = read("a.csv", content.encode())
    assert "row 1999\t1999" in text(items)
    assert text(items).startswith('a\tb\n"broken\t1')


def test_a_table_past_the_limit_says_so() -> None:
    items = read("a.csv", b"a,b\n" + b"word,word\n" * 9_000, Limits(document_chars=20_000))
    assert end(items).status == Status.PARTIAL
    assert "characters were not read" in end(items).reason


def test_code_ends_its_pages_at_empty_lines_and_says_which_they_are() -> None:
    block = "def f():\n    return 1\n\n\n"
    items = read("a.py", (block * 400).encode())
    found = pages(items)
    assert "".join(page.text for page in found) == block * 400
    assert all(page.text.endswith("\n\n\n") for page in found)
    assert found[0].label.startswith("lines 1-")
    last = int(found[0].label.rpartition("-")[2])
    assert found[1].label.startswith(f"lines {last + 3}-")
    assert opened(items)[0].kind == Kind.CODE


def test_data_and_logs_are_text_with_lines() -> None:
    for name in ("a.json", "a.log", "a.xml", "a.yaml"):
        items = read(name, b"<a/>\nsecond\n")
        assert (opened(items)[0].kind, pages(items)[0].label) == (Kind.TEXT, "lines 1-2")


def test_binary_data_under_the_name_of_a_text_is_none() -> None:
    noise = bytes(range(256)) * 40
    for name in ("a.ts", "a.csv", "a.json"):
        assert end(read(name, noise)).status == Status.UNSUPPORTED
    assert end(read("a.csv", b"")).status == Status.NO_TEXT


def test_a_notebook_is_its_cells_and_what_they_printed() -> None:
    picture = {"output_type": "display_data", "data": {"image/png": "A" * 9_000, "text/plain": ["<Figure>"]}}
    cells = [
        {"cell_type": "markdown", "source": ["# Wells\n", "deep"]},
        {"cell_type": "code", "source": "1 + 1", "outputs": [{"output_type": "stream", "text": ["2\n"]}, picture]},
    ]
    items = read("a.ipynb", json.dumps({"cells": cells}).encode())
    (page,) = pages(items)
    assert page.text == "# Wells\ndeep\n\n1 + 1\n\n2\n\n\n<Figure>\n\n1 pictures in the outputs of cell 2 were left out"
    assert page.label == "cells 1-2"
    assert text(read("a.ipynb", b'{"cells": [')) == '{"cells": ['
    assert end(read("a.ipynb", b"[" * 200_000)).status == Status.READ
