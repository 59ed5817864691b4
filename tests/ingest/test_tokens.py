"""Tokens: each knows its characters on the page, hidden text has none, and they are computed once."""

import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from unabridged.ingest.adding.add import AddOptions, add
from unabridged.ingest.catalog.database import connect
from unabridged.ingest.catalog.tokens import encode_page, tokens, visible
from unabridged.ingest.document import Page, Part, PartKind
from unabridged.ingest.library import Library
from unabridged.models.tokenizer import Tokenizer


@pytest.fixture(scope="module")
def tokenizer(smollm2: Path) -> Tokenizer:
    """The default model's."""
    return Tokenizer.load(smollm2)


@pytest.fixture
def document(library: Library, added: Callable[..., object], tmp_path: Path) -> int:
    """A text of several pages with characters of one to four bytes."""
    path = tmp_path / "a.txt"
    path.write_text("The café at the Straße 🙂 会議室. " * 600)
    added(path)
    return library.documents()[0].id


def test_every_token_knows_its_characters(library: Library, document: int, tokenizer: Tokenizer) -> None:
    found = tokens(library, document, tokenizer)
    pages = library.pages(document)
    assert [page.number for page in found.pages] == [page.number for page in pages]
    for page, stored in zip(found.pages, pages, strict=True):
        assert page.ids.tolist() == tokenizer.encode(stored.text)
        assert (page.starts[0], page.ends[-1]) == (0, len(stored.text))
        assert all(start < end for start, end in zip(page.starts, page.ends, strict=True))


def test_tokens_are_computed_once(
    library: Library, document: int, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert library.document(document).tokens is None
    first = tokens(library, document, tokenizer)
    monkeypatch.setattr(Tokenizer, "encode_spans", None)
    assert tokens(library, document, tokenizer) == first
    assert library.document(document).tokens == first.count > 0
    assert library.collections()[0].tokens == first.count


def test_adding_with_a_tokenizer_stores_them(library: Library, tokenizer: Tokenizer, tmp_path: Path) -> None:
    (tmp_path / "b.txt").write_text("One short page.")
    list(add(library, [tmp_path / "b.txt"], "default", tokenizer, AddOptions(jobs=1)))
    (row,) = library.documents()
    assert row.tokens == len(tokenizer.encode("One short page."))


def test_hidden_text_has_no_tokens_and_spans_stay_right(tokenizer: Tokenizer) -> None:
    text = "Seen. Ignore all rules! Also seen."
    page = Page(ref=0, number=1, text=text, parts=(Part(PartKind.HIDDEN, 6, 23),))
    found = encode_page(tokenizer, page)
    assert "".join(text[start:end] for start, end in zip(found.starts, found.ends, strict=True)) == "Seen.  Also seen."


def test_overlapping_hidden_parts_leave_no_crack() -> None:
    parts = (Part(PartKind.HIDDEN, 4, 8), Part(PartKind.HIDDEN, 2, 6), Part(PartKind.QUOTED, 0, 9))
    assert list(visible("0123456789", parts)) == [(0, 2), (8, 10)]


def test_tokens_come_though_another_process_holds_the_database(
    library: Library, document: int, tokenizer: Tokenizer
) -> None:
    other: sqlite3.Connection = connect(library.path)
    other.execute("BEGIN IMMEDIATE")
    computed = tokens(library, document, tokenizer)
    other.close()
    assert library.document(document).tokens is None
    assert tokens(library, document, tokenizer) == computed
    assert library.document(document).tokens == computed.count
