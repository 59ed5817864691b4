"""Text that a model is measured with: where it comes from, and how it is cut."""

from pathlib import Path

import pytest
from tests.engine.tiny import save_tiny

from unabridged.app.sample_text import manual, pieces, text_of_collection, text_of_files
from unabridged.ingest.adding.add import add
from unabridged.ingest.library import Library
from unabridged.models.errors import ModelError
from unabridged.models.tokenizer import Tokenizer

PROSE = " ".join(f"The {number}th ferry left the old harbour before the market closed." for number in range(2000))


def test_pieces_come_from_all_over_the_text_and_are_of_one_length(tmp_path: Path) -> None:
    tokenizer = Tokenizer.load(save_tiny(tmp_path / "mine"))
    found = pieces(tokenizer, PROSE, 100, 8)
    assert [len(ids) for ids in found] == [100] * 8
    assert len({tuple(ids) for ids in found}) == 8
    assert tokenizer.decode(found[0]).startswith("The 0th ferry")
    assert "The 17" in tokenizer.decode(found[-1])
    assert pieces(tokenizer, manual(), 100, 8) != found


def test_too_little_text_and_no_text_are_refused(tmp_path: Path) -> None:
    tokenizer = Tokenizer.load(save_tiny(tmp_path / "mine"))
    with pytest.raises(ModelError, match=r"7 characters of text are too few \(give 1,600 or more\)"):
        pieces(tokenizer, "A line.", 100, 8)
    assert len(pieces(tokenizer, PROSE[:1600], 100, 8)) == 8
    binary = tmp_path / "short.txt"
    binary.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ModelError, match=r"short\.txt"):
        text_of_files([binary])


@pytest.mark.parametrize("blank", [" ", "\n", " \n\t"])
def test_text_that_is_blank_for_the_most_part_is_refused(tmp_path: Path, smollm2: Path, blank: str) -> None:
    for tokenizer in (Tokenizer.load(save_tiny(tmp_path / "mine")), Tokenizer.load(smollm2)):
        sparse = "".join(f"{word}{blank * 60}" for word in PROSE.split())
        for text in (sparse, PROSE + blank * 20_000):
            with pytest.raises(ModelError, match=r"800 characters of text hold \d+ tokens that are not blank \(25 are"):
                pieces(tokenizer, text, 100, 8)


def test_code_and_tables_are_text(tmp_path: Path, smollm2: Path) -> None:
    lines = "\n".join(f"        total[{number}] = prices[{number}] * 12" for number in range(1000))
    table = "\n".join(f"{number:>10}{'harbour':>20}{number * 7:>20}" for number in range(1000))
    for tokenizer in (Tokenizer.load(save_tiny(tmp_path / "mine")), Tokenizer.load(smollm2)):
        assert len(pieces(tokenizer, lines, 100, 8)) == 8
    assert len(pieces(Tokenizer.load(smollm2), table, 100, 8)) == 8


def test_a_collection_gives_its_documents(tmp_path: Path) -> None:
    folder = tmp_path / "papers"
    folder.mkdir()
    for number in range(3):
        (folder / f"{number}.txt").write_text(f"Paper {number} speaks of dredgers.")
    with Library.open(tmp_path / "library.db") as library:
        with pytest.raises(ModelError, match="the collection default holds no text"):
            text_of_collection(library, "default")
        for _ in add(library, [folder], "harbour"):
            pass
        text = text_of_collection(library, "harbour")
    assert [line for line in text.splitlines() if line] == [
        f"Paper {number} speaks of dredgers." for number in range(3)
    ]
