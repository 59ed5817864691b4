"""Tags that people give."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.ingest.letters import add_files, letter, store

from unabridged.ingest.catalog.filters import Filter
from unabridged.ingest.errors import DocumentNotFound, FilterInvalid
from unabridged.ingest.library import Library


@pytest.fixture
def library(tmp_path: Path) -> Iterator[Library]:
    with Library.open(tmp_path / "library.db") as opened:
        store(opened, "box", [letter(1), letter(2, subject="Ferry", labels="Inbox")])
        yield opened


def _tagged(library: Library, name: str) -> list[str]:
    return [row.path for row in library.documents(patterns=Filter(tags=(name,)))]


def test_a_tag_holds_for_what_it_was_given_to_and_what_is_in_it(library: Library) -> None:
    assert library.tag("privileged", Filter(patterns=("box#2",))) == ["/case/box#2"]
    assert _tagged(library, "PRIVILEGED") == ["/case/box#2"]
    assert library.tag("case 7", Filter(patterns=("box",))) == ["/case/box"]
    assert _tagged(library, "case 7") == ["/case/box", "/case/box#1", "/case/box#2"]
    assert library.tags() == {"case 7": 3, "Inbox": 1, "privileged": 1}


def test_a_tag_is_taken_away_where_it_was_given(library: Library) -> None:
    library.tag("case", Filter(patterns=("box",)))
    with pytest.raises(DocumentNotFound, match="nobody gave the tag 'case'"):
        library.untag("case", Filter(patterns=("box#2",)))
    assert library.untag("case", Filter(patterns=("box",))) == ["/case/box"]
    assert _tagged(library, "case") == []
    with pytest.raises(DocumentNotFound, match="nobody gave the tag 'Inbox'"):
        library.untag("Inbox", Filter(patterns=("box",)))


def test_a_tag_stays_when_the_file_is_read_again_or_moved(tmp_path: Path) -> None:
    folder = tmp_path / "case"
    folder.mkdir()
    (folder / "a.txt").write_text("First.")
    with Library.open(tmp_path / "library.db") as library:
        add_files(library, folder)
        library.tag("kept", Filter(patterns=("a.txt",)))
        (folder / "a.txt").write_text("Second, longer.")
        add_files(library, folder)
        assert _tagged(library, "kept") == [f"{folder}/a.txt"]
        (folder / "a.txt").rename(folder / "b.txt")
        add_files(library, folder)
        assert _tagged(library, "kept") == [f"{folder}/b.txt"]


def test_a_tag_needs_a_name_and_documents(library: Library) -> None:
    with pytest.raises(FilterInvalid, match="is no name for a tag"):
        library.tag(" ", Filter(patterns=("box",)))
    with pytest.raises(DocumentNotFound, match="no document matches --doc nothing"):
        library.tag("x", Filter(patterns=("nothing",)))
